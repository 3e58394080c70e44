//! `deployctl`: the people's way into a cluster, and a whole cluster on one machine (`deployctl up`).
//!
//! Everything but `up` and `down` speaks to the HTTP API and to nothing else.

pub mod api;
pub mod apply;
pub mod args;
pub mod backup;
pub mod balance;
pub mod depends;
pub mod difference;
pub mod docker;
pub mod document;
pub mod events;
pub mod exit;
pub mod get;
pub mod health;
pub mod node;
pub mod operate;
pub mod place;
pub mod plan;
pub mod progress;
pub mod rollout;
pub mod status;
pub mod switches;
pub mod table;
pub mod tar;
pub mod up;
pub mod waiting;

use fabric::shutdown::Shutdown;

use crate::api::Api;
use crate::args::{Args, Command, DeleteWhat};
use crate::docker::Engine;
use crate::exit::Exit;
use crate::operate::Act;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API.
    #[error(transparent)]
    Api(#[from] api::Error),
    /// The local cluster that was named.
    #[error(transparent)]
    Place(#[from] place::Error),
    /// A change.
    #[error(transparent)]
    Apply(#[from] apply::Error),
    /// A release.
    #[error(transparent)]
    Rollout(#[from] rollout::Error),
    /// The local cluster.
    #[error(transparent)]
    Up(#[from] up::Error),
    /// The balancer.
    #[error(transparent)]
    Balance(#[from] balance::Error),
    /// A backup.
    #[error(transparent)]
    Backup(#[from] backup::Error),
    /// A node.
    #[error(transparent)]
    Node(#[from] node::Error),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] docker::Error),
    /// `status` or `health` found something and said what.
    #[error("something is not well")]
    Unwell,
}

impl Error {
    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Api(error)
            | Self::Apply(apply::Error::Api(error) | apply::Error::Release(rollout::Error::Api(error)))
            | Self::Rollout(rollout::Error::Api(error))
            | Self::Node(node::Error::Api(error))
            | Self::Backup(backup::Error::Api(error))
            | Self::Up(
                up::Error::Api(error)
                | up::Error::Ready(up::ready::Error::Api(error))
                | up::Error::Demo(up::demo::Error::Api(error)),
            ) => of_api(error),
            Self::Node(node::Error::Interrupted { .. })
            | Self::Rollout(rollout::Error::Interrupted { .. })
            | Self::Apply(apply::Error::Release(rollout::Error::Interrupted { .. })) => Exit::Interrupted,
            // A document is part of what the user typed.
            Self::Apply(apply::Error::Document { .. }) => Exit::Usage,
            Self::Place(_) => Exit::Unreachable,
            Self::Up(up::Error::Ready(up::ready::Error::Process { .. } | up::ready::Error::Cluster { .. })) => {
                Exit::Deadline
            }
            Self::Apply(_)
            | Self::Rollout(_)
            | Self::Up(_)
            | Self::Backup(_)
            | Self::Balance(_)
            | Self::Engine(_)
            | Self::Node(_)
            | Self::Unwell => Exit::Failed,
        }
    }
}

fn of_api(error: &api::Error) -> Exit {
    match error {
        api::Error::Url { .. } => Exit::Usage,
        api::Error::NotFound(_) => Exit::NotFound,
        api::Error::Unreachable { .. } => Exit::Unreachable,
        api::Error::Deadline { .. } => Exit::Deadline,
        api::Error::Unknown { .. } | api::Error::RetryRefused { .. } => Exit::Unknown,
        api::Error::Refused { .. } | api::Error::Malformed { .. } | api::Error::Stale => Exit::Failed,
    }
}

/// Runs the command.
pub async fn run(args: &Args) -> Result<Exit, Error> {
    let dir = || place::directory(&args.place);
    let api = || -> Result<Api, Error> { Ok(Api::new(&place::api(&args.place)?)?) };
    match &args.command {
        Command::Up(asked) => up::up(&dir(), asked).await?,
        Command::Down(asked) => up::down::down(&dir(), asked).await?,
        Command::Supervise => up::supervise(&dir()).await?,
        Command::Status => {
            if !status::status(&dir(), &api()?).await? {
                return Err(Error::Unwell);
            }
        }
        Command::Health(asked) => {
            if !health::health(asked).await {
                return Err(Error::Unwell);
            }
        }
        Command::Balance(asked) => balance::balance(asked, Shutdown::on_signals()).await?,
        Command::Clear(asked) => {
            let removed = Engine::connect().await?.remove_cluster(&asked.cluster).await?;
            println!(
                "removed {} containers and {} networks of {}",
                removed.containers, removed.networks, asked.cluster
            );
        }
        Command::Apply(asked) => apply::apply(&api()?, asked).await?,
        Command::Plan(asked) => return Ok(plan::plan(&api()?, asked).await?),
        Command::Rollout(asked) => rollout::rollout(&api()?, &asked.what).await?,
        Command::Gate(asked) => rollout::gate(&api()?, asked).await?,
        Command::Drained(asked) => rollout::drained(&api()?, asked).await?,
        Command::Get(asked) => get::get(&api()?, &asked.what).await?,
        Command::Delete(asked) => match &asked.what {
            DeleteWhat::Podgroup { name, mode, waiting } => apply::delete(&api()?, name, *mode, waiting).await?,
        },
        Command::Scale(asked) => apply::scale(&api()?, asked).await?,
        Command::Start(asked) => operate::operate(&api()?, Act::Start, asked).await?,
        Command::Stop(asked) => operate::operate(&api()?, Act::Stop, asked).await?,
        Command::Restart(asked) => operate::operate(&api()?, Act::Restart, asked).await?,
        Command::Drift(asked) => operate::drift(&api()?, asked).await?,
        Command::Evacuate(asked) => operate::evacuate(&api()?, asked).await?,
        Command::Node(asked) => node::node(&api()?, &asked.what).await?,
        Command::Depends(asked) => depends::depends(&api()?, &asked.what).await?,
        Command::Events(asked) => events::events(&api()?, asked).await?,
        Command::DeadLetters(asked) => events::dead_letters(&api()?, asked).await?,
        Command::Engine(asked) => switches::engine(&api()?, &asked.what).await?,
        Command::Guard(asked) => switches::guard(&api()?, asked.what).await?,
        Command::Constraints(asked) => switches::constraints(&api()?, &asked.what).await?,
        Command::Backup(asked) => backup::backup(&api()?, asked).await?,
        Command::Restore(asked) => backup::restore(&api()?, asked).await?,
        Command::Notifies(asked) => switches::notifies(&api()?, &asked.what).await?,
    }
    Ok(Exit::Done)
}
