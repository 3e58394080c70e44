//! The body of `GET /api/depends`. Pure.
//!
//! `Pods` is an object even when nothing runs, because console walks it unasked.

use std::collections::BTreeMap;

use contract::api;
use contract::dependency::Place;
use contract::query::DependencyView;

use super::{Inspected, one_pod};

/// A dependency pod and where it runs.
pub fn dependency(view: DependencyView, mut inspected: Inspected) -> api::NamespacePodsWithSpec {
    let mut pods: BTreeMap<String, Vec<api::Pod>> = BTreeMap::new();
    for (namespace, known) in view.pods {
        let shown = known.iter().map(|pod| {
            let spec = match pod.node.clone() {
                Some(node) => Place { node, namespace: namespace.clone() }.pod_spec(&view.spec),
                None => view.spec.clone(),
            };
            one_pod(&spec, pod, inspected.remove(&pod.id).unwrap_or_default())
        });
        let shown = shown.collect();
        pods.insert(namespace, shown);
    }
    api::NamespacePodsWithSpec { spec: view.spec, pods }
}
