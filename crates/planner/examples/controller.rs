//! Times the planning of a large group that names a strategy: at rest, and with a release waiting for one instance.
//!
//! `cargo run -p planner --example controller`

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

use contract::digest::Digest;
use contract::name::NodeName;
use contract::pod_id::PodId;
use contract::query::Liveness;
use contract::record::{GroupRecord, Slot};
use contract::report::{ContainerFacts, EngineState, NodeFacts, PodFacts};
use contract::rollout::{Strategy, StrategyType};
use contract::spec::{ContainerSpec, PodGroupSpec, PodSpec};
use contract::state::RunState;
use contract::time::Timestamp;
use planner::group::{GroupFacts, GroupPlan, Patience, Revision, plan_group};
use planner::placement::{Candidate, Need, Tenants};
use planner::rollout::controller::RolloutState;

const INSTANCES: usize = 1_000;
const NODES: usize = 50;
const PLANS: u32 = 20;

struct NoTenants;

impl Tenants for NoTenants {
    fn visit(&self, _: &NodeName, _: &mut dyn FnMut(&PodId, &PodSpec)) {}
}

/// A group, the nodes it runs on and how far its release is.
struct SampleGroup {
    record: GroupRecord,
    slots: Vec<Slot>,
    hosts: BTreeMap<NodeName, Candidate>,
    release: Option<RolloutState>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut sample = SampleGroup::new()?;
    for _ in 0..4 {
        let plan = sample.plan();
        (sample.slots, sample.release) = (plan.slots, plan.release.or(sample.release));
        sample.record = plan.record.unwrap_or(sample.record);
    }
    println!("{INSTANCES} instances at rest: {:.2?} a plan", sample.time());
    sample.record.former.insert(0, sample.record.spec.pod.clone());
    (sample.record.spec.version, sample.record.spec.pod.version) = (1, 1);
    sample.record.spec.pod.containers[0].image = "demo:2".to_owned();
    let plan = sample.plan();
    (sample.slots, sample.release) = (plan.slots, plan.release);
    println!("{INSTANCES} instances in a release: {:.2?} a plan", sample.time());
    Ok(())
}

impl SampleGroup {
    fn new() -> Result<Self, Box<dyn Error>> {
        let container =
            ContainerSpec { image: "demo:1".to_owned(), cpu_limit: 1, memory_limit: 64 << 20, ..Default::default() };
        let pod = PodSpec { name: "web".to_owned(), containers: vec![container], ..Default::default() };
        let strategy = Strategy { kind: StrategyType::RollingUpdate, ..Strategy::default() };
        let spec = PodGroupSpec {
            name: "web".to_owned(),
            num_instances: i64::try_from(INSTANCES)?,
            strategy: Some(strategy),
            pod,
            ..Default::default()
        };
        let facts = NodeFacts { memory: 1 << 40, cpu_millis: 1_000_000, ..Default::default() };
        let host = Candidate {
            facts,
            used: Need::default(),
            liveness: Liveness::Alive,
            engine: EngineState::Up,
            cordon: None,
            decommissioned: false,
        };
        let nodes = (0..NODES).map(|node| format!("node-{node:02}").parse().map(|name| (name, host.clone())));
        let hosts = nodes.collect::<Result<_, contract::name::Error>>()?;
        Ok(Self { record: GroupRecord { spec, ..Default::default() }, slots: Vec::new(), hosts, release: None })
    }

    fn time(&self) -> Duration {
        let begun = Instant::now();
        (0..PLANS).for_each(|_| drop(self.plan()));
        begun.elapsed() / PLANS
    }

    /// One plan; every pod that has a place runs there as it should.
    fn plan(&self) -> GroupPlan {
        let pods = self.record.former.iter().map(|(version, pod)| (*version, pod));
        let pods = pods.chain([(self.record.spec.version, &self.record.spec.pod)]);
        let revisions: BTreeMap<u32, Revision> =
            pods.map(|(version, pod)| (version, Revision::new(pod.clone().into(), Need::of(pod, 8)))).collect();
        let digests: BTreeMap<u32, String> =
            revisions.iter().map(|(version, revision)| (*version, Digest::of(&*revision.pod).to_string())).collect();
        let look = |slot: &Slot| {
            let container = ContainerFacts {
                running: true,
                started_at: Timestamp::from_millis(1),
                spec_digest: digests.get(&slot.version).cloned().unwrap_or_default(),
                ..Default::default()
            };
            slot.node.as_ref().map(|_| PodFacts {
                state: RunState::Success,
                containers: vec![container],
                ..Default::default()
            })
        };
        let seen: Vec<Option<PodFacts>> = self.slots.iter().map(look).collect();
        let beside: Vec<Option<PodFacts>> = self.slots.iter().map(|slot| look(slot.next.as_deref()?)).collect();
        let facts = GroupFacts {
            record: &self.record,
            revisions: &revisions,
            patience: Patience {
                operation: Duration::from_secs(600),
                health_poll: Duration::from_secs(20),
                early_exit: Duration::from_secs(10),
            },
            slots: &self.slots,
            seen: &seen.iter().map(Option::as_ref).collect::<Vec<_>>(),
            vacated: &vec![true; self.slots.len()],
            lingers: false,
            beside: &beside.iter().map(Option::as_ref).collect::<Vec<_>>(),
            leaving: &vec![0; self.slots.len()],
            strays: 0,
            stored: &BTreeMap::new(),
            release: self.release.as_ref(),
            guarding: true,
            constraints: &[],
            hosts: &self.hosts,
            standings: None,
            tenants: &NoTenants,
        };
        plan_group(&facts, Timestamp::from_millis(1_000_000))
    }
}
