//! Rollouts on clusters of real processes and the local Docker engine, through the API and deployctl.
//!
//! | file | shows |
//! |---|---|
//! | `beta` | batches over units with confirmation, also while leaders are killed |
//! | `broken` | a rollout that cannot complete keeps the minimum available, is undone, or rolls back |
//! | `unfetched` | no instance is stopped for an image that cannot be pulled |
//! | `unplaced` | a rollout that no node fits is paused with every node's reason, and touches no instance |
//! | `probe` | clients that follow the ready instances see no failed request |
//! | `in_place` | updates that keep address and node, or the container itself |
//! | `ways` | Recreate and Batch |
//! | `gates` | rollouts that wait for an outside system: readiness gates and drained instances |
//! | `steering` | commands to a rollout in progress |
//! | `removal` | a name that is free immediately, and containers that outlive their group |
//! | `tool` | the same through deployctl, with its exit codes |
//! | `release`, `diary`, `images`, `docker` | what these tests share |

mod diary;
mod docker;
mod images;
mod rollout;

mod beta;
mod broken;
mod gates;
mod in_place;
mod probe;
mod removal;
mod steering;
mod tool;
mod unfetched;
mod unplaced;
mod ways;
