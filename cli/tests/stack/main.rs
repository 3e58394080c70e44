//! What operators install: the compose stack, its three-of-everything form under `kill -9`, an agent put on a node, and a cluster of three
//! machines.
//!
//! Each test has a compose project, a cluster and names of its own, and removes all of it, also when it fails. Images come
//! from `./deploy/images`; a machine without docker-compose fails here rather than passing in silence.

#[path = "../cluster/cluster.rs"]
#[allow(dead_code, reason = "the tests of whole clusters use more of it")]
mod cluster;
#[path = "../cluster/docker.rs"]
#[allow(dead_code, reason = "the tests of whole clusters use more of it")]
mod docker;
mod document;
mod high_availability;
mod install;
mod machine;
mod one_machine;
mod package;
mod project;
mod rights;
mod three_machines;
mod units;
