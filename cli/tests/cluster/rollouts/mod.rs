//! Releases of whole clusters of real processes on the local Docker engine, as the people who run them see them.
//!
//! | file | shows |
//! |---|---|
//! | `beta` | groups over units with confirmation, also while leaders are killed |
//! | `broken` | a release that cannot work stalls with the minimum serving, is undone, or goes back by itself |
//! | `unfetched` | no instance is stopped for an image that cannot be pulled |
//! | `unplaced` | a rollout that no node fits is paused with every node's reason, and touches no instance |
//! | `probe` | clients that follow the ready instances see no failed request |
//! | `in_place` | the same address and node, or the very same container |
//! | `ways` | Recreate and Batch |
//! | `gates` | rollouts that wait for an outside system: readiness gates and drained instances |
//! | `steering` | what people say to a release on its way |
//! | `removal` | a name that is free at once, and containers that outlive their group |
//! | `tool` | the same through deployctl, with its exit codes |
//! | `release`, `diary`, `images`, `docker` | what these tests share |

mod diary;
mod docker;
mod images;
mod release;

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
