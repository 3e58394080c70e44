//! Orders: the complete desired state of one node, sent by the scheduler to its agent.
//!
//! The agent removes every container with deployd's labels that is not in the order. An order travels as `Whole`, or as
//! `Delta` against the order that the agent last acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::delta::Changes;
use crate::digest::Digest;
use crate::fence::Fence;
use crate::name::GroupName;
use crate::pod_id::{PodId, SpecKey};
use crate::policy::Hardening;
use crate::progress::Progress;
use crate::spec::PodSpec;
use crate::state::{RestartPolicy, TargetState};
use crate::store::Stores;
use crate::switches::Switches;

/// The complete desired state of one node. `S` stands for a pod spec: see [`crate::compact`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order<S = Arc<PodSpec>> {
    /// Term of the leader, and number of the order within the term.
    pub fence: Fence,
    /// The pods to run or to keep stopped.
    pub pods: BTreeMap<PodId, Assignment>,
    /// The specs that the pods refer to, each once.
    pub specs: BTreeMap<SpecKey, S>,
    /// Spared groups: groups whose records the leader cannot read, and orphans. The agent leaves their containers alone.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub spared: BTreeSet<GroupName>,
    /// What the agent must not do on its own.
    #[serde(rename = "brakes", default, skip_serializing_if = "Switches::are_off")]
    pub switches: Switches,
    /// Names of the store that the order comes from. Not part of the digest.
    #[serde(default, skip_serializing_if = "Stores::is_empty")]
    pub stores: Stores,
    /// Commits of that store; unknown from older schedulers. Not part of the digest.
    #[serde(default, skip_serializing_if = "Progress::is_unknown")]
    pub progress: Progress,
    /// Identity of the agent that the order is meant for; empty means any agent of the node. Not part of the digest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// What the agent applies to new containers of these groups; absent groups have the level `trusted` or come from an
    /// older scheduler. Not part of the digest: it does not change containers that exist.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hardening: BTreeMap<GroupName, Hardening>,
}

/// Desired state of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Run or keep stopped.
    pub target: TargetState,
    /// When the agent restarts it.
    pub restart_policy: RestartPolicy,
    /// Number of start requests so far. When it exceeds the number the agent has performed, the agent resets the
    /// restart counter and starts the pod if it is down.
    #[serde(rename = "starts_asked", default, skip_serializing_if = "is_zero")]
    pub starts_requested: u32,
    /// Number of restart requests so far. When it exceeds the number the agent has performed, the agent stops and
    /// starts the pod.
    #[serde(rename = "restarts_asked", default, skip_serializing_if = "is_zero")]
    pub restarts_requested: u32,
    /// Revision to update the containers to in place, when it differs from the one in the pod's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_to: Option<u32>,
    /// Reserved addresses: IPs inherited from the replaced pod, one per container. Empty means any address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Images to pull while the pod still runs, because the leader will replace it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch: Option<Fetch>,
}

/// Images that a node pulls before one of its pods is replaced. The leader sends it only to agents that report
/// [`crate::report::NodeFacts::fetches_ahead`]: others would compute another digest of the order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// The revision that needs the images.
    pub version: u32,
    /// Image references.
    pub images: BTreeSet<String>,
}

impl Assignment {
    /// Key of the pod's spec in [`Order::specs`].
    pub fn spec_key(&self, pod: &PodId) -> SpecKey {
        SpecKey { group: pod.group.clone(), version: self.updated_to.unwrap_or(pod.version) }
    }
}

/// An order on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(deserialize = "S: DeserializeOwned"))]
pub enum OrderMessage<S = Arc<PodSpec>> {
    /// The whole order.
    Whole(Order<S>),
    /// The difference from the order at `base`.
    Delta(OrderDelta<S>),
}

