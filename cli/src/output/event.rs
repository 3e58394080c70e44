//! An event as text.

use contract::event::Event;

use crate::output::terminal::inline;

/// One line, and one more for each node with its reasons.
pub(crate) fn text(event: &Event) -> String {
    let about = match (&event.group, event.instance) {
        (Some(group), 0) => format!("  {group}"),
        (Some(group), instance) => format!("  {group}#{instance}"),
        (None, _) => String::new(),
    };
    let node = event.node.as_ref().map_or_else(String::new, |node| format!("  {node}"));
    // Times are written without trailing zeros; padded, the columns stay in line.
    let at = event.at.to_string();
    let head = format!("{at:<24}  {:<11}{about}{node}  {}", event.kind.word(), inline(&event.message));
    let reasons = event.reasons.iter().map(|(node, reasons)| format!("\n    {node}: {}", inline(&reasons.join("; "))));
    head + &reasons.collect::<String>()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use contract::event::Kind;
    use contract::time::Timestamp;

    use super::*;

    pub(crate) fn event(message: &str) -> Event {
        Event {
            at: Timestamp::from_millis(1_700_000_000_000),
            kind: Kind::Placed,
            group: Some("demo.web.web".parse().unwrap()),
            instance: 2,
            node: Some("node1".parse().unwrap()),
            message: message.to_owned(),
            namespace: None,
            reasons: BTreeMap::new(),
        }
    }

    #[test]
    fn an_event_is_one_line_with_a_line_per_reason_below() {
        assert_eq!(text(&event("placed")), "2023-11-14T22:13:20Z      Placed       demo.web.web#2  node1  placed");
        let reasons = BTreeMap::from([("node1".parse().unwrap(), vec!["memory".to_owned(), "cpu".to_owned()])]);
        let whole = Event { instance: 0, node: None, reasons, kind: Kind::Unplaceable, ..event("no node fits") };
        let expected = "2023-11-14T22:13:20Z      Unplaceable  demo.web.web  no node fits\n    node1: memory; cpu";
        assert_eq!(text(&whole), expected);
    }
}
