//! Checks and merges of user input.

pub mod callback_address;
pub mod callback_url;
pub mod duplicate_fields;
pub mod lenient_json;
pub mod patch;
pub mod ranges;
pub mod rollout_fields;
pub mod strict;
pub mod validate;
