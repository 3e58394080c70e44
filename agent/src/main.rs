//! `deployd-agent`: one per node.

use std::process::ExitCode;

use agent::app::App;
use agent::config::Config;
use agent::name_claim::{self, Taken};
use fabric::shutdown::Shutdown;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == "join") {
        return agent::join::run(arguments).await.map(|()| ExitCode::SUCCESS);
    }
    let config: Config = fabric::settings::of_process();
    fabric::telemetry::init(&config.log);
    let ended = run(config, Shutdown::on_signals()).await;
    match ended.as_ref().map_err(|error| error.downcast_ref::<Taken>()) {
        Err(Some(taken)) => {
            eprintln!("Error: {taken}");
            Ok(ExitCode::from(name_claim::EXIT_CODE))
        }
        Ok(()) | Err(None) => ended.map(|()| ExitCode::SUCCESS),
    }
}

async fn run(config: Config, shutdown: Shutdown) -> anyhow::Result<()> {
    let app = Box::pin(App::build(config, shutdown)).await?;
    Ok(app.run().await?)
}
