//! `deployd-notifier`: reads the settings and runs the notifier until a signal.

use fabric::shutdown::Shutdown;
use notifier::app::App;
use notifier::config::Config;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let config: Config = fabric::settings::of_process();
    fabric::telemetry::init(&config.telemetry);
    let shutdown = Shutdown::on_signals();
    App::build(config).await?.run(shutdown).await?;
    Ok(())
}
