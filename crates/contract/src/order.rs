//! What a node must run: the scheduler's word to an agent.
//!
//! An order is everything the node must run; what is not in it and carries our labels is removed. It travels as
//! `Whole`, or as `Delta` against the fence the agent last acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::delta::Changes;
use crate::digest::Digest;
use crate::fence::Fence;
use crate::name::GroupName;
use crate::pod_id::{PodId, SpecKey};
use crate::progress::Progress;
use crate::spec::PodSpec;
use crate::state::{RestartPolicy, TargetState};
use crate::store::Stores;
use crate::switches::Switches;

/// Everything one node must run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Whose decision this is, and which.
    pub fence: Fence,
    /// The pods.
    pub pods: BTreeMap<PodId, Assignment>,
    /// The specs the pods refer to, each once.
    pub specs: BTreeMap<SpecKey, Arc<PodSpec>>,
    /// Groups the scheduler knows to exist and cannot read: whatever a node has of them is left as it is.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub spared: BTreeSet<GroupName>,
    /// What is left undone for now.
    #[serde(rename = "brakes", default, skip_serializing_if = "Switches::are_off")]
    pub switches: Switches,
    /// The store the order comes from, by all its names; no part of the digest.
    #[serde(default, skip_serializing_if = "Stores::is_empty")]
    pub stores: Stores,
    /// The commits its sender's store held; unknown from an older scheduler. No part of the digest.
    #[serde(default, skip_serializing_if = "Progress::is_unknown")]
    pub progress: Progress,
    /// The identity of the agent it is meant for; empty for whoever speaks for the node. No part of the digest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
}

/// What one pod shall do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Run or stay stopped.
    pub target: TargetState,
    /// When to start it again.
    pub restart_policy: RestartPolicy,
    /// How often somebody asked for its start; one more than was answered means: forget its restarts, start what is down.
    #[serde(rename = "starts_asked", default, skip_serializing_if = "is_zero")]
    pub starts_requested: u32,
    /// How often somebody asked for its restart; one more than was answered means: end what runs and start it.
    #[serde(rename = "restarts_asked", default, skip_serializing_if = "is_zero")]
    pub restarts_requested: u32,
    /// The version whose spec it has, when that is not the one in its name: the containers are updated live to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_to: Option<u32>,
    /// Addresses its containers get, one per container: those of the pod it takes the place of. Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// What its node fetches while it runs on: it is to be replaced, and not before that can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch: Option<Fetch>,
}

/// Images a node is to have before a pod of it is replaced. Only nodes that say [`crate::report::NodeFacts::fetches_ahead`]
/// are asked for them: others would not agree on the order's digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// The version that is made of them.
    pub version: u32,
    /// The images.
    pub images: BTreeSet<String>,
}

impl Assignment {
    /// The spec the pod has.
    pub fn spec_key(&self, pod: &PodId) -> SpecKey {
        SpecKey { group: pod.group.clone(), version: self.updated_to.unwrap_or(pod.version) }
    }
}

/// An order on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderMessage {
    /// The order itself.
    Whole(Order),
    /// The order as a change of the one at `base`.
    Delta(OrderDelta),
}

/// A change of the order the agent acknowledged at `base`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderDelta {
    /// The fence this is a change of.
    pub base: Fence,
    /// The fence of the result.
    pub fence: Fence,
    /// Changed pods.
    pub pods: Changes<PodId, Assignment>,
    /// Changed specs.
    pub specs: Changes<SpecKey, Arc<PodSpec>>,
    /// All spared groups of the result; there are hardly ever any.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub spared: BTreeSet<GroupName>,
    /// The brakes of the result.
    #[serde(rename = "brakes", default, skip_serializing_if = "Switches::are_off")]
    pub switches: Switches,
    /// The store the order comes from, by all its names.
    #[serde(default, skip_serializing_if = "Stores::is_empty")]
    pub stores: Stores,
    /// What the result must digest to.
    pub digest: Digest,
    /// As [`Order::progress`].
    #[serde(default, skip_serializing_if = "Progress::is_unknown")]
    pub progress: Progress,
    /// As [`Order::agent`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
}

