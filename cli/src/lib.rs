//! `deployctl`: the people's way into a cluster, and a whole cluster on one machine (`deployctl up`).
//!
//! Everything but `up` and `down` speaks to the HTTP API and to nothing else.

pub mod api;
pub mod apply;
pub mod args;
pub mod depends;
pub mod difference;
pub mod docker;
pub mod document;
pub mod events;
pub mod get;
pub mod operate;
pub mod place;
pub mod progress;
pub mod status;
pub mod switches;
pub mod table;
pub mod tar;
pub mod up;
pub mod waiting;

use crate::api::Api;
use crate::args::{Args, Command, DeleteWhat};
use crate::operate::Act;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API.
    #[error(transparent)]
    Api(#[from] api::Error),
    /// A change.
    #[error(transparent)]
    Apply(#[from] apply::Error),
    /// The local cluster.
    #[error(transparent)]
    Up(#[from] up::Error),
    /// `status` found something and said what.
    #[error("something is not well")]
    Unwell,
}

impl Error {
    /// The exit code, as the help promises it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Api(error) | Self::Apply(apply::Error::Api(error)) | Self::Up(up::Error::Api(error)) => match error {
                api::Error::Url { .. } => 2,
                api::Error::NotFound(_) => 3,
                api::Error::Unreachable { .. } => 4,
                api::Error::Deadline { .. } => 5,
                api::Error::Refused { .. } | api::Error::Malformed { .. } => 1,
            },
            Self::Up(up::Error::Ready(up::ready::Error::Process { .. } | up::ready::Error::Cluster { .. })) => 5,
            Self::Apply(_) | Self::Up(_) | Self::Unwell => 1,
        }
    }
}

/// Does what was asked.
pub async fn run(args: &Args) -> Result<(), Error> {
    let dir = || place::directory(&args.place);
    let api = || Api::new(&place::api(&args.place));
    match &args.command {
        Command::Up(asked) => Ok(up::up(&dir(), asked).await?),
        Command::Down(asked) => Ok(up::down::down(&dir(), asked).await?),
        Command::Supervise => Ok(up::supervise(&dir()).await?),
        Command::Status => {
            if status::status(&dir(), &api()?).await? {
                Ok(())
            } else {
                Err(Error::Unwell)
            }
        }
        Command::Apply(asked) => Ok(apply::apply(&api()?, asked).await?),
        Command::Get(asked) => Ok(get::get(&api()?, &asked.what).await?),
        Command::Delete(asked) => match &asked.what {
            DeleteWhat::Podgroup { name, waiting } => Ok(apply::delete(&api()?, name, waiting).await?),
        },
        Command::Scale(asked) => Ok(apply::scale(&api()?, asked).await?),
        Command::Start(asked) => Ok(operate::operate(&api()?, Act::Start, asked).await?),
        Command::Stop(asked) => Ok(operate::operate(&api()?, Act::Stop, asked).await?),
        Command::Restart(asked) => Ok(operate::operate(&api()?, Act::Restart, asked).await?),
        Command::Drift(asked) => Ok(operate::drift(&api()?, asked).await?),
        Command::Evacuate(asked) => Ok(operate::evacuate(&api()?, asked).await?),
        Command::Depends(asked) => Ok(depends::depends(&api()?, &asked.what).await?),
        Command::Events(asked) => Ok(events::events(&api()?, asked).await?),
        Command::DeadLetters(asked) => Ok(events::dead_letters(&api()?, asked).await?),
        Command::Engine(asked) => Ok(switches::engine(&api()?, &asked.what).await?),
        Command::Guard(asked) => Ok(switches::guard(&api()?, asked.what).await?),
        Command::Constraints(asked) => Ok(switches::constraints(&api()?, &asked.what).await?),
        Command::Notifies(asked) => Ok(switches::notifies(&api()?, &asked.what).await?),
    }
}
