//! Bindings: a role in a pattern of namespaces, of a token or of clients without one.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Right, Role};
use crate::policy::check_namespace;

/// The namespaces of a binding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespaces {
    /// `*`: all of them, and the cluster itself.
    All,
    /// `team-*`: those that begin with the text before the star.
    Prefix(String),
    /// One namespace.
    One(String),
}

impl Namespaces {
    /// Whether the namespace is one of them.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Prefix(prefix) => namespace.starts_with(prefix.as_str()),
            Self::One(one) => namespace == one,
        }
    }
}

impl fmt::Display for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::One(one) => f.write_str(one),
        }
    }
}

impl FromStr for Namespaces {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let checked = |name: &str| {
            check_namespace(name)
                .map_err(|error| format!("the namespace {text:?} {error}; write a name, `team-*` or `*`"))
        };
        match text.strip_suffix('*') {
            Some("") => Ok(Self::All),
            // A prefix may end with a character that ends no name, such as the dash of `team-*`.
            Some(prefix) => checked(&format!("{prefix}0")).map(|()| Self::Prefix(prefix.to_owned())),
            None => checked(text).map(|()| Self::One(text.to_owned())),
        }
    }
}

/// A role in some namespaces: `deployer@shop`. Written without namespaces it is for all: `admin` is `admin@*`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Binding {
    /// What is allowed.
    pub role: Role,
    /// Where.
    pub namespaces: Namespaces,
}

impl Binding {
    /// Whether it allows the right; `namespace` is that of the object, or none for the whole cluster.
    fn allows(&self, right: Right, namespace: Option<&str>) -> bool {
        let reaches = match namespace {
            Some(namespace) => self.namespaces.contains(namespace),
            None => right == Right::Status || self.namespaces == Namespaces::All,
        };
        reaches && self.role.has(right)
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.role, self.namespaces)
    }
}

impl FromStr for Binding {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (role, namespaces) = text.split_once('@').unwrap_or((text, "*"));
        Ok(Self { role: role.parse()?, namespaces: namespaces.parse()? })
    }
}

/// Which clients without a token a binding is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Clients with an address in this network; `any` is all addresses.
    Network(IpNet),
    /// `any`: all clients.
    Any,
    /// `uid:N`: processes of this user on the apiserver's machine, over loopback or the unix socket.
    Uid(u32),
    /// `uid:self`: processes of the user that runs the apiserver.
    OwnUid,
}

/// What the apiserver knows of a client without a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its address; none over the unix socket.
    pub address: Option<IpAddr>,
    /// The user of its process, when it runs on the apiserver's machine.
    pub uid: Option<u32>,
}

impl Source {
    /// Whether a client is meant; `own` is the user that runs the apiserver.
    pub fn contains(&self, peer: Peer, own: u32) -> bool {
        match self {
            Self::Any => true,
            Self::Network(network) => peer.address.is_some_and(|address| network.contains(&address)),
            Self::Uid(uid) => peer.uid == Some(*uid),
            Self::OwnUid => peer.uid == Some(own),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Network(network) => network.fmt(f),
            Self::Uid(uid) => write!(f, "uid:{uid}"),
            Self::OwnUid => f.write_str("uid:self"),
        }
    }
}

impl FromStr for Source {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no source; write a network such as 10.1.0.0/16, uid:self, uid:1000 or any");
        match text {
            "any" => return Ok(Self::Any),
            "uid:self" => return Ok(Self::OwnUid),
            _ => {}
        }
        if let Some(uid) = text.strip_prefix("uid:") {
            return uid.parse().map(Self::Uid).map_err(|_| wrong());
        }
        let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network.map(|network| Self::Network(network.trunc())).map_err(|_| wrong())
    }
}

/// A binding of clients without a token: `deployer@* from 10.1.0.0/16`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnonymousBinding {
    /// What is allowed, and where.
    pub binding: Binding,
    /// For which clients.
    pub source: Source,
}

impl fmt::Display for AnonymousBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.binding, self.source)
    }
}

