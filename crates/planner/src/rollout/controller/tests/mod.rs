//! What the conductor does, by example and over random histories, in a world of its own.

mod batches;
mod chaos;
mod control;
mod failures;
mod histories;
mod moving;
mod plans;
mod quotas;
mod rolling;
mod scaling;
mod states;
mod world;
