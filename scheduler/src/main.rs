//! deployd-scheduler: decides what runs where. Run two or three; one leads, the others stand by.

use fabric::shutdown::Shutdown;
use scheduler::app::App;
use scheduler::config::Config;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let config: Config = fabric::settings::of_process();
    fabric::telemetry::init(&config.telemetry);
    let shutdown = Shutdown::on_signals();
    let app = tokio::select! {
        app = App::build(config) => app?,
        () = shutdown.wait() => return Ok(()),
    };
    app.run(shutdown).await?;
    Ok(())
}