impl FromStr for AnonymousBinding {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (binding, source) = text.split_once(" from ").ok_or_else(|| {
            format!(
                "{text:?} names no clients; write for example 'deployer@* from 10.1.0.0/16' or 'admin from uid:self'"
            )
        })?;
        Ok(Self { binding: binding.trim().parse()?, source: source.trim().parse()? })
    }
}

macro_rules! as_text {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}
as_text!(Binding, AnonymousBinding);

/// A client of the API with what it may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Name of the token's owner, or where a client without a token comes from.
    pub name: String,
    /// What it may do; bindings add up.
    pub bindings: Vec<Binding>,
}

impl Principal {
    /// Whether it may do this to objects of the namespace; none is the whole cluster.
    pub fn may(&self, right: Right, namespace: Option<&str>) -> bool {
        self.bindings.iter().any(|binding| binding.allows(right, namespace))
    }

    /// Whether it may do this in at least one namespace, or to the cluster.
    pub fn may_somewhere(&self, right: Right) -> bool {
        self.bindings.iter().any(|binding| binding.role.has(right))
            && (right.is_per_namespace() || self.may(right, None))
    }

    /// Whether it sees the values of environment variables in the namespace.
    pub fn sees_environment(&self, namespace: &str) -> bool {
        self.bindings.iter().any(|binding| binding.role.sees_environment() && binding.namespaces.contains(namespace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(bindings: &[&str]) -> Principal {
        let bindings = bindings.iter().map(|text| text.parse().expect("a binding")).collect();
        Principal { name: "tests".to_owned(), bindings }
    }

    #[test]
    fn a_binding_reaches_its_namespaces_and_no_others() {
        let it = principal(&["deployer@team-*", "viewer@shop"]);
        assert!(it.may(Right::Deploy, Some("team-a")) && it.may(Right::Deploy, Some("team-")));
        assert!(!it.may(Right::Deploy, Some("team")) && !it.may(Right::Deploy, Some("shop")));
        assert!(it.may(Right::Read, Some("shop")) && !it.may(Right::Read, Some("shop2")));
        assert!(it.sees_environment("team-a") && !it.sees_environment("shop"));
    }

    #[test]
    fn the_cluster_needs_a_binding_for_all_namespaces() {
        assert!(!principal(&["operator@shop"]).may_somewhere(Right::Operate));
        assert!(principal(&["operator"]).may_somewhere(Right::Operate));
        assert!(principal(&["viewer@shop"]).may(Right::Status, None));
        assert!(!principal(&["viewer@shop"]).may(Right::Read, None));
    }

    #[test]
    fn bindings_are_read_as_they_are_written() {
        for text in
            ["deployer@* from 10.1.0.0/16", "admin@* from uid:self", "viewer@a-* from uid:0", "monitor@* from any"]
        {
            assert_eq!(text.parse::<AnonymousBinding>().map(|binding| binding.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("admin".parse::<Binding>().map(|binding| binding.to_string()), Ok("admin@*".to_owned()));
        for wrong in
            ["admin", "admin from", "admin from nowhere", "king from any", "viewer@a* b from any", "viewer@ from any"]
        {
            assert!(wrong.parse::<AnonymousBinding>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_source_knows_its_clients() {
        let peer =
            |address: Option<&str>, uid| Peer { address: address.map(|text| text.parse().expect("an address")), uid };
        let contains = |source: &str, peer| source.parse::<Source>().expect("a source").contains(peer, 7);
        assert!(contains("10.1.0.0/16", peer(Some("10.1.2.3"), None)));
        assert!(!contains("10.1.0.0/16", peer(Some("10.2.2.3"), Some(7))));
        assert!(contains("uid:self", peer(None, Some(7))) && !contains("uid:self", peer(None, Some(8))));
        assert!(contains("uid:8", peer(Some("127.0.0.1"), Some(8))) && !contains("uid:8", peer(None, None)));
        assert!(contains("any", peer(None, None)) && contains("127.0.0.1", peer(Some("127.0.0.1"), None)));
    }
}
