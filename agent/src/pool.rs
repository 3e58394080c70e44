//! Address ranges for new networks.
//!
//! Docker's default pools have room for about 30 networks, that is 30 namespaces on a node. So the agent gives each network a
//! block of 4096 addresses from configurable ranges. The search starts at a block derived from the network's name: a network
//! that is removed and created again gets the same addresses, unless they were taken meanwhile.

use std::fmt;

use contract::digest::Digest;

use crate::address::Subnet;

/// Address ranges for networks, in order of use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool(Vec<Subnet>);

/// Default ranges, for 1024, 256 and 16 networks. The second and third are Docker's own, for machines that have routes into
/// the first.
pub const DEFAULT: &str = "10.64.0.0/10,172.16.0.0/12,192.168.0.0/16";

impl Pool {
    /// Parses `10.64.0.0/10,172.16.0.0/12`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let range = |text: &str| match Subnet::parse(text.trim()) {
            Some(range) if range.is_large() => Ok(range),
            Some(_) => Err(format!("{text:?} is smaller than one network: give a range of /20 or larger")),
            None => Err(format!("{text:?} is no range of addresses: write it like 10.64.0.0/10")),
        };
        text.split(',').map(range).collect::<Result<Vec<Subnet>, String>>().map(Self)
    }

    /// A block for the network of this name that overlaps none of `taken`.
    pub fn free(&self, name: &str, taken: &[Subnet]) -> Option<Subnet> {
        let seed = Digest::of(name).number();
        self.0.iter().find_map(|range| {
            let count = range.blocks();
            let first = u32::try_from(seed % u64::from(count)).unwrap_or(0);
            let blocks = (0..count).map(|offset| range.block((first + offset) % count));
            blocks.into_iter().find(|block| !taken.iter().any(|other| other.overlaps(*block)))
        })
    }

    /// Number of networks.
    pub fn blocks(&self) -> u32 {
        self.0.iter().map(|range| range.blocks()).fold(0, u32::saturating_add)
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::parse(DEFAULT).expect("the default is a list of ranges")
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&ranges.join(","))
    }
}

/// Destinations of this machine's routes, without the default route.
pub fn routes() -> Vec<Subnet> {
    parse_routes(&std::fs::read_to_string("/proc/net/route").unwrap_or_default())
}

/// Parses the kernel's table: column 2 is the destination, column 8 the mask, both in memory byte order.
fn parse_routes(table: &str) -> Vec<Subnet> {
    let number = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::swap_bytes);
    let route = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (base, mask) = (number(columns.get(1)?)?, number(columns.get(7)?)?);
        Subnet::of(base, mask).filter(|route| route.prefix() > 0)
    };
    table.lines().skip(1).filter_map(route).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn subnet(text: &str) -> Subnet {
        Subnet::parse(text).expect("a subnet")
    }

    #[test]
    fn the_default_holds_more_than_a_thousand_networks_that_do_not_overlap() {
        let pool = Pool::default();
        assert!(pool.blocks() >= 1_000, "{}", pool.blocks());
        let mut taken = vec![subnet("172.17.0.0/16")];
        for number in 0..1_100 {
            let block = pool.free(&format!("namespace-{number}"), &taken).expect("there is room");
            assert!(block.is_large() && !taken.iter().any(|other| other.overlaps(block)), "{block}");
            taken.push(block);
        }
    }

    #[test]
    fn a_name_gets_the_same_block_while_it_is_free_and_else_the_next_one() {
        let pool = Pool::default();
        let block = pool.free("web", &[]).expect("free");
        assert_eq!(pool.free("web", &[]), Some(block));
        let other = pool.free("web", &[block]).expect("free");
        assert!(!other.overlaps(block), "{other}");
        let names: BTreeSet<String> =
            (0..50).filter_map(|number| pool.free(&format!("n{number}"), &[])).map(|block| block.to_string()).collect();
        assert!(names.len() > 45, "names rarely meet: {}", names.len());
    }

    #[test]
    fn a_range_with_a_route_is_skipped() {
        let pool = Pool::default();
        let block = pool.free("web", &[subnet("10.0.0.0/8")]).expect("the next range");
        assert!(block.overlaps(subnet("172.16.0.0/12")), "{block}");
        assert_eq!(Pool::parse("10.64.0.0/20").expect("a pool").free("web", &[subnet("10.64.3.0/24")]), None);
    }

    #[test]
    fn a_range_that_is_too_small_or_invalid_is_refused() {
        for wrong in ["", "10.0.0.0", "10.64.0.0/21", "10.64.0.1/20", "10.64.0.0/10;172.16.0.0/12", "10.64.0.0/10,"] {
            assert!(Pool::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Pool::parse("10.64.0.0/10, 172.16.0.0/12").expect("two").blocks(), 1_280);
        assert_eq!(Pool::default().to_string(), DEFAULT);
    }

    #[test]
    fn the_kernels_routes_are_parsed_without_the_default_route() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
            eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
            broken\n";
        assert_eq!(parse_routes(table), [subnet("172.17.0.0/16"), subnet("192.0.2.0/24")]);
    }
}
