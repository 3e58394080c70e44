//! `engine`, `guard`, `constraints` and `notifies`: what holds the cluster back, and who is told.

use std::time::Duration;

use contract::switches::Constraint;
use serde_json::json;

use crate::api::{self, Api, Config, Patience};
use crate::args::{ConstraintsWhat, EngineWhat, GuardWhat, NotifiesWhat};

/// How long to try; a switch is turned at once or not at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// `deployctl engine`
pub async fn engine(api: &Api, what: &EngineWhat) -> Result<(), api::Error> {
    match what {
        EngineWhat::Status => {
            println!("engine: {}", if api.started().await? { "started" } else { "stopped" });
            println!("{}", config_text(api.config().await?));
            guard(api, GuardWhat::Status).await
        }
        EngineWhat::Start => {
            api.run_engine(true, &mut patience()).await?;
            println!("the engine is started");
            Ok(())
        }
        EngineWhat::Stop => {
            api.run_engine(false, &mut patience()).await?;
            println!("the engine is stopped; `deployctl engine start` starts it again");
            Ok(())
        }
        EngineWhat::Config { readonly: None, maintenance: None } => {
            println!("{}", config_text(api.config().await?));
            Ok(())
        }
        EngineWhat::Config { readonly, maintenance } => {
            let change = json!({ "readonly": readonly, "maintenance": maintenance });
            println!("{}", config_text(api.configure(&change, &mut patience()).await?));
            Ok(())
        }
    }
}

/// `deployctl guard`
pub async fn guard(api: &Api, what: GuardWhat) -> Result<(), api::Error> {
    match what {
        GuardWhat::Status => {}
        GuardWhat::Work => api.guard(true, &mut patience()).await?,
        GuardWhat::Sleep => api.guard(false, &mut patience()).await?,
    }
    println!("guard: {}", if api.guarding().await? { "working" } else { "sleeping" });
    Ok(())
}

/// `deployctl constraints`
pub async fn constraints(api: &Api, what: &ConstraintsWhat) -> Result<(), api::Error> {
    match what {
        ConstraintsWhat::Get { kind } => match api.constraint(kind).await? {
            Some(constraint) => println!("{}", constraint.expression()),
            None => println!("no constraint of type {kind}"),
        },
        ConstraintsWhat::Set { kind, value, equal, hard } => {
            let constraint = Constraint { kind: kind.clone(), equal: *equal, value: value.clone(), soft: !hard };
            api.constrain(&constraint, &mut patience()).await?;
            println!("{} holds for every new placement", constraint.expression());
        }
        ConstraintsWhat::Delete { kind } => {
            api.release(kind, &mut patience()).await?;
            println!("the constraint of type {kind} is deleted");
        }
    }
    Ok(())
}

/// `deployctl notifies`
pub async fn notifies(api: &Api, what: &NotifiesWhat) -> Result<(), api::Error> {
    match what {
        NotifiesWhat::List => {
            let callbacks = api.callbacks().await?;
            println!("{}", if callbacks.is_empty() { "no callbacks".to_owned() } else { callbacks.join("\n") });
        }
        NotifiesWhat::Add { url } => {
            api.add_callback(url, &mut patience()).await?;
            println!("{url} will be told what goes wrong");
        }
        NotifiesWhat::Delete { url } => {
            api.remove_callback(url, &mut patience()).await?;
            println!("{url} is told nothing any more");
        }
    }
    Ok(())
}

fn config_text(config: Config) -> String {
    format!("readonly: {}\nmaintenance: {}", config.readonly, config.maintenance)
}

fn patience() -> Patience {
    Patience::for_span(PATIENCE, |_| {})
}
