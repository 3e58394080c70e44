//! What the conductor does, by example and over random histories, in a world of its own.

mod batches;
mod chaos;
mod control;
mod failures;
mod histories;
mod moving;
mod plans;
mod rolling;
mod scaling;
mod world;

use proptest::test_runner::{Config, RngSeed};

/// The same histories in every run, so that only a change can make one fail; `PROPTEST_RNG_SEED` tries others.
fn cases(cases: u32) -> Config {
    let usual = Config::default();
    let rng_seed = match usual.rng_seed {
        RngSeed::Random => RngSeed::Fixed(20),
        RngSeed::Fixed(seed) => RngSeed::Fixed(seed),
    };
    Config { cases, rng_seed, failure_persistence: None, ..usual }
}
