//! `deployd-apiserver`: reads the settings and runs the apiserver until a signal.

use apiserver::app::App;
use apiserver::config::Config;
use fabric::shutdown::Shutdown;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let config: Config = fabric::settings::of_process();
    fabric::telemetry::init(&config.telemetry);
    let shutdown = Shutdown::on_signals();
    App::build(config).await?.run(shutdown).await;
    Ok(())
}
