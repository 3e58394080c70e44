//! Resolves the names of callbacks and keeps back addresses that callbacks may not have.
//!
//! reqwest connects to exactly the addresses that this resolver returns, so a name that leads to another address a moment later
//! gains nothing. reqwest does not ask a resolver about hosts that are addresses; [`crate::post`] checks those.

use std::net::SocketAddr;
use std::sync::Arc;

use fabric::callback::Policy;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// What the resolver must know of a request: reqwest tells it the name only, but rules have ports.
#[derive(Debug, Clone, Copy)]
pub struct Destination {
    pub port: u16,
    /// Internal addresses are open to the callback.
    pub is_former: bool,
}

/// The rules for callbacks, and those for callbacks that were stored before access control.
#[derive(Debug)]
pub struct Policies {
    pub usual: Policy,
    pub former: Policy,
}

impl Policies {
    pub fn of(&self, is_former: bool) -> &Policy {
        if is_former { &self.former } else { &self.usual }
    }
}

tokio::task_local! {
    /// Of the connection that the current task opens.
    static DESTINATION: Destination;
}

/// Runs a request. Without a destination, [`PolicyResolver`] resolves nothing.
pub async fn to<F: Future>(destination: Destination, request: F) -> F::Output {
    DESTINATION.scope(destination, request).await
}

/// Passes on the addresses of another resolver that the policy permits.
pub struct PolicyResolver {
    pub policies: Arc<Policies>,
    pub upstream: Arc<dyn Resolve>,
}

impl Resolve for PolicyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let Ok(Destination { port, is_former }) = DESTINATION.try_with(|destination| *destination) else {
            return Box::pin(async { Err("the port of the callback is not known".into()) });
        };
        let (policies, host) = (self.policies.clone(), name.as_str().to_owned());
        let found = self.upstream.resolve(name);
        Box::pin(async move {
            let (mut permitted, mut refused) = (Vec::new(), None);
            for address in found.await? {
                let address = SocketAddr::new(address.ip(), port);
                match policies.of(is_former).check(&host, address) {
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
