//! The calls of the API about one node.

use std::collections::BTreeMap;

use contract::name::NodeName;
use contract::node_view::NodeStatus;
use reqwest::Method;

use super::{Api, Error, Request, Retry};

impl Api {
    /// Everything about one node.
    pub async fn node(&self, node: &NodeName) -> Result<NodeStatus, Error> {
        self.get(&path(node), &[]).await?.read().map_err(|error| named(error, node))
    }

    /// Sends a command such as `cordon` to a node, with its parameters.
    pub async fn change_node(
        &self,
        node: &NodeName,
        command: &str,
        with: &[(&'static str, &str)],
        retry: &mut Retry,
    ) -> Result<(), Error> {
        let mut params = vec![("cmd", command)];
        params.extend_from_slice(with);
        self.change(Request::new(Method::PATCH, &path(node), &params), retry).await.map_err(|error| named(error, node))
    }

    /// Sets labels of a node; those without a value are removed.
    pub async fn label_node(
        &self,
        node: &NodeName,
        labels: &BTreeMap<String, Option<String>>,
        retry: &mut Retry,
    ) -> Result<(), Error> {
        self.change(Request::new(Method::PATCH, &path(node), &[("cmd", "label")]).with(labels), retry)
            .await
            .map_err(|error| named(error, node))
    }

    pub async fn remove_node(&self, node: &NodeName, force: bool, retry: &mut Retry) -> Result<(), Error> {
        let params: &[(&'static str, &str)] = if force { &[("force", "true")] } else { &[] };
        self.change(Request::new(Method::DELETE, &path(node), params), retry).await.map_err(|error| named(error, node))
    }
}

fn path(node: &NodeName) -> String {
    format!("/api/nodes/{node}")
}

/// The API's 404 does not say which node it did not find.
fn named(error: Error, node: &NodeName) -> Error {
    match error {
        Error::NotFound(_) => Error::NoNode(node.to_string()),
        other => other,
    }
}
