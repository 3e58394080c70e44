//! Answers where the pods of a dependency run.

use std::collections::BTreeMap;

use contract::name::GroupName;
use contract::query::{DependencyView, PodView};
use contract::record::Instance;
use contract::state::TargetState;
use planner::dependency::place_of;
use planner::view;

use super::Queries;

impl Queries<'_> {
    /// One dependency pod, copied from memory.
    pub(super) fn dependency(&self, name: &GroupName) -> Option<DependencyView> {
        let entry = self.state.dependencies.get(name).filter(|entry| !entry.is_removing())?;
        let mut pods: BTreeMap<String, Vec<PodView>> = BTreeMap::new();
        for pair in &entry.pairs {
            let Ok(id) = place_of(pair).pod_id(name, pair.version) else { continue };
            let host = self.state.nodes.get(&pair.node);
            let instance = Instance { node: Some(pair.node.clone()), version: pair.version, ..Instance::default() };
            let facts = view::pod_facts(&instance, self.reports.pod(&pair.node, &id), host);
            let addresses = facts.containers.iter().map(|container| container.ip.clone()).collect();
            let node_ip = host.map(|host| host.facts.ip.clone()).unwrap_or_default();
            let node = Some(pair.node.clone());
            let view = PodView { id, node, node_ip, target: TargetState::Run, facts, addresses };
            pods.entry(pair.namespace.clone()).or_default().push(view);
        }
        Some(DependencyView { spec: entry.record.spec.clone(), pods })
    }
}
