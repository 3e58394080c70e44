//! The short form of a PodGroupSpec, which people write: `image: nginx:1.27`, `replicas: 3`.
//!
//! It is another notation of the same spec: every field has a key, and the conversion loses nothing in either direction. It
//! lives in the client, because a message or a record never holds it. One table ([`keys`]) drives reading, writing, the
//! reference, `explain` and the JSON schema, so they cannot disagree.

mod compose;
pub(crate) mod keys;
mod read;
mod reference;
mod schema;
mod translate;
mod values;
mod write;

pub(crate) use compose::compose;
pub(crate) use read::{Converted, convert};
pub(crate) use reference::{explain, reference};
pub(crate) use schema::schema;
pub(crate) use values::number_of_text as number;
pub use write::to_short_yaml;
pub(crate) use write::{document, yaml};

#[cfg(test)]
mod tests;
