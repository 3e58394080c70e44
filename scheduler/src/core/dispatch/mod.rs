//! Dispatch: brings every node to its desired state by sending orders.
//!
//! [`desired`] derives from the groups what each node has to run, [`node_queue`] keeps one order per node and decides whether the
//! next message is a delta or the whole order, and [`window`] bounds how many nodes have an unanswered order. Only committed
//! decisions are sent; `expect` counts those that are not committed yet.
//!
//! Example: 300 nodes have changes and the window is 64. The leader sends 64 orders; each answer lets the next node's order
//! leave, with everything that was committed for that node in the meantime.

pub(in crate::core) mod desired;
pub(in crate::core) mod dispatcher;
mod node_queue;
mod send;
mod window;