/// An agent's answer to an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderReply {
    /// On disk; `digest` is what the agent now holds.
    Accepted {
        /// The order's fence.
        fence: Fence,
        /// Digest of the order as held.
        digest: Digest,
    },
    /// The delta does not fit what the agent holds.
    NeedWhole {
        /// What it holds.
        have: Fence,
    },
    /// The order is older than what the agent obeys: its sender does not lead any more.
    Stale {
        /// What it obeys.
        have: Fence,
    },
    /// The order comes from another store than the one whose order the agent obeys, or from an older state of that store.
    Foreign {
        /// What it obeys.
        have: Fence,
        /// Of which store.
        stores: Stores,
        /// The commits that store held, when it is an older state of the same store.
        #[serde(default, skip_serializing_if = "Progress::is_unknown")]
        progress: Progress,
    },
    /// Same fence, other content: a bug of the sender.
    Conflict {
        /// The fence in question.
        have: Fence,
    },
    /// The agent could not keep the order.
    Failed {
        /// Why.
        reason: String,
    },
}

impl Order {
    /// The spec of a pod that is ordered.
    pub fn spec_of(&self, pod: &PodId) -> Option<&Arc<PodSpec>> {
        self.spec_for(pod, self.pods.get(pod)?)
    }

    /// The spec of a pod that is ordered so.
    pub fn spec_for(&self, pod: &PodId, assignment: &Assignment) -> Option<&Arc<PodSpec>> {
        self.specs.get(&assignment.spec_key(pod))
    }

    /// Digest of everything but the fence and the store.
    pub fn digest(&self) -> Digest {
        let work = Digest::of_map(&self.pods).with(Digest::of_map(&self.specs));
        work.with(Self::digest_of_spared(&self.spared)).with(Self::digest_of_brakes(self.switches))
    }

    /// The brakes' part of an order's digest.
    pub fn digest_of_brakes(switches: Switches) -> Digest {
        if switches.are_off() { Digest::default() } else { Digest::of(&("brakes", switches)) }
    }

    /// The spared groups' part of an order's digest.
    pub fn digest_of_spared(spared: &BTreeSet<GroupName>) -> Digest {
        if spared.is_empty() { Digest::default() } else { Digest::of(spared) }
    }

    /// This order as a change of `base`.
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
        }
    }

    /// The order `delta` describes, when it is a change of this one, whose digest is `digest`, and comes out as its sender
    /// meant.
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
        Some(next)
    }

    fn digest_after(&self, digest: Digest, delta: &OrderDelta) -> Digest {
        let work = delta.specs.digest_after(delta.pods.digest_after(digest, &self.pods), &self.specs);
        let rest = work.without(Self::digest_of_spared(&self.spared)).without(Self::digest_of_brakes(self.switches));
        rest.with(Self::digest_of_spared(&delta.spared)).with(Self::digest_of_brakes(delta.switches))
    }
}

impl OrderMessage {
    /// The store the order comes from.
    pub fn stores(&self) -> &Stores {
        match self {
            Self::Whole(order) => &order.stores,
            Self::Delta(delta) => &delta.stores,
        }
    }
    /// The commits the store of its sender held.
    pub fn progress(&self) -> &Progress {
        match self {
            Self::Whole(order) => &order.progress,
            Self::Delta(delta) => &delta.progress,
        }
    }
    /// The same message, made after these commits.
    #[must_use]
    pub fn after(self, progress: Progress) -> Self {
        match self {
            Self::Whole(order) => Self::Whole(Order { progress, ..order }),
            Self::Delta(delta) => Self::Delta(OrderDelta { progress, ..delta }),
        }
    }
    /// The fence of the order this message brings.
    pub fn fence(&self) -> Fence {
        match self {
            Self::Whole(order) => order.fence,
            Self::Delta(delta) => delta.fence,
        }
    }
    /// The identity of the agent it is meant for; empty for whoever speaks for the node.
    pub fn agent(&self) -> &str {
        match self {
            Self::Whole(order) => &order.agent,
            Self::Delta(delta) => &delta.agent,
        }
    }
    /// The same message, meant for the agent with this identity.
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
