//! Records in etcd and their keys.

pub mod keys;
pub mod layout;
pub mod progress;
pub mod record;
pub mod store;
