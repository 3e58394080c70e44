//! A client of the API after it was identified. Pure.

use contract::access::binding::{Namespaces, Peer, Principal};
use contract::access::token::{Proof, TokenProof};
use contract::access::{AnonymousBinding, Binding, Right, Role};

use super::source;
use crate::rates::Payer;

/// Name of clients without a token.
const ANONYMOUS: &str = "anonymous";

/// A client, what it may do, and how it proved that.
#[derive(Debug, Clone)]
pub struct Client {
    pub principal: Principal,
    identity: Evidence,
    peer: Peer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Evidence {
    Token(TokenProof),
    /// The bindings whose source contains the client.
    Anonymous(Vec<AnonymousBinding>),
    /// The cluster is open. The bindings are for the leader, in case it enforces access control a moment before this apiserver
    /// knows.
    Open(Vec<AnonymousBinding>),
}

impl Client {
    pub(super) fn with_token(principal: Principal, proof: TokenProof, peer: Peer) -> Self {
        Self { principal, identity: Evidence::Token(proof), peer }
    }

    pub(super) fn anonymous(bindings: Vec<AnonymousBinding>, peer: Peer) -> Self {
        let allowed = bindings.iter().map(|anonymous| anonymous.binding.clone()).collect();
        let principal = Principal { name: format!("{ANONYMOUS}@{}", text(peer)), bindings: allowed };
        Self { principal, identity: Evidence::Anonymous(bindings), peer }
    }

    /// Any client while the cluster does not enforce access control.
    pub(crate) fn open(bindings: Vec<AnonymousBinding>, peer: Peer) -> Self {
        let everything = Binding { role: Role::Admin, namespaces: Namespaces::All };
        let principal = Principal { name: ANONYMOUS.to_owned(), bindings: vec![everything] };
        Self { principal, identity: Evidence::Open(bindings), peer }
    }

    /// A node that joins, which has a join token instead of rights.
    pub(crate) fn joining(peer: Peer) -> Self {
        let status = Binding { role: Role::Monitor, namespaces: Namespaces::All };
        let principal = Principal { name: format!("join@{}", text(peer)), bindings: vec![status] };
        Self { principal, identity: Evidence::Anonymous(Vec::new()), peer }
    }

    pub(super) fn origin(&self) -> Peer {
        self.peer
    }

    pub(super) fn token(&self) -> Option<&TokenProof> {
        match &self.identity {
            Evidence::Token(proof) => Some(proof),
            Evidence::Anonymous(_) | Evidence::Open(_) => None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.identity, Evidence::Open(_))
    }

    /// The name that a token proves; none without a token.
    pub fn proven_name(&self) -> Option<&str> {
        self.token().map(|_| self.principal.name.as_str())
    }

    /// Whose limits apply.
    pub fn payer(&self) -> Payer {
        match self.proven_name() {
            Some(name) => Payer::Principal(name.to_owned()),
            None => Payer::Source(source(self.peer)),
        }
    }

    /// Address or user of the client, for the audit log.
    pub fn peer(&self) -> String {
        text(self.peer)
    }

    /// Whether it may read everything, so that answers need no filter.
    pub fn reads_all(&self) -> bool {
        self.principal.may(Right::Read, None)
    }

    /// Whether it may read objects of the namespace.
    pub fn reads(&self, namespace: &str) -> bool {
        self.principal.may(Right::Read, Some(namespace))
    }

    /// Whether the proof of a command with this right depends on the namespace of its object.
    pub fn proof_needs_namespace(&self, right: Right) -> bool {
        let candidates = self.candidates(right);
        !self.is_open() && candidates.len() > 1 && candidates.iter().all(|it| it.binding.namespaces != Namespaces::All)
    }

    /// What proves to the leader that the client has this right; none when no binding is for it. A command carries one binding,
    /// so of several the one that reaches the namespace is taken.
    pub fn proof(&self, right: Right, namespace: Option<&str>) -> Option<Proof> {
        if let Evidence::Token(proof) = &self.identity {
            return Some(Proof::Token(proof.clone()));
        }
        let candidates = self.candidates(right);
        let reaches = |it: &&&AnonymousBinding| match namespace {
            Some(namespace) => it.binding.namespaces.contains(namespace),
            None => it.binding.namespaces == Namespaces::All,
        };
        let found = candidates.iter().find(reaches).or_else(|| candidates.first());
        found.map(|found| Proof::Anonymous((*found).clone()))
    }

    /// The bindings whose role has the right.
    fn candidates(&self, right: Right) -> Vec<&AnonymousBinding> {
        match &self.identity {
            Evidence::Anonymous(bindings) | Evidence::Open(bindings) => {
                bindings.iter().filter(|it| it.binding.role.has(right)).collect()
            }
            Evidence::Token(_) => Vec::new(),
        }
    }
}

/// Address or user, for the audit log.
pub fn text(peer: Peer) -> String {
    match (peer.address, peer.uid) {
        (Some(address), _) => address.to_string(),
        (None, Some(uid)) => format!("uid:{uid}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(bindings: &[&str]) -> Client {
        let bindings = bindings.iter().map(|text| text.parse().expect("a binding")).collect();
        Client::anonymous(bindings, Peer { address: Some([10, 1, 2, 3].into()), uid: None })
    }

    fn proof(client: &Client, right: Right, namespace: Option<&str>) -> String {
        match client.proof(right, namespace) {
            Some(Proof::Anonymous(binding)) => binding.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_command_carries_the_binding_that_reaches_its_namespace() {
        let both = client(&["viewer@* from any", "deployer@shop from any", "deployer@team-* from any"]);
        assert_eq!(both.principal.name, "anonymous@10.1.2.3");
        assert!(both.proof_needs_namespace(Right::Deploy) && !both.proof_needs_namespace(Right::Read));
        assert_eq!(proof(&both, Right::Deploy, Some("team-a")), "deployer@team-* from any");
        assert_eq!(proof(&both, Right::Deploy, Some("other")), "deployer@shop from any");
        let wide = client(&["deployer@shop from any", "operator from any"]);
        assert!(!wide.proof_needs_namespace(Right::Deploy));
        assert_eq!(proof(&wide, Right::Deploy, None), "operator@* from any");
    }

    #[test]
    fn an_open_cluster_asks_for_no_proof_and_allows_everything() {
        let open = Client::open(Vec::new(), Peer { address: None, uid: Some(7) });
        assert_eq!((open.proof(Right::Administer, None), open.peer()), (None, "uid:7".to_owned()));
        assert!(open.principal.may(Right::Administer, None) && open.reads_all() && open.proven_name().is_none());
    }
}
