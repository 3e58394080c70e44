//! A whole cluster on one machine: plans, starts, supervises and stops its processes. `deployctl up` and `down` use it.
//!
//! [`start::prepare`] inspects the machine and writes the plan to `state.json`, the supervisor runs that plan in this process
//! or in the background, and [`stop`] ends the processes and removes the containers.

pub mod child;
pub mod docker;
pub mod keys;
pub mod lock;
pub mod plan;
pub mod ports;
pub mod preflight;
pub mod probe;
pub mod restart;
pub mod start;
pub mod state;
pub mod stop;
pub mod supervisor;
pub mod tar;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why the processes of a cluster were not started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot prepare {path}; choose another directory with --dir if this one may not be written")]
    Prepare {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot prepare the keys of the schedulers")]
    Key(#[source] fabric::signing::Error),
    #[error("cannot prepare the certificates of etcd")]
    Certificate(#[source] fabric::certificates::Error),
    #[error("cannot start the supervisor in the background")]
    Detach(#[source] io::Error),
    #[error("the supervisor ended: {reason}\nthe end of {}:\n{tail}", log.display())]
    SupervisorEnded { reason: String, log: PathBuf, tail: String },
    #[error("the supervisor (pid {pid}) did not stop in {} s; its log is {}", after.as_secs(), log.display())]
    Stuck { pid: u32, after: Duration, log: PathBuf },
    #[error(transparent)]
    State(#[from] state::Error),
    #[error(transparent)]
    Preflight(#[from] preflight::Error),
    #[error(transparent)]
    Ports(#[from] ports::Error),
    #[error(transparent)]
    Docker(#[from] docker::Error),
    #[error(transparent)]
    Supervisor(#[from] supervisor::Error),
}
