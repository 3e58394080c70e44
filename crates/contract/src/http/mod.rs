//! Bodies of the HTTP API.

pub mod api;
pub mod docker_inspect;
pub mod exit;
pub mod logs;
pub mod node_view;
pub mod rollout_view;
pub mod state;
