//! The simulator: real scheduler and agent cores on simulated etcd, NATS, Docker and time. One seed is one history.
//!
//! Nothing here touches a network, a disk or a clock. Start reading at [`run::run`].

/// What must hold: the invariants, the model that replays all commands, and the checks of each commit and each action.
pub mod checks;
pub mod describe;
/// What goes wrong: the kinds of faults and what each does to the world.
pub mod faults;
pub mod mutant;
pub mod progress_bar;
pub mod run;
pub mod scenario;
pub mod trace;
/// What users do: commands, specs and the answers to rollouts that wait for someone.
pub mod workload;
/// Processes, servers, engines and time.
pub mod world;
