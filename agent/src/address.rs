//! Addresses of containers on our networks.
//!
//! A replacement keeps the address of the container it replaces, so no third container may get that address while neither of
//! them runs (between removal and creation, or during a restart of Docker). Docker assigns the lowest free address, which is
//! exactly that one. So our networks are split: Docker assigns from the upper half, and the agent gives each container an
//! address from the lower half, derived from its name. Nothing has to be stored, and names rarely collide.

use std::fmt;
use std::net::Ipv4Addr;

use contract::digest::Digest;

/// The smallest split network has 4096 addresses: in a smaller one names would collide too often and Docker's half would be
/// too small.
const LONGEST_PREFIX: u8 = 20;
/// Blocks of 256 are easier to read, and some programs reject addresses that end in 0 or 255.
const BLOCK: u32 = 256;

/// An IPv4 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    base: u32,
    prefix: u8,
}

impl Subnet {
    /// Parses `172.19.0.0/16`; none for anything else, for example IPv6.
    pub fn parse(text: &str) -> Option<Self> {
        let (base, prefix) = text.split_once('/')?;
        let (base, prefix) = (u32::from(base.parse::<Ipv4Addr>().ok()?), prefix.parse().ok()?);
        let is_network = prefix <= 32 && u64::from(base).trailing_zeros() >= u32::from(32 - prefix);
        is_network.then_some(Self { base, prefix })
    }

    /// From base address and mask; none when the mask is invalid or does not fit the base.
    pub fn of(base: u32, mask: u32) -> Option<Self> {
        let prefix = mask.leading_ones();
        let is_range = mask.count_ones() == prefix && base & !mask == 0;
        is_range.then(|| Self { base, prefix: u8::try_from(prefix).unwrap_or(32) })
    }

    /// Prefix length.
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    pub fn overlaps(self, other: Self) -> bool {
        let shared = u32::from(self.prefix.min(other.prefix));
        shared == 0 || (self.base ^ other.base) >> (32 - shared) == 0
    }

    /// Number of our networks that fit in.
    pub fn blocks(self) -> u32 {
        if self.is_large() { 1 << (LONGEST_PREFIX - self.prefix) } else { 0 }
    }

    /// One of our networks that fit in.
    pub fn block(self, number: u32) -> Self {
        Self { base: self.base + (number << (32 - LONGEST_PREFIX)), prefix: LONGEST_PREFIX }
    }

    pub fn is_large(self) -> bool {
        self.prefix > 0 && self.prefix <= LONGEST_PREFIX
    }

    pub fn gateway(self) -> Ipv4Addr {
        Ipv4Addr::from(self.base + 1)
    }

    /// The half of a split network from which Docker assigns.
    pub fn engine_half(self) -> String {
        format!("{}/{}", Ipv4Addr::from(self.base + self.half()), self.prefix + 1)
    }

    /// The address of the container of this name on a split network.
    pub fn own(self, name: &str) -> Ipv4Addr {
        let places = BLOCK - 2;
        // The first block is for the gateway and for fixed addresses.
        let blocks = self.half() / BLOCK - 1;
        let place = u32::try_from(Digest::of(name).number() % u64::from(blocks * places)).unwrap_or_default();
        Ipv4Addr::from(self.base + (1 + place / places) * BLOCK + 1 + place % places)
    }

    fn half(self) -> u32 {
        1 << (31 - self.prefix)
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.base), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn subnet(text: &str) -> Subnet {
        Subnet::parse(text).expect("a subnet")
    }

    #[test]
    fn a_subnet_is_parsed_or_refused() {
        for wrong in ["", "172.19.0.0", "172.19.0.0/33", "172.19.0.1/16", "fd00::/64", "a/16"] {
            assert_eq!(Subnet::parse(wrong), None, "{wrong}");
        }
        assert!(subnet("172.19.0.0/16").is_large() && subnet("192.168.16.0/20").is_large());
        assert!(!subnet("192.168.16.0/24").is_large() && !subnet("0.0.0.0/0").is_large());
    }

    #[test]
    fn ranges_that_share_an_address_overlap() {
        let overlap = |one: &str, other: &str| subnet(one).overlaps(subnet(other));
        assert!(overlap("10.64.0.0/10", "10.127.240.0/20") && overlap("10.127.240.0/20", "10.64.0.0/10"));
        assert!(overlap("0.0.0.0/0", "10.0.0.0/8") && overlap("10.1.2.3/32", "10.1.2.3/32"));
        assert!(!overlap("10.64.0.0/20", "10.64.16.0/20") && !overlap("10.64.0.0/10", "10.128.0.0/10"));
        assert_eq!(subnet("10.64.0.0/10").block(1023).to_string(), "10.127.240.0/20");
        assert_eq!((subnet("10.64.0.0/10").blocks(), subnet("10.64.0.0/24").blocks()), (1024, 0));
    }

    #[test]
    fn docker_assigns_from_the_upper_half_and_names_from_the_lower() {
        for (text, engine, gateway) in [
            ("172.19.0.0/16", "172.19.128.0/17", "172.19.0.1"),
            ("192.168.16.0/20", "192.168.24.0/21", "192.168.16.1"),
            ("10.0.0.0/8", "10.128.0.0/9", "10.0.0.1"),
        ] {
            let subnet = subnet(text);
            assert_eq!((subnet.engine_half().as_str(), subnet.gateway().to_string().as_str()), (engine, gateway));
            for number in 0..2000 {
                let own = subnet.own(&format!("web.v1-i{number}-d0"));
                let offset = u32::from(own) - subnet.base;
                assert!((BLOCK..subnet.half()).contains(&offset), "{own}");
                assert!(!matches!(own.octets()[3], 0 | 255), "{own}");
            }
        }
    }

    #[test]
    fn a_name_always_has_the_same_address_and_few_names_share_one() {
        let subnet = subnet("172.19.0.0/16");
        assert_eq!(subnet.own("web.v1-i1-d0"), subnet.own("web.v1-i1-d0"));
        let all: BTreeSet<Ipv4Addr> = (0..200).map(|n| subnet.own(&format!("web.v1-i{n}-d0"))).collect();
        assert!(all.len() >= 198, "{}", all.len());
    }
}