/// The difference from the order that the agent acknowledged at `base`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(deserialize = "S: DeserializeOwned"))]
pub struct OrderDelta<S = Arc<PodSpec>> {
    /// Fence of the earlier order.
    pub base: Fence,
    /// Fence of the new order.
    pub fence: Fence,
    /// Changed and removed pods.
    pub pods: Changes<PodId, Assignment>,
    /// Changed and removed specs.
    pub specs: Changes<SpecKey, S>,
    /// All spared groups of the new order; usually none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub spared: BTreeSet<GroupName>,
    /// The switches of the new order.
    #[serde(rename = "brakes", default, skip_serializing_if = "Switches::are_off")]
    pub switches: Switches,
    /// As [`Order::stores`].
    #[serde(default, skip_serializing_if = "Stores::is_empty")]
    pub stores: Stores,
    /// [`Order::digest`] of the new order.
    pub digest: Digest,
    /// As [`Order::progress`].
    #[serde(default, skip_serializing_if = "Progress::is_unknown")]
    pub progress: Progress,
    /// As [`Order::agent`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// As [`Order::hardening`], of the groups in `pods.put` only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hardening: BTreeMap<GroupName, Hardening>,
}

/// An agent's answer to an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderReply {
    /// The agent stored the order in its ledger.
    Accepted {
        /// Fence of the order.
        fence: Fence,
        /// Digest of the order as stored.
        digest: Digest,
    },
    /// The delta is not based on the order that the agent has: the scheduler must send the whole order.
    NeedWhole {
        /// Fence of the order that the agent has.
        have: Fence,
    },
    /// The order is older than the agent's: its sender no longer leads.
    Stale {
        /// Fence of the order that the agent follows.
        have: Fence,
    },
    /// The order comes from another store than the agent's order, or from an older state of that store.
    Foreign {
        /// Fence of the order that the agent follows.
        have: Fence,
        /// Names of the store that the agent follows.
        stores: Stores,
        /// Commits of that store that the agent knows of, when the order comes from an older state of it.
        #[serde(default, skip_serializing_if = "Progress::is_unknown")]
        progress: Progress,
    },
    /// Same fence, different content: a bug of the sender.
    Conflict {
        /// The fence.
        have: Fence,
    },
    /// The agent could not store the order.
    Failed {
        /// The error.
        reason: String,
    },
}

impl Order {
    /// The spec of a pod of this order.
    pub fn spec_of(&self, pod: &PodId) -> Option<&Arc<PodSpec>> {
        self.spec_for(pod, self.pods.get(pod)?)
    }

    /// The spec that a pod with this assignment uses.
    pub fn spec_for(&self, pod: &PodId, assignment: &Assignment) -> Option<&Arc<PodSpec>> {
        self.specs.get(&assignment.spec_key(pod))
    }

    /// Digest of pods, specs, spared groups and switches.
    pub fn digest(&self) -> Digest {
        let work = Digest::of_map(&self.pods).with(Digest::of_map(&self.specs));
        work.with(Self::digest_of_spared(&self.spared)).with(Self::digest_of_switches(self.switches))
    }

    /// The switches' part of an order's digest; 0 while none is set, as in versions without switches.
    pub fn digest_of_switches(switches: Switches) -> Digest {
        if switches.are_off() { Digest::default() } else { Digest::of(&("brakes", switches)) }
    }

    /// The spared groups' part of an order's digest; 0 without any.
    pub fn digest_of_spared(spared: &BTreeSet<GroupName>) -> Digest {
        if spared.is_empty() { Digest::default() } else { Digest::of(spared) }
    }

    /// The difference from `base` to this order.
    pub fn since(&self, base: &Self) -> OrderDelta {
        OrderDelta {
            base: base.fence,
            fence: self.fence,
            pods: Changes::between(&base.pods, &self.pods),
            specs: Changes::between(&base.specs, &self.specs),
            spared: self.spared.clone(),
            switches: self.switches,
            stores: self.stores.clone(),
            progress: self.progress.clone(),
            digest: self.digest(),
            agent: self.agent.clone(),
            hardening: self.hardening.clone(),
        }
    }

