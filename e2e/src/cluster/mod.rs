//! Clusters under test: start, use, signal and take down.

mod api;
pub(crate) mod docker;
pub(crate) mod dockerd;
pub(crate) mod extra_node;
mod local_cluster;
pub(crate) mod specs;

pub(crate) use api::{Answer, Api, Request};
pub(crate) use local_cluster::{Cluster, Error, IMAGE, eventually, make_image_in, signal};
