//! The program `deployctl` itself against an API with canned answers: what it asks, what it prints and where, and the exit
//! codes its help promises.

mod alerts;
mod backups;
mod documents;
mod exits;
mod nodes;
mod observed;
mod outcomes;
mod plans;
mod planted;
mod policies;
mod releases;
mod server;
mod status;
mod terminal;
mod words;
