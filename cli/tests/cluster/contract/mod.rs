//! The contract with the clients of the original, tested on clusters of real processes.
//!
//! | file | shows |
//! |---|---|
//! | `table`, `locks` | the rows of the HTTP contract whose answer the leader decides; all rows: `apiserver/tests/api/contract` |
//! | `shapes`, `console` | the JSON of the original API, and the Python console's way of reading it |
//! | `scenarios`, `acts`, `repair`, `moves`, `upgrades` | the 24 acceptance scenarios of the original API |
//! | `thousand`, `requests`, `expected` | a thousand random requests, and what must be true after them |
//! | `quirks` | that every known defect of the original has its line |

mod locks;
#[path = "../../../../apiserver/tests/api/contract/rows/mod.rs"]
mod rows;
mod table;

mod console;
mod shapes;

pub(crate) mod docker;
mod scenarios;

mod acts;
mod moves;
mod repair;
mod upgrades;

mod expected;
mod requests;
mod thousand;

mod quirks;
