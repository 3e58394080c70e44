//! Resolves the names of callbacks and keeps back addresses that callbacks may not have.
//!
//! reqwest connects to exactly the addresses that this resolver returns, so a name that leads to another address a moment later
//! gains nothing. reqwest does not ask a resolver about hosts that are addresses; [`crate::post`] checks those.

use std::net::SocketAddr;
use std::sync::Arc;

use fabric::callback::Policy;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

tokio::task_local! {
    /// The port of the connection that the current task opens: reqwest tells its resolver the name only, but rules have ports.
    static PORT: u16;
}

/// Runs a request whose URL has this port. Without it, [`PolicyResolver`] resolves nothing.
pub async fn with_port<F: Future>(port: u16, request: F) -> F::Output {
    PORT.scope(port, request).await
}

/// Passes on the addresses of another resolver that the policy permits.
pub struct PolicyResolver {
    pub policy: Arc<Policy>,
    pub upstream: Arc<dyn Resolve>,
}

impl Resolve for PolicyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let Ok(port) = PORT.try_with(|port| *port) else {
            return Box::pin(async { Err("the port of the callback is not known".into()) });
        };
        let (policy, host) = (self.policy.clone(), name.as_str().to_owned());
        let found = self.upstream.resolve(name);
        Box::pin(async move {
            let (mut permitted, mut refused) = (Vec::new(), None);
            for address in found.await? {
                let address = SocketAddr::new(address.ip(), port);
                match policy.check(&host, address) {
                    Ok(()) => permitted.push(address),
                    Err(reason) => refused = Some(reason),
                }
            }
            match refused {
                Some(reason) if permitted.is_empty() => Err(reason.into()),
                Some(_) | None => Ok(Box::new(permitted.into_iter()) as Addrs),
            }
        })
    }
}

/// The resolver of the operating system.
#[derive(Debug)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
