//! The calls of the API about workload policies.

use contract::policy::{NamespacePolicy, Policy};
use reqwest::Method;

use super::{Api, Error, Request, Retry};

const POLICIES: &str = "/api/policies";

impl Api {
    /// All stored policies.
    pub async fn policies(&self) -> Result<Vec<NamespacePolicy>, Error> {
        self.get(POLICIES, &[]).await?.read()
    }

    /// The policy that applies to a namespace.
    pub async fn policy(&self, namespace: &str) -> Result<NamespacePolicy, Error> {
        self.get(POLICIES, &[("namespace", namespace)]).await?.read()
    }

    pub async fn set_policy(&self, namespace: &str, policy: &Policy, retry: &mut Retry) -> Result<(), Error> {
        self.change(Request::new(Method::PUT, POLICIES, &[("namespace", namespace)]).with(policy), retry).await
    }

    pub async fn remove_policy(&self, namespace: &str, retry: &mut Retry) -> Result<(), Error> {
        self.change(Request::new(Method::DELETE, POLICIES, &[("namespace", namespace)]), retry).await
    }
}
