//! Clusters under test: start, use, signal and take down.

mod api;
pub(crate) mod docker;
pub(crate) mod dockerd;
pub(crate) mod extra_node;
mod local_cluster;
pub(crate) mod specs;

use contract::bus::{Identity, Member};

pub(crate) use api::{Answer, Api, Request};
pub(crate) use local_cluster::{Cluster, Error, IMAGE, eventually, make_image_in, signal};

/// One of the cluster's processes on the bus.
pub(crate) fn process(member: Member, name: &str) -> Result<Identity, Error> {
    Ok(Identity { member, name: name.parse().map_err(|_| Error::State)? })
}
