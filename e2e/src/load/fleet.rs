//! All simulated nodes of a run: one task each, a few connections for all of them.

use std::sync::Arc;
use std::time::Duration;

use fabric::clock::Clock;
use fabric::nats::{Args, Bus, Error};
use fabric::tasks::{Scoped, spawn_scoped};
use tokio::runtime::Handle;

use crate::load::node::{Common, Counts, Node};

/// Nodes that share a connection; real ones have one each, which a single process has no file handles for.
const NODES_PER_CONNECTION: u32 = 500;

/// The nodes; they stop when it is dropped.
pub(crate) struct Fleet {
    pub(crate) counts: Arc<Counts>,
    _nodes: Vec<Scoped>,
}

impl Fleet {
    /// Starts so many nodes. Their connections live on `connections`, a runtime of their own: a thousand nodes that all work at once
    /// would keep them from reading for so long that the server gives them up.
    pub(crate) async fn start(
        url: &str,
        nodes: u32,
        start_after: Duration,
        connections: &Handle,
    ) -> Result<Self, Error> {
        let common = Common { clock: Clock::start(), start_after, counts: Arc::default(), specs: Arc::default() };
        let mut tasks = Vec::new();
        let mut bus = None;
        for number in 0..nodes {
            if number % NODES_PER_CONNECTION == 0 {
                let (args, name) = (Args::at(url), format!("nodes-{number}"));
                let connecting = connections.spawn(async move { Bus::connect(&args, &name).await });
                bus = Some(connecting.await.map_err(|_| Error::Disconnected)??);
            }
            let Some(bus) = bus.clone() else { continue };
            let node = Node::start(number, bus, &common).await?;
            tasks.push(spawn_scoped("node", node.run()));
        }
        Ok(Self { counts: common.counts, _nodes: tasks })
    }
}
