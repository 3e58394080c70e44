//! Cuts a node off the bus for less and for more than `lost_after`.
//!
//! Its containers keep running. Below the limit nothing may change. Beyond it stateless instances also run elsewhere until the node
//! returns and removes its copies; stateful instances stay, so they never run twice.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use testkit::random::Random;

use super::{Findings, Scenario, create, group_on};
use crate::chaos::checks::Promise;
use crate::chaos::control_groups::ControlGroups;
use crate::chaos::fault::InjectedFault;
use crate::chaos::tcp_proxy::{Link, TcpProxy};
use crate::cluster::docker::ContainerView;
use crate::cluster::extra_node::{Connections, NAME, Node};
use crate::cluster::{Answer, Cluster, Error, eventually};

/// Well below the limit, even on a slow machine.
const BELOW: Duration = Duration::from_secs(8);
/// Instances of each group, so that every node has some.
const INSTANCES: u32 = 4;
/// Enough for starts and losses on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    Below,
    /// Until its instances run elsewhere.
    Beyond,
}

#[derive(Debug)]
pub(crate) struct NodeCut {
    cuts: Vec<Cut>,
    node: Option<Node>,
    line: Option<TcpProxy>,
    findings: Findings,
}

impl NodeCut {
    pub(crate) fn new(cuts: Vec<Cut>) -> Self {
        Self { cuts, node: None, line: None, findings: Findings::default() }
    }

    fn set(&self, line: Link) {
        if let Some(cuttable) = &self.line {
            cuttable.set(line);
        }
    }

    async fn below(&mut self, cluster: &Cluster, how: Link) -> Result<(), Error> {
        let (before, lost) = (look(cluster).await?, times_lost(cluster).await);
        self.set(how);
        tokio::time::sleep(BELOW).await;
        self.set(Link::Whole);
        back(cluster).await?;
        let disturbed = before.disturbed(&look(cluster).await?);
        // A machine that was paused may have cut the node for longer than the limit.
        let too_long = times_lost(cluster).await != lost;
        self.findings.count("cuts below lost_after that became longer ones", None, usize::from(too_long));
        if !too_long {
            self.findings.count("containers restarted or moved by a cut below lost_after", Some("0"), disturbed.len());
            for what in disturbed {
                self.findings.broke(Promise::Spared, format!("a cut below lost_after: {what}"));
            }
        }
        Ok(())
    }

    async fn beyond(&mut self, cluster: &Cluster, how: Link) -> Result<(), Error> {
        let before = look(cluster).await?;
        self.set(how);
        eventually(PATIENCE, "the work of the cut node runs elsewhere", async || {
            let now = look(cluster).await.ok()?;
            let elsewhere = wandering(&now).filter(|seen| seen.running && seen.node != NAME);
            (elsewhere.map(|seen| seen.instance).collect::<BTreeSet<_>>().len() == INSTANCES as usize).then_some(())
        })
        .await?;
        self.set(Link::Whole);
        let healed = Instant::now();
        let exact = eventually(PATIENCE, "exactly the wanted containers", async || {
            let now = look(cluster).await.ok()?;
            let running: Vec<u32> = wandering(&now).filter(|seen| seen.running).map(|seen| seen.instance).collect();
            let all = running.iter().collect::<BTreeSet<_>>().len() == INSTANCES as usize;
            (all && wandering(&now).count() == INSTANCES as usize).then_some(())
        });
        match exact.await {
            Ok(()) => self.findings.time("exact count after the heal", Some("<= 15 s"), healed.elapsed()),
            Err(error) => self.findings.broke(Promise::Once, error.to_string()),
        }
        back(cluster).await?;
        let after = look(cluster).await?;
        let disturbed = before.disturbed(&after).into_iter().filter(|what| what.contains("state-")).collect::<Vec<_>>();
        self.findings.count("stateful containers restarted or moved by a cut", Some("0"), disturbed.len());
        for what in disturbed {
            self.findings.broke(Promise::Spared, format!("a stateful instance: {what}"));
        }
        Ok(())
    }
}

impl Scenario for NodeCut {
    fn flags(&self) -> &'static [&'static str] {
        &["--nodes", "2", "--suspect-after", "8s", "--lost-after", "25s", "--failover-grace", "15s"]
    }

    fn twice(&self) -> fn(&str) -> bool {
        // A lost node keeps its copies until it returns.
        |group| !group.starts_with("state-")
    }

    async fn prepare(&mut self, cluster: &Cluster) -> Result<(), Error> {
        let nats = cluster.nats().ok_or(Error::State)?;
        let line = TcpProxy::to(nats.trim_start_matches("nats://").to_owned()).await.map_err(Error::Run)?;
        let ways = Connections {
            nats: format!("nats://{}", line.address),
            engine: devcluster::docker::socket(),
            group: "default",
        };
        self.line = Some(line);
        self.node = Some(Node::join(cluster, ways).await?);
        for (word, stateful) in [("wander", false), ("state", true)] {
            let name = format!("{word}-{}.web.web", cluster.tag());
            let body = group_on(&name, INSTANCES, None, |pod| pod["Stateful"] = stateful.into());
            create(cluster, word, body).await?;
        }
        eventually(PATIENCE, "both groups run, on the node to be cut too", async || {
            let now = look(cluster).await.ok()?;
            let running = now.seen().filter(|seen| seen.running).count() == 2 * INSTANCES as usize;
            let there = |word: &str| now.seen().any(|seen| seen.node == NAME && seen.group.starts_with(word));
            (running && there("wander") && there("state")).then_some(())
        })
        .await
    }

    async fn inject_faults(&mut self, cluster: &Cluster, random: &mut Random) -> Result<Vec<InjectedFault>, Error> {
        let mut happened = Vec::new();
        for cut in random.shuffled(self.cuts.clone()) {
            happened.push(InjectedFault::now("node cut from the bus", NAME));
            match cut {
                Cut::Below => self.below(cluster, how(random)).await?,
                Cut::Beyond => self.beyond(cluster, how(random)).await?,
            }
        }
        Ok(happened)
    }

    async fn findings(&mut self, _cluster: &Cluster) -> Result<Findings, Error> {
        Ok(std::mem::take(&mut self.findings))
    }
}

/// Like a pulled cable, or like a closed port.
fn how(random: &mut Random) -> Link {
    if random.chance(50) { Link::Silent } else { Link::Refused }
}

async fn look(cluster: &Cluster) -> Result<ControlGroups, Error> {
    let ours = |seen: &ContainerView| seen.group.starts_with("wander-") || seen.group.starts_with("state-");
    ControlGroups::of(&cluster.engine, &cluster.id, ours).await
}

fn wandering(now: &ControlGroups) -> impl Iterator<Item = &ContainerView> {
    now.seen().filter(|seen| seen.group.starts_with("wander-"))
}

async fn back(cluster: &Cluster) -> Result<(), Error> {
    eventually(PATIENCE, "the node is alive again", async || {
        (cluster.api.node(NAME).await?.state == "alive").then_some(())
    })
    .await
}

/// How often the node was considered lost.
async fn times_lost(cluster: &Cluster) -> usize {
    let Answer::Said { status: 200, body } = cluster.api.get(0, "/api/events?kind=Node&limit=1000").await else {
        return 0;
    };
    let events = body["Events"].as_array().cloned().unwrap_or_default();
    let lost = |event: &&serde_json::Value| {
        event["Node"] == NAME && event["Message"].as_str().is_some_and(|text| text.starts_with("lost"))
    };
    events.iter().filter(lost).count()
}
