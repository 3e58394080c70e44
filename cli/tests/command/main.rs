//! The program `deployctl` itself against an API with canned answers: what it asks, what it prints and where, and the exit
//! codes its help promises.

mod access;
mod alerts;
mod backups;
mod doctor;
mod documents;
mod exits;
mod lists;
mod login;
mod names;
mod nodes;
mod observed;
mod outcomes;
mod plans;
mod planted;
mod policies;
mod proxy;
mod questions;
mod rollouts;
mod server;
mod specs;
mod status;
mod terminal;
mod tokens;
mod words;
