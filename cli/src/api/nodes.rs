//! The calls of the API that are about one node.

use std::collections::BTreeMap;

use contract::name::NodeName;
use contract::node_view::NodeStatus;
use reqwest::Method;

use super::{Api, Error, Patience, Request};

impl Api {
    /// Everything about one node.
    pub async fn node(&self, node: &NodeName) -> Result<NodeStatus, Error> {
        self.get(&path(node), &[]).await?.read()
    }

    /// Asks for a change of a node: a command, and what goes with it.
    pub async fn change_node(
        &self,
        node: &NodeName,
        command: &str,
        with: &[(&'static str, &str)],
        patience: &mut Patience,
    ) -> Result<(), Error> {
        let mut params = vec![("cmd", command)];
        params.extend_from_slice(with);
        self.change(Request::new(Method::PATCH, &path(node), &params), patience).await
    }

    /// Sets labels of a node; those without a value are taken away.
    pub async fn label_node(
        &self,
        node: &NodeName,
        labels: &BTreeMap<String, Option<String>>,
        patience: &mut Patience,
    ) -> Result<(), Error> {
        self.change(Request::new(Method::PATCH, &path(node), &[("cmd", "label")]).with(labels), patience).await
    }

    /// Has a node forgotten.
    pub async fn remove_node(&self, node: &NodeName, force: bool, patience: &mut Patience) -> Result<(), Error> {
        let params: &[(&'static str, &str)] = if force { &[("force", "true")] } else { &[] };
        self.change(Request::new(Method::DELETE, &path(node), params), patience).await
    }
}

fn path(node: &NodeName) -> String {
    format!("/api/nodes/{node}")
}
