//! Which addresses the notifier may connect to. Callbacks come from users, so by default only public addresses are allowed.
//!
//! The decision needs the address and the port of a connection, not the text of a URL: every notation of an address (decimal,
//! octal, IPv4 in IPv6) and every name ends in one [`SocketAddr`], and the notifier asks about exactly the address that it
//! then connects to. An answer of DNS that changes between check and use changes nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

/// Networks that are not public, by IANA's registries of special-purpose addresses.
const INTERNAL_V4: &[(Ipv4Net, &str)] = &[
    (v4(0, 0, 0, 0, 8), "an unspecified address"),
    (v4(10, 0, 0, 0, 8), "a private address"),
    (v4(100, 64, 0, 0, 10), "a carrier-grade NAT address"),
    (v4(127, 0, 0, 0, 8), "a loopback address"),
    (v4(169, 254, 0, 0, 16), "a link-local address"),
    (v4(172, 16, 0, 0, 12), "a private address"),
    (v4(192, 0, 0, 0, 24), "a protocol assignment"),
    (v4(192, 0, 2, 0, 24), "a documentation address"),
    (v4(192, 88, 99, 0, 24), "a 6to4 relay"),
    (v4(192, 168, 0, 0, 16), "a private address"),
    (v4(198, 18, 0, 0, 15), "a benchmark address"),
    (v4(198, 51, 100, 0, 24), "a documentation address"),
    (v4(203, 0, 113, 0, 24), "a documentation address"),
    (v4(224, 0, 0, 0, 4), "a multicast address"),
    (v4(255, 255, 255, 255, 32), "the broadcast address"),
    (v4(240, 0, 0, 0, 4), "a reserved address"),
];

/// Names for IPv6 networks that are not public, and the ones inside of [`PUBLIC_V6`].
const INTERNAL_V6: &[(Ipv6Net, &str)] = &[
    (v6([0, 0, 0], 1, 128), "a loopback address"),
    (v6([0, 0, 0], 0, 128), "an unspecified address"),
    (v6([0, 0, 0], 0, 96), "an IPv4-compatible address"),
    (v6([0x64, 0xff9b, 1], 0, 48), "a local NAT64 address"),
    (v6([0xfc00, 0, 0], 0, 7), "a unique local address"),
    (v6([0xfe80, 0, 0], 0, 10), "a link-local address"),
    (v6([0xfec0, 0, 0], 0, 10), "a site-local address"),
    (v6([0xff00, 0, 0], 0, 8), "a multicast address"),
    (v6([0x2001, 0, 0], 0, 32), "a Teredo address"),
    (v6([0x2001, 2, 0], 0, 48), "a benchmark address"),
    (v6([0x2001, 0, 0], 0, 23), "a protocol assignment"),
    (v6([0x2001, 0xdb8, 0], 0, 32), "a documentation address"),
    (v6([0x3fff, 0, 0], 0, 20), "a documentation address"),
];

/// The only IPv6 network from which public addresses are assigned.
const PUBLIC_V6: Ipv6Net = v6([0x2000, 0, 0], 0, 3);
/// An IPv4 address is in the last 32 bits.
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0], 0, 96);

/// Default ports of apiservers, schedulers, agents, notifiers, NATS (clients, routes, monitoring) and etcd (clients, peers). A rule that
/// opens a whole network does not mean them: there a callback would reach deployd itself.
const OWN_PORTS: [u16; 9] = [9003, 9012, 9013, 9014, 4222, 6222, 8222, 2379, 2380];

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(first: [u16; 3], last: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(first[0], first[1], first[2], 0, 0, 0, 0, last), prefix)
}

/// What kind of internal address this is; None for a public one.
pub fn internal_kind(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => INTERNAL_V4.iter().find(|(net, _)| net.contains(&address)).map(|(_, kind)| *kind),
        IpAddr::V6(address) => match embedded_v4(address) {
            // A translator sends the packet to the IPv4 address: that one decides.
            Some(inner) => internal_kind(IpAddr::V4(inner)),
            None => {
                let known = INTERNAL_V6.iter().find(|(net, _)| net.contains(&address)).map(|(_, kind)| *kind);
                known.or_else(|| (!PUBLIC_V6.contains(&address)).then_some("not a public address"))
            }
        },
    }
}

/// The IPv4 address that a 6to4 (`2002:AABB:CCDD::/48`) or NAT64 (`64:ff9b::AABB:CCDD`) address leads to.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [first, second, third, .., seventh, eighth] = address.segments();
    let (high, low) = match first {
        0x2002 => (second, third),
        _ if NAT64.contains(&address) => (seventh, eighth),
        _ => return None,
    };
    Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
}

/// Addresses or a name, with one port or all: `10.1.0.0/16`, `10.1.2.3:8080`, `[fd00::/8]:8080`, `hooks.example:443`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    place: AllowedTarget,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum AllowedTarget {
    Network(IpNet),
    /// Lower case, without a dot at the end.
    Name(String),
    /// Every address that is not public.
    Internal,
}

/// A text that is no [`Rule`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address; write 10.1.0.0/16, 10.1.2.3:8080, [fd00::/8]:8080 or hooks.example:443")]
pub struct NoRule(String);

impl FromStr for Rule {
    type Err = NoRule;

