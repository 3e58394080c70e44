//! Tests of the contract as a whole: golden files of every message, what is refused at the door, and the laws of travelling.

mod backup;
mod backup_samples;
mod delta;
mod earlier;
mod golden;
mod layout;
mod node_samples;
mod progress_samples;
mod release_rules;
mod release_samples;
mod releases;
mod samples;
mod validate;
