//! Why a command failed, and the exit code that says so.

use crate::commands::up::{demo, ready};
use crate::commands::{apply, audit, auth, backup, ca, confirm, delete, login, node, proxy, rollout, spec, token, up};
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
    Login(#[from] login::Error),
    #[error(transparent)]
    Token(#[from] token::Error),
    #[error(transparent)]
    Auth(#[from] auth::Error),
    #[error(transparent)]
    Audit(#[from] audit::Error),
    #[error(transparent)]
    Proxy(#[from] proxy::Error),
    #[error(transparent)]
    Docker(#[from] devcluster::docker::Error),
    #[error(transparent)]
    Certificates(#[from] ca::Error),
    #[error(transparent)]
    Spec(#[from] spec::Error),
    #[error(transparent)]
    Delete(#[from] delete::Error),
    #[error(transparent)]
    Unconfirmed(#[from] confirm::Unconfirmed),
    /// `status` or `health` found a problem and printed it.
    #[error("something is not well")]
    Unwell,
}

impl Error {
    /// The error of the API that caused this one.
    pub(crate) fn api(&self) -> Option<&api::Error> {
        match self {
            Self::Api(error)
            | Self::Apply(apply::Error::Api(error) | apply::Error::Rollout(rollout::Error::Api(error)))
            | Self::Rollout(rollout::Error::Api(error))
            | Self::Node(node::Error::Api(error) | node::Error::Token(token::Error::Api(error)))
            | Self::Backup(backup::Error::Api(error))
            | Self::Login(login::Error::Api(error))
            | Self::Token(token::Error::Api(error))
            | Self::Auth(auth::Error::Api(error))
            | Self::Audit(audit::Error::Api(error))
            | Self::Proxy(proxy::Error::Api(error))
            | Self::Up(
                up::Error::Api(error)
                | up::Error::Ready(ready::Error::Api(error))
                | up::Error::Demo(demo::Error::Api(error)),
            ) => Some(error),
            Self::Delete(delete::Error::Api(error)) => Some(error),
            _ => None,
        }
    }

    pub fn exit(&self) -> Exit {
        if let Some(error) = self.api() {
            return of_api(error);
        }
        match self {
            Self::Node(node::Error::Interrupted { .. })
            | Self::Rollout(rollout::Error::Interrupted { .. })
            | Self::Apply(apply::Error::Rollout(rollout::Error::Interrupted { .. })) => Exit::Interrupted,
            // A document is part of what the user typed.
            Self::Apply(apply::Error::Document { .. })
            | Self::Delete(delete::Error::File(apply::Error::Document { .. }) | delete::Error::Unconfirmed(_))
            | Self::Node(node::Error::Unconfirmed(_))
            | Self::Unconfirmed(_)
            | Self::Spec(
                spec::Error::Flags(_) | spec::Error::Key { .. } | spec::Error::Value(_) | spec::Error::Container { .. },
            ) => Exit::Usage,
            Self::Endpoint(error) | Self::Login(login::Error::Endpoint(error)) => of_endpoint(error),
            Self::Login(login::Error::Interrupted) => Exit::Interrupted,
            Self::Login(login::Error::Credential(_) | login::Error::Contexts(_))
            | Self::Token(token::Error::Binding(_))
            | Self::Node(node::Error::Label(_))
            | Self::Proxy(proxy::Error::Open(_) | proxy::Error::NoToken) => Exit::Usage,
            Self::Up(up::Error::Ready(ready::Error::Process { .. } | ready::Error::Cluster { .. })) => Exit::Deadline,
            Self::Api(_)
            | Self::Apply(_)
            | Self::Delete(_)
            | Self::Rollout(_)
            | Self::Up(_)
            | Self::Supervise(_)
            | Self::Backup(_)
            | Self::Docker(_)
            | Self::Login(_)
            | Self::Token(_)
            | Self::Auth(_)
            | Self::Audit(_)
            | Self::Proxy(_)
            | Self::Certificates(_)
            | Self::Spec(spec::Error::Exists { .. } | spec::Error::FileExists(_) | spec::Error::Write { .. })
            | Self::Node(_)
            | Self::Unwell => Exit::Failed,
        }
    }
}

fn of_endpoint(error: &endpoint::Error) -> Exit {
    match error {
        endpoint::Error::Stopped { .. } | endpoint::Error::State(_) => Exit::Unreachable,
        endpoint::Error::Url(error) => of_api(error),
        endpoint::Error::Contexts(_) | endpoint::Error::Credential(_) => Exit::Usage,
    }
}

fn of_api(error: &api::Error) -> Exit {
    match error {
        api::Error::Url { .. } | api::Error::Ca { .. } | api::Error::Authorities | api::Error::Credential(_) => {
            Exit::Usage
        }
        api::Error::NotFound(_) | api::Error::NoGroup(_) | api::Error::NoNode(_) => Exit::NotFound,
        api::Error::NotLoggedIn { .. } | api::Error::TokenRefused { .. } | api::Error::Denied { .. } => Exit::Denied,
        api::Error::Unreachable { .. } | api::Error::Untrusted { .. } => Exit::Unreachable,
        api::Error::Deadline { .. } => Exit::Deadline,
        api::Error::Unknown { .. } | api::Error::RetryRefused { .. } | api::Error::TokenInDoubt { .. } => Exit::Unknown,
        api::Error::Refused { .. }
        | api::Error::Malformed { .. }
        | api::Error::NoAccessControl { .. }
        | api::Error::Stale => Exit::Failed,
    }
}
