//! Stream ports, which a group declares in its annotation: `{"ports":[{"srcport":9001,"dstport":8080,"proto":"tcp"}]}`.
//!
//! At most one group of the cluster owns a source port, for tcp and udp together. Other keys of the annotation belong
//! to clients and are ignored. A missing protocol means tcp, as in the original API.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::lenient_json;

/// Limit of ports per group.
pub const MOST_PORTS: usize = 64;

/// One stream port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StreamPort {
    /// Port that clients outside the cluster connect to; one group owns it.
    pub srcport: u16,
    /// Port of the containers that the traffic is forwarded to.
    pub dstport: u16,
    /// `tcp` or `udp`.
    pub proto: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotation {
    ports: Vec<DeclaredPort>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DeclaredPort {
    srcport: i64,
    dstport: i64,
    proto: String,
}

/// The ports that an annotation declares. Malformed entries are skipped; [`flaws`] reports them during validation.
pub fn declared(annotation: &str) -> Vec<StreamPort> {
    let read = lenient_json::from_slice::<Annotation>(annotation.as_bytes()).unwrap_or_default();
    let mut seen = BTreeSet::new();
    read.ports.iter().filter_map(port).filter(|port| seen.insert((port.srcport, port.proto.clone()))).collect()
}

/// Checks the ports of an annotation that is a JSON object; returns pairs of field and problem.
pub fn flaws(annotation: &str) -> Vec<(String, String)> {
    let read = match lenient_json::from_slice::<Annotation>(annotation.as_bytes()) {
        Ok(read) => read,
        Err(error) => return vec![("ports".to_owned(), error.to_string())],
    };
    let mut flaws = Vec::new();
    if read.ports.len() > MOST_PORTS {
        flaws.push(("ports".to_owned(), format!("{} are too many, at most {MOST_PORTS}", read.ports.len())));
    }
    let mut seen = BTreeSet::new();
    for (index, entry) in read.ports.iter().enumerate() {
        for (field, number) in [("srcport", entry.srcport), ("dstport", entry.dstport)] {
            if !(1..=65_535).contains(&number) {
                flaws.push((format!("ports[{index}].{field}"), format!("must be a port 1..65535, is {number}")));
            }
        }
        if protocol(&entry.proto).is_none() {
            flaws.push((format!("ports[{index}].proto"), format!("must be \"tcp\" or \"udp\", is {:?}", entry.proto)));
        }
        // The same number may be declared once for tcp and once for udp.
        let proto = protocol(&entry.proto).unwrap_or_default();
        if !seen.insert((entry.srcport, proto)) {
            let problem = format!("{}/{proto} is declared twice", entry.srcport);
            flaws.push((format!("ports[{index}].srcport"), problem));
        }
    }
    flaws
}

fn port(entry: &DeclaredPort) -> Option<StreamPort> {
    let number = |number: i64| u16::try_from(number).ok().filter(|number| *number > 0);
    Some(StreamPort {
        srcport: number(entry.srcport)?,
        dstport: number(entry.dstport)?,
        proto: protocol(&entry.proto)?.to_owned(),
    })
}

fn protocol(text: &str) -> Option<&'static str> {
    match text {
        "" | "tcp" => Some("tcp"),
        "udp" => Some("udp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(annotation: &str) -> Vec<String> {
        flaws(annotation).into_iter().map(|(field, _)| field).collect()
    }

    #[test]
    fn ports_are_parsed_from_the_annotation_and_other_keys_are_ignored() {
        let annotation = r#"{"mountpoint":["a"],"ports":[{"srcport":9001,"dstport":8080,"proto":"tcp","more":1},
            {"SrcPort":9002,"DstPort":53,"Proto":"udp"},{"srcport":9003,"dstport":1}]}"#;
        let port = |srcport, dstport, proto: &str| StreamPort { srcport, dstport, proto: proto.to_owned() };
        assert_eq!(declared(annotation), [port(9001, 8080, "tcp"), port(9002, 53, "udp"), port(9003, 1, "tcp")]);
        assert_eq!(flaws(annotation), []);
        for empty in ["", "{}", r#"{"ports":null}"#, r#"{"ports":[]}"#, "no json"] {
            assert_eq!(declared(empty), [], "{empty}");
        }
    }

    #[test]
    fn a_group_may_have_one_number_for_tcp_and_udp() {
        let annotation =
            r#"{"ports":[{"srcport":9901,"dstport":53,"proto":"tcp"},{"srcport":9901,"dstport":53,"proto":"udp"}]}"#;
        let protocols: Vec<String> = declared(annotation).into_iter().map(|port| port.proto).collect();
        assert_eq!((flaws(annotation), protocols), (vec![], vec!["tcp".to_owned(), "udp".to_owned()]));
        let twice = r#"{"ports":[{"srcport":9901,"dstport":1,"proto":""},{"srcport":9901,"dstport":2,"proto":"tcp"}]}"#;
        assert_eq!(flaws(twice), [("ports[1].srcport".to_owned(), "9901/tcp is declared twice".to_owned())]);
    }

    #[test]
    fn every_malformed_entry_is_named() {
        let annotation = r#"{"ports":[{"srcport":0,"dstport":70000,"proto":"icmp"},{"srcport":9001,"dstport":1},
            {"srcport":9001,"dstport":2}]}"#;
        let named = ["ports[0].srcport", "ports[0].dstport", "ports[0].proto", "ports[2].srcport"];
        assert_eq!(fields(annotation), named);
        assert_eq!(declared(annotation).len(), 1, "what is stored from another version is read as far as it goes");
        for wrong in [r#"{"ports":7}"#, r#"{"ports":[7]}"#, r#"{"ports":[{"srcport":"9001","dstport":1}]}"#] {
            assert_eq!(fields(wrong), ["ports"], "{wrong}");
        }
        let entry = |n: usize| format!(r#"{{"srcport":{},"dstport":1}}"#, n + 1);
        let many: Vec<String> = (0..=MOST_PORTS).map(entry).collect();
        assert_eq!(fields(&format!(r#"{{"ports":[{}]}}"#, many.join(","))), ["ports"]);
    }
}