    /// Applies a delta to this order, whose digest is `digest`. None when the delta is not based on this order or the
    /// result does not have the digest that its sender computed.
    pub fn changed_by(&self, digest: Digest, delta: &OrderDelta) -> Option<Self> {
        if delta.base != self.fence || self.digest_after(digest, delta) != delta.digest {
            return None;
        }
        let mut next = self.clone();
        next.fence = delta.fence;
        delta.pods.apply(&mut next.pods);
        delta.specs.apply(&mut next.specs);
        next.spared.clone_from(&delta.spared);
        next.switches = delta.switches;
        next.stores.clone_from(&delta.stores);
        next.progress.clone_from(&delta.progress);
        delta.pods.put.keys().for_each(|pod| drop(next.hardening.remove(&pod.group)));
        next.hardening.extend(delta.hardening.clone());
        if !delta.pods.gone.is_empty() {
            let groups: BTreeSet<&GroupName> = next.pods.keys().map(|pod| &pod.group).collect();
            next.hardening.retain(|group, _| groups.contains(group));
        }
        Some(next)
    }

    fn digest_after(&self, digest: Digest, delta: &OrderDelta) -> Digest {
        let work = delta.specs.digest_after(delta.pods.digest_after(digest, &self.pods), &self.specs);
        let rest = work.without(Self::digest_of_spared(&self.spared)).without(Self::digest_of_switches(self.switches));
        rest.with(Self::digest_of_spared(&delta.spared)).with(Self::digest_of_switches(delta.switches))
    }
}

impl OrderMessage {
    /// [`Order::stores`] of the new order.
    pub fn stores(&self) -> &Stores {
        match self {
            Self::Whole(order) => &order.stores,
            Self::Delta(delta) => &delta.stores,
        }
    }
    /// [`Order::progress`] of the new order.
    pub fn progress(&self) -> &Progress {
        match self {
            Self::Whole(order) => &order.progress,
            Self::Delta(delta) => &delta.progress,
        }
    }
    /// Sets [`Order::progress`].
    #[must_use]
    pub fn after(self, progress: Progress) -> Self {
        match self {
            Self::Whole(order) => Self::Whole(Order { progress, ..order }),
            Self::Delta(delta) => Self::Delta(OrderDelta { progress, ..delta }),
        }
    }
    /// Fence of the new order.
    pub fn fence(&self) -> Fence {
        match self {
            Self::Whole(order) => order.fence,
            Self::Delta(delta) => delta.fence,
        }
    }
    /// [`Order::agent`] of the new order.
    pub fn agent(&self) -> &str {
        match self {
            Self::Whole(order) => &order.agent,
            Self::Delta(delta) => &delta.agent,
        }
    }
    /// Sets [`Order::hardening`] for the groups of the pods that it brings.
    #[must_use]
    pub fn hardened(self, of_group: impl Fn(&GroupName) -> Option<Hardening>) -> Self {
        let of_pods = |pods: &BTreeMap<PodId, Assignment>| {
            // The pods of a group follow each other, so each group is looked up once.
            let mut groups: Vec<&GroupName> = pods.keys().map(|pod| &pod.group).collect();
            groups.dedup();
            groups.into_iter().filter_map(|group| Some((group.clone(), of_group(group)?))).collect()
        };
        match self {
            Self::Whole(order) => Self::Whole(Order { hardening: of_pods(&order.pods), ..order }),
            Self::Delta(delta) => Self::Delta(OrderDelta { hardening: of_pods(&delta.pods.put), ..delta }),
        }
    }
    /// Sets [`Order::agent`].
    #[must_use]
    pub fn meant_for(self, agent: String) -> Self {
        match self {
            Self::Whole(order) => Self::Whole(Order { agent, ..order }),
            Self::Delta(delta) => Self::Delta(OrderDelta { agent, ..delta }),
        }
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}
