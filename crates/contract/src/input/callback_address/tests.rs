//! Every kind of address, the rules that open and close them, and their texts.

use proptest::prelude::*;

use super::*;

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn filter(allow: &[&str], deny: &[&str]) -> Filter {
    Filter::new(rules(allow), rules(deny))
}

fn literal(filter: &Filter, url: &str) -> Result<(), Refused> {
    filter.check_new(&Url::parse(url).unwrap())
}

#[test]
fn the_first_and_the_last_address_of_every_internal_network_are_refused_and_their_neighbours_are_not() {
    for (first, last) in [
        ("0.0.0.0", "0.255.255.255"),
        ("10.0.0.0", "10.255.255.255"),
        ("100.64.0.0", "100.127.255.255"),
        ("127.0.0.0", "127.255.255.255"),
        ("169.254.0.0", "169.254.255.255"),
        ("172.16.0.0", "172.31.255.255"),
        ("192.168.0.0", "192.168.255.255"),
        ("198.18.0.0", "198.19.255.255"),
        ("224.0.0.0", "255.255.255.255"),
    ] {
        let [first, last] = [first, last].map(|text| text.parse::<Ipv4Addr>().unwrap());
        assert!(internal_kind(first.into()).is_some() && internal_kind(last.into()).is_some(), "{first} {last}");
        for outside in [u32::from(first).checked_sub(1), u32::from(last).checked_add(1)].into_iter().flatten() {
            let outside = Ipv4Addr::from(outside);
            assert_eq!(internal_kind(outside.into()), None, "{outside}");
        }
    }
}

#[test]
fn ipv6_is_internal_outside_of_the_public_network_and_in_its_special_parts() {
    for text in [
        "::",
        "::1",
        "::2",
        "::7f00:1",
        "::808:808",
        "100::1",
        "fc00::1",
        "fdff::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "2001::1",
        "2001:2::1",
        "2001:10::1",
        "2001:1ff:ffff::",
        "2001:db8::1",
        "3fff:fff::1",
        "4000::1",
        "5f00::1",
        "64:ff9b:1::808:808",
        "::ffff:127.0.0.1",
        "64:ff9b::10.0.0.1",
        "2002:a9fe:a9fe::1",
        "2002:7f00:1::",
    ] {
        assert!(internal_kind(text.parse().unwrap()).is_some(), "{text}");
    }
    for text in
        ["2606:4700::1111", "2001:4860:4860::8888", "2a00::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"]
    {
        assert_eq!(internal_kind(text.parse().unwrap()), None, "{text}");
    }
}

#[test]
fn a_refused_literal_is_explained_with_the_flag_that_opens_it() {
    let closed = Filter::default();
    let refused = literal(&closed, "http://0x7f.1:8080/x").unwrap_err().to_string();
    assert_eq!(
        refused,
        "127.0.0.1:8080 is a loopback address; --callback-allow 127.0.0.1 opens it (apiservers and notifiers)"
    );
    for url in [
        "http://LOCALHOST./",
        "http://a.localhost",
        "https://[::ffff:a00:1]/",
        "http://2130706433/",
        "http://127.1.:90",
    ] {
        assert!(literal(&closed, url).is_err(), "{url}");
    }
    for url in ["http://hooks.example/", "https://8.8.8.8/", "http://localhost.example"] {
        assert_eq!(literal(&closed, url), Ok(()), "{url}");
    }
}

#[test]
fn a_rule_opens_networks_and_names_for_one_port_or_all() {
    let open = filter(&["10.1.0.0/16", "127.0.0.1:8080", "[fd00::/8]:443", "Hooks.Example.:90"], &[]);
    let at = |host: &str, address: &str| open.check(host, address.parse().unwrap()).is_ok();
    assert!(at("x", "10.1.255.255:1") && !at("x", "10.2.0.0:1"));
    assert!(at("x", "[::ffff:10.1.0.1]:1"), "the same address in another form");
    assert!(!at("x", "[64:ff9b::10.1.0.1]:1"), "a translator may lead to another network");
    assert!(at("x", "127.0.0.1:8080") && !at("x", "127.0.0.1:8081"));
    assert!(at("x", "[fd00::1]:443") && !at("x", "[fd00::1]:80"));
    assert!(at("hooks.example", "192.168.0.1:90") && at("HOOKS.example.", "192.168.0.1:90"));
    assert!(!at("hooks.example", "192.168.0.1:91") && !at("a.hooks.example", "192.168.0.1:90"));
}

