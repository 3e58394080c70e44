//! Upgrades without failed requests: apiservers that restart one after the other, and a cluster whose processes are replaced one
//! by one by those of another version.

#[path = "../cluster/cluster.rs"]
#[allow(dead_code, reason = "the tests of whole clusters use more of it")]
mod cluster;
mod commands;
#[path = "../cluster/docker.rs"]
#[allow(dead_code, reason = "the tests of whole clusters use more of it")]
mod docker;
mod fleet;
mod load;
mod mixed;
mod restarts;