    fn from_str(text: &str) -> Result<Self, NoRule> {
        let flaw = || NoRule(text.to_owned());
        if let Some(network) = network(text) {
            return Ok(Self { place: AllowedTarget::Network(network), port: None });
        }
        let (place, port) = match text.rsplit_once(':') {
            Some((place, port)) if !text.ends_with(']') => (place, Some(port.parse().map_err(|_| flaw())?)),
            _ => (text, None),
        };
        let place = match place.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
            Some(inner) => AllowedTarget::Network(network(inner).ok_or_else(flaw)?),
            None => match network(place) {
                Some(network) => AllowedTarget::Network(network),
                None => AllowedTarget::Name(name(place).ok_or_else(flaw)?),
            },
        };
        Ok(Self { place, port })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.place, self.port) {
            (AllowedTarget::Network(IpNet::V6(network)), Some(_)) => write!(f, "[{network}]")?,
            (AllowedTarget::Network(network), _) => write!(f, "{network}")?,
            (AllowedTarget::Name(name), _) => f.write_str(name)?,
            (AllowedTarget::Internal, _) => f.write_str("internal addresses")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

fn network(text: &str) -> Option<IpNet> {
    let network = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))?;
    Some(network.trunc())
}

/// A name as the URL parser writes it; None for text that the parser takes for an address or refuses.
fn name(text: &str) -> Option<String> {
    match Url::parse(&format!("http://{text}/")).ok()?.host()? {
        Host::Domain(name) if !text.contains(['/', '@', ':', '?', '#']) => Some(name.trim_end_matches('.').to_owned()),
        Host::Domain(_) | Host::Ipv4(_) | Host::Ipv6(_) => None,
    }
}

impl Rule {
    /// Whether it opens an internal address. Ports of deployd must be named.
    fn opens(&self, host: &str, address: SocketAddr) -> bool {
        self.covers(host, address) && (self.port.is_some() || !OWN_PORTS.contains(&address.port()))
    }

    /// Whether a connection to `address`, found under the name `host`, is meant.
    fn covers(&self, host: &str, address: SocketAddr) -> bool {
        let covers_place = match &self.place {
            AllowedTarget::Network(network) => network.contains(&address.ip()),
            AllowedTarget::Name(name) => host.trim_end_matches('.').eq_ignore_ascii_case(name),
            AllowedTarget::Internal => internal_kind(address.ip()).is_some(),
        };
        covers_place && self.port.is_none_or(|port| port == address.port())
    }
}

/// The rules of one process. A denied address stays closed even if it is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    allow: Vec<Rule>,
    deny: Vec<Rule>,
}

/// Why the notifier does not connect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not public, and no rule allows it.
    #[error("{address} is {kind}; --callback-allow {} opens it (apiservers and notifiers)", opening(*address))]
    Internal {
        /// Address and port of the connection.
        address: SocketAddr,
        /// Which kind of address.
        kind: &'static str,
    },
    /// A rule of `--callback-deny`, or a listener of deployd.
    #[error(
        "{address} is closed to callbacks: --callback-deny or a listener of deployd has {rule}; --callback-allow cannot open it"
    )]
    Denied {
        /// Address and port of the connection.
        address: SocketAddr,
        /// The rule.
        rule: Rule,
    },
}

/// The rule that opens an address.
fn opening(address: SocketAddr) -> String {
    if OWN_PORTS.contains(&address.port()) { address.to_string() } else { address.ip().to_string() }
}

impl Filter {
    /// `deny` wins over `allow`.
    pub fn new(allow: Vec<Rule>, deny: Vec<Rule>) -> Self {
        Self { allow, deny }
    }

    /// Also denies a listener of deployd: its own host, and its port on every internal address, because a server that listens on
    /// one address of a machine often listens on all of them.
    #[must_use]
    pub fn deny_own(mut self, host: &str, port: u16) -> Self {
        let own = network(host.trim_matches(['[', ']']))
            .map(AllowedTarget::Network)
            .or_else(|| name(host).map(AllowedTarget::Name));
        let places = own.into_iter().chain([AllowedTarget::Internal]);
        self.deny.extend(places.map(|place| Rule { place, port: Some(port) }));
        self
    }

    /// Decides about a connection to `address`, which `host` resolved to.
    pub fn check(&self, host: &str, address: SocketAddr) -> Result<(), Refused> {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let inner = match address.ip() {
            IpAddr::V6(ip) => embedded_v4(ip).map(|inner| SocketAddr::new(IpAddr::V4(inner), address.port())),
            IpAddr::V4(_) => None,
        };
        let denies = |rule: &&Rule| rule.covers(host, address) || inner.is_some_and(|inner| rule.covers(host, inner));
        if let Some(rule) = self.deny.iter().find(denies) {
            return Err(Refused::Denied { address, rule: rule.clone() });
        }
        match internal_kind(address.ip()) {
            Some(kind) if !self.allow.iter().any(|rule| rule.opens(host, address)) => {
                Err(Refused::Internal { address, kind })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Decides about a URL whose host is an address; names are decided when they are resolved.
    pub fn check_literal(&self, url: &Url) -> Result<(), Refused> {
        let port = url.port_or_known_default().unwrap_or(0);
        let check = |ip| self.check(&IpAddr::to_string(&ip), SocketAddr::new(ip, port));
        match url.host() {
            Some(Host::Ipv4(ip)) => check(IpAddr::V4(ip)),
            Some(Host::Ipv6(ip)) => check(IpAddr::V6(ip)),
            Some(Host::Domain(_)) | None => Ok(()),
        }
    }

    /// Decides about a URL that a user registers: as [`Self::check_literal`], and `localhost` is loopback. The notifier decides
    /// again when it connects.
    pub fn check_new(&self, url: &Url) -> Result<(), Refused> {
        let host = url.host_str().unwrap_or_default().trim_end_matches('.');
        if host == "localhost" || host.ends_with(".localhost") {
            let port = url.port_or_known_default().unwrap_or(0);
            return self.check(host, SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        }
        self.check_literal(url)
    }
}

#[cfg(test)]
mod tests;
