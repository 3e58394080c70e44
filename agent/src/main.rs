//! `deployd-agent`: one per node.

use agent::app::App;
use agent::config::Config;
use fabric::shutdown::Shutdown;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let config: Config = fabric::settings::of_process();
    fabric::telemetry::init(&config.log);
    let shutdown = Shutdown::on_signals();
    let app = Box::pin(App::build(config, shutdown)).await?;
    app.run().await;
    Ok(())
}
