//! `engine`, `guard`, `constraints` and `notifies`: the switches of the cluster and its webhooks.

use std::time::Duration;

use contract::switches::Constraint;
use serde_json::json;

use crate::api::{self, Api, Config, Retry};
use crate::args::{ConstraintsWhat, EngineWhat, GuardWhat, NotifiesWhat};
use crate::output::{list, lists, show};

const RETRY_FOR: Duration = Duration::from_secs(30);

/// `deployctl engine`
pub async fn engine(api: &Api, what: &EngineWhat) -> Result<(), api::Error> {
    match what {
        EngineWhat::Status => {
            println!("scheduling: {}", if api.started().await? { "started" } else { "stopped" });
            println!("{}", config_text(api.config().await?));
            guard(api, GuardWhat::Status).await
        }
        EngineWhat::Start => {
            api.run_engine(true, &mut retry()).await?;
            println!("scheduling is started");
            Ok(())
        }
        EngineWhat::Stop => {
            api.run_engine(false, &mut retry()).await?;
            println!("scheduling is stopped; `deployctl engine start` starts it again");
            Ok(())
        }
        EngineWhat::Config { readonly: None, maintenance: None } => {
            println!("{}", config_text(api.config().await?));
            Ok(())
        }
        EngineWhat::Config { readonly, maintenance } => {
            let change = json!({ "readonly": readonly, "maintenance": maintenance });
            println!("{}", config_text(api.configure(&change, &mut retry()).await?));
            Ok(())
        }
    }
}

/// `deployctl guard`
pub async fn guard(api: &Api, what: GuardWhat) -> Result<(), api::Error> {
    match what {
        GuardWhat::Status => {}
        GuardWhat::Work => api.guard(true, &mut retry()).await?,
        GuardWhat::Sleep => api.guard(false, &mut retry()).await?,
    }
    println!("guard: {}", if api.guarding().await? { "working" } else { "sleeping" });
    Ok(())
}

/// `deployctl constraints`
pub async fn constraints(api: &Api, what: &ConstraintsWhat) -> Result<(), api::Error> {
    match what {
        ConstraintsWhat::Get { kind, output } => {
            let constraint = api.constraint(kind).await?;
            show(*output, &constraint, || match &constraint {
                Some(constraint) => constraint.expression(),
                None => format!("no constraint of type {kind}"),
            });
        }
        ConstraintsWhat::Set { kind, value, equal, hard } => {
            let constraint = Constraint { kind: kind.clone(), equal: *equal, value: value.clone(), soft: !hard };
            api.constrain(&constraint, &mut retry()).await?;
            println!("{} applies to every new placement", constraint.expression());
        }
        ConstraintsWhat::Delete { kind } => {
            api.remove_constraint(kind, &mut retry()).await?;
            println!("the constraint of type {kind} is deleted");
        }
    }
    Ok(())
}

/// `deployctl notifies`
pub async fn notifies(api: &Api, what: &NotifiesWhat) -> Result<(), api::Error> {
    match what {
        NotifiesWhat::List { listing } => {
            let read = async || Ok(lists::callbacks(&api.callbacks().await?));
            list::show(*listing, read).await?;
        }
        NotifiesWhat::Add { url } => {
            api.add_callback(url, &mut retry()).await?;
            println!("webhook {url} added");
        }
        NotifiesWhat::Delete { url } => {
            api.remove_callback(url, &mut retry()).await?;
            println!("webhook {url} removed");
        }
    }
    Ok(())
}

fn config_text(config: Config) -> String {
    format!("readonly: {}\nmaintenance: {}", config.readonly, config.maintenance)
}

fn retry() -> Retry {
    Retry::for_span(RETRY_FOR, |_| {})
}