#[test]
fn a_denied_address_stays_closed_in_every_form() {
    let filter = filter(&["0.0.0.0/0", "::/0"], &["127.0.0.0/8:9003", "8.8.8.8", "closed.example"]);
    for address in
        ["127.0.0.1:9003", "[::ffff:127.0.0.1]:9003", "[64:ff9b::127.0.0.1]:9003", "[2002:808:808::]:1", "8.8.8.8:1"]
    {
        assert!(matches!(filter.check("x", address.parse().unwrap()), Err(Refused::Denied { .. })), "{address}");
    }
    assert!(filter.check("closed.example", "9.9.9.9:1".parse().unwrap()).is_err());
    assert_eq!(filter.check("x", "127.0.0.1:9004".parse().unwrap()), Ok(()));
}

#[test]
fn own_listeners_are_closed_on_every_internal_address() {
    let filter = filter(&["0.0.0.0/0", "::/0"], &[]).deny_own("0.0.0.0", 9014).deny_own("nats.example", 4222);
    let at = |host: &str, address: &str| filter.check(host, address.parse().unwrap()).is_ok();
    assert!(!at("x", "127.0.0.1:9014") && !at("x", "10.0.0.1:4222") && !at("x", "[::1]:4222"));
    assert!(!at("nats.example", "8.8.8.8:4222"));
    assert!(at("x", "127.0.0.1:9015") && at("x", "8.8.8.8:9014"));
}

#[test]
fn rules_are_shown_as_they_are_written() {
    for text in ["10.1.0.0/16", "10.1.2.3/32:8080", "fd00::/8", "[fd00::/8]:80", "hooks.example", "hooks.example:443"] {
        assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
    }
    for (text, shown) in
        [("10.1.2.3/8", "10.0.0.0/8"), ("::1", "::1/128"), ("[::1]:80", "[::1/128]:80"), ("[::1]", "::1/128")]
    {
        assert_eq!(text.parse::<Rule>().unwrap().to_string(), shown);
    }
    for bad in ["", "10.0.0.0/33", "a:b", "a:70000", "http://a", "a/b", "[a]:80", "127.1", "0x7f000001", "a@b", "a b"] {
        assert!(bad.parse::<Rule>().is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn every_address_gets_an_answer_and_its_mapped_form_the_same(number in any::<u128>(), port in any::<u16>()) {
        let filter = filter(&["10.0.0.0/8"], &["127.0.0.1"]);
        let six = Ipv6Addr::from(number);
        let _ = filter.check("x", SocketAddr::new(six.into(), port));
        let four = Ipv4Addr::from((number >> 96) as u32);
        prop_assert_eq!(
            filter.check("x", SocketAddr::new(four.into(), port)),
            filter.check("x", SocketAddr::new(four.to_ipv6_mapped().into(), port))
        );
    }
}

#[test]
fn an_opened_network_does_not_open_the_ports_of_deployd() {
    let wide = filter(&["10.0.0.0/8", "etcd.lan"], &[]);
    let check = |filter: &Filter, host: &str, address: &str| filter.check(host, address.parse().expect("an address"));
    for port in OWN_PORTS {
        let refused = check(&wide, "x", &format!("10.0.0.1:{port}")).expect_err("closed").to_string();
        assert!(refused.contains(&format!("--callback-allow 10.0.0.1:{port}")), "{refused}");
        assert!(check(&wide, "etcd.lan", &format!("10.0.0.1:{port}")).is_err());
    }
    assert_eq!(check(&wide, "x", "10.0.0.1:8080"), Ok(()));
    assert_eq!(check(&wide, "x", "8.8.8.8:9003"), Ok(()), "public addresses need no rule");
    assert_eq!(check(&filter(&["10.0.0.0/8:9003"], &[]), "x", "10.0.0.1:9003"), Ok(()), "an operator names the port");
}
