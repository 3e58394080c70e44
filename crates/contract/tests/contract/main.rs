//! Tests of the contract as a whole: golden files of every message, and the laws of travelling.

mod golden;
mod samples;
mod travel;
mod validate;
