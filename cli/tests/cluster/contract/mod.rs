//! The contract with deployd's clients, asked of whole clusters of real processes.
//!
//! | file | shows |
//! |---|---|
//! | `row`, `table` | every row of the HTTP contract, through one apiserver and through two in turn |
//! | `routes`, `groups`, `locks`, `dependencies`, `fleet`, `switches` | the rows themselves |
//! | `shapes`, `console` | the JSON of the original API, and the Python console's way of reading it |
//! | `scenarios`, `acts`, `mending`, `moves`, `releases` | the 24 acceptance scenarios of the original API |
//! | `thousand`, `requests`, `wishes` | a thousand random requests, and what must be true after them |
//! | `quirks` | that every known defect of the original has its line |

mod row;
mod table;

mod dependencies;
mod fleet;
mod groups;
mod locks;
mod routes;
mod switches;

mod console;
mod shapes;

pub(crate) mod docker;
mod scenarios;

mod acts;
mod mending;
mod moves;
mod releases;

mod requests;
mod thousand;
mod wishes;

mod quirks;
