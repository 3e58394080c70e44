//! Why a command failed, and the exit code that says so.

use crate::commands::up::{demo, ready};
use crate::commands::{apply, backup, ca, node, rollout, up};
use crate::exit::Exit;
use crate::{api, endpoint};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Api(#[from] api::Error),
    #[error(transparent)]
    Endpoint(#[from] endpoint::Error),
    #[error(transparent)]
    Apply(#[from] apply::Error),
    #[error(transparent)]
    Rollout(#[from] rollout::Error),
    #[error(transparent)]
    Up(#[from] up::Error),
    #[error(transparent)]
    Supervise(#[from] devcluster::Error),
    #[error(transparent)]
    Backup(#[from] backup::Error),
    #[error(transparent)]
    Node(#[from] node::Error),
    #[error(transparent)]
    Docker(#[from] devcluster::docker::Error),
    #[error(transparent)]
    Certificates(#[from] ca::Error),
    /// `status` or `health` found a problem and printed it.
    #[error("something is not well")]
    Unwell,
}

impl Error {
    pub fn exit(&self) -> Exit {
        match self {
            Self::Api(error)
            | Self::Apply(apply::Error::Api(error) | apply::Error::Rollout(rollout::Error::Api(error)))
            | Self::Rollout(rollout::Error::Api(error))
            | Self::Node(node::Error::Api(error))
            | Self::Backup(backup::Error::Api(error))
            | Self::Up(
                up::Error::Api(error)
                | up::Error::Ready(ready::Error::Api(error))
                | up::Error::Demo(demo::Error::Api(error)),
            ) => of_api(error),
            Self::Node(node::Error::Interrupted { .. })
            | Self::Rollout(rollout::Error::Interrupted { .. })
            | Self::Apply(apply::Error::Rollout(rollout::Error::Interrupted { .. })) => Exit::Interrupted,
            // A document is part of what the user typed.
            Self::Apply(apply::Error::Document { .. }) => Exit::Usage,
            Self::Endpoint(_) => Exit::Unreachable,
            Self::Up(up::Error::Ready(ready::Error::Process { .. } | ready::Error::Cluster { .. })) => Exit::Deadline,
            Self::Apply(_)
            | Self::Rollout(_)
            | Self::Up(_)
            | Self::Supervise(_)
            | Self::Backup(_)
            | Self::Docker(_)
            | Self::Certificates(_)
            | Self::Node(_)
            | Self::Unwell => Exit::Failed,
        }
    }
}

fn of_api(error: &api::Error) -> Exit {
    match error {
        api::Error::Url { .. } | api::Error::Ca { .. } => Exit::Usage,
        api::Error::NotFound(_) => Exit::NotFound,
        api::Error::Unreachable { .. } | api::Error::Untrusted { .. } => Exit::Unreachable,
        api::Error::Deadline { .. } => Exit::Deadline,
        api::Error::Unknown { .. } | api::Error::RetryRefused { .. } => Exit::Unknown,
        api::Error::Refused { .. } | api::Error::Malformed { .. } | api::Error::Stale => Exit::Failed,
    }
}
