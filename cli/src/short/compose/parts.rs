//! Values of a compose file that have several notations: words, names with texts, ports and volumes.

use super::super::values::Written;
use super::service::Service;
use super::{Reports, YamlNode, YamlTree};

/// A list of words, or a text that is split at blanks as a shell does.
pub(super) fn words(node: &YamlNode, path: &str, reports: &mut Reports) -> Option<Written> {
    match &node.tree {
        YamlTree::List(_) => Some(list(node, path, reports)),
        _ => {
            let text = reports.text(node, path)?;
            Some(Written::List(split(&text).into_iter().map(Written::Text).collect()))
        }
    }
}

/// A text, or a list of texts.
pub(super) fn list(node: &YamlNode, path: &str, reports: &mut Reports) -> Written {
    let items: Vec<(String, &YamlNode)> = match &node.tree {
        YamlTree::List(items) => items.iter().enumerate().map(|(index, it)| (format!("{path}[{index}]"), it)).collect(),
        _ => vec![(path.to_owned(), node)],
    };
    Written::List(items.into_iter().filter_map(|(path, item)| reports.text(item, &path).map(Written::Text)).collect())
}

/// Names with texts: a mapping, or a list of `NAME=text`. A name alone takes its value from the shell of the user.
pub(super) fn named(node: &YamlNode, path: &str, reports: &mut Reports) -> Written {
    let mut found: Vec<(String, Written)> = Vec::new();
    let mut put = |name: String, text: String| {
        found.retain(|(known, _)| *known != name);
        found.push((name, Written::Text(text)));
    };
    const NO_VALUE: &str = "has no value in this file; write one";
    match &node.tree {
        YamlTree::Map(members) => {
            for member in members {
                let path = format!("{path}.{}", member.key);
                match reports.text(&member.node, &path) {
                    Some(text) => put(member.key.clone(), text),
                    None => reports.add(member.position, path, NO_VALUE),
                }
            }
        }
        YamlTree::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let path = format!("{path}[{index}]");
                let text = reports.text(item, &path).unwrap_or_default();
                match text.split_once('=') {
                    Some((name, text)) => put(name.to_owned(), text.to_owned()),
                    None => reports.add(item.position, path, NO_VALUE),
                }
            }
        }
        _ => reports.add(node.position, path, "must be a mapping or a list of NAME=text; it is left out"),
    }
    Written::Map(found)
}

/// The words of a command line: blanks separate, quotes and backslashes keep them.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut letters) = (Vec::new(), None::<String>, None, text.chars());
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (end, Some(open)) if end == open => quote = None,
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(letters.next()),
            (kept, Some(_)) => word.get_or_insert_default().push(kept),
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (gap, None) if gap.is_whitespace() => words.extend(word.take()),
            (kept, None) => word.get_or_insert_default().push(kept),
        }
    }
    words.extend(word);
    words
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=@%+,".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The test of a health check as a shell command.
pub(super) fn test(node: &YamlNode, path: &str, reports: &mut Reports) -> Option<String> {
    let YamlTree::List(items) = &node.tree else { return reports.text(node, path) };
    let words: Vec<String> = items.iter().filter_map(|item| reports.text(item, path)).collect();
    match words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("NONE", _)) => Some("none".to_owned()),
        Some(("CMD-SHELL", rest)) => Some(rest.join(" ")),
        Some(("CMD", rest)) => Some(rest.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")),
        _ => {
            reports.add(node.position, path, "begins with none of CMD, CMD-SHELL and NONE; it is left out");
            None
        }
    }
}

/// Bytes from `512m`, `1gb` or a number.
pub(super) fn bytes(text: &str) -> Option<i64> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(lower.len());
    let shift = match lower[digits..].trim() {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _ => return None,
    };
    lower[..digits].parse::<i64>().ok()?.checked_mul(1 << shift).filter(|bytes| *bytes >= 6 << 20)
}

/// The one TCP port of the container. Ports of the node and further ports are reported.
pub(super) fn port(service: &mut Service<'_>) -> Option<i64> {
    let mut chosen = None;
    for key in ["ports", "expose"] {
        let Some((node, path)) = service.at(key) else { continue };
        let YamlTree::List(items) = &node.tree else {
            service.note(key, "must be a list; it is left out");
            continue;
        };
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let Some(port) = one_port(item, &path, service.reports) else { continue };
            match chosen {
                None => chosen = Some(port),
                Some(first) if first == port => {}
                Some(_) => service.reports.add(item.position, path, "not supported; a container has one port"),
            }
        }
    }
    chosen
}

fn one_port(item: &YamlNode, path: &str, reports: &mut Reports) -> Option<i64> {
    let (target, published, protocol) = match &item.tree {
        YamlTree::Map(_) => {
            reports.others(item, path, &["target", "published", "protocol", "mode"]);
            let mut text = |key: &str| item.member(key).and_then(|it| reports.text(&it.node, &format!("{path}.{key}")));
            (text("target")?, text("published").is_some(), text("protocol"))
        }
        _ => {
            let text = reports.text(item, path)?;
            let (rest, protocol) =
                text.split_once('/').map_or((text.as_str(), None), |(rest, protocol)| (rest, Some(protocol)));
            let target = rest.rsplit(':').next().unwrap_or(rest);
            (target.to_owned(), rest.contains(':'), protocol.map(str::to_owned))
        }
    };
    if protocol.is_some_and(|protocol| protocol != "tcp") {
        reports.add(item.position, path, "not supported; deployd publishes TCP ports");
        return None;
    }
    let Some(port) = target.parse::<u16>().ok().filter(|port| *port > 0) else {
        reports.add(item.position, path, "not supported; a container has one port");
        return None;
    };
    if published {
        reports.add(item.position, path, "the port of the node is not fixed: the cluster chooses it");
    }
    Some(i64::from(port))
}

/// Paths that are stored on the node for each instance, and bind mounts.
pub(super) fn volumes(service: &mut Service<'_>) -> (Vec<String>, Vec<String>) {
    let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
    let Some((node, path)) = service.at("volumes") else { return (volumes, mounts) };
    let YamlTree::List(items) = &node.tree else {
        service.note("volumes", "must be a list; it is left out");
        return (volumes, mounts);
    };
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let reports = &mut *service.reports;
        let Some((source, target, mode)) = one_volume(item, &path, reports) else { continue };
        if source.starts_with('/') {
            mounts.push([source, target].into_iter().chain(mode).collect::<Vec<_>>().join(":"));
        } else if source.starts_with(['.', '~', '$']) {
            reports.add(item.position, path, "not supported; the nodes do not have the directory of the file");
        } else {
            let is_named = !source.is_empty();
            if mode.is_some() {
                reports.add(item.position, &path, "the mode is left out: an instance can write to its volumes");
            }
            if is_named {
                reports.add(item.position, path, "each instance gets a directory of its own; services do not share it");
            }
            volumes.push(target);
        }
    }
    (volumes, mounts)
}

/// Source, target and mode of a volume; an anonymous one has no source.
fn one_volume(item: &YamlNode, path: &str, reports: &mut Reports) -> Option<(String, String, Option<String>)> {
    if let YamlTree::Map(_) = &item.tree {
        reports.others(item, path, &["type", "source", "target", "read_only"]);
        let mut text = |key: &str| item.member(key).and_then(|it| reports.text(&it.node, &format!("{path}.{key}")));
        let (kind, source, target, read_only) = (text("type"), text("source"), text("target")?, text("read_only"));
        if kind.is_some_and(|kind| !matches!(kind.as_str(), "volume" | "bind")) {
            reports.add(item.position, path, "not supported; volumes and bind mounts are");
            return None;
        }
        let mode = read_only.filter(|flag| flag == "true").map(|_| "ro".to_owned());
        return Some((source.unwrap_or_default(), target, mode));
    }
    let text = reports.text(item, path)?;
    let parts: Vec<&str> = text.split(':').collect();
    let of = |source: &str, target: &str, mode: Option<&str>| {
        (source.to_owned(), target.to_owned(), mode.map(str::to_owned))
    };
    match parts[..] {
        [target] => Some(of("", target, None)),
        [source, target] => Some(of(source, target, None)),
        [source, target, mode] => Some(of(source, target, Some(mode))),
        _ => {
            reports.add(item.position, path, "not supported; write SOURCE:TARGET");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_split_as_a_shell_does() {
        for (text, words) in [
            ("sleep  3600", &["sleep", "3600"][..]),
            ("sh -c 'echo \"a b\"' \"x y\"z", &["sh", "-c", "echo \"a b\"", "x yz"]),
            ("a\\ b '' \"q\\\"q\"", &["a b", "", "q\"q"]),
            ("  ", &[]),
        ] {
            assert_eq!(split(text), words, "{text}");
        }
    }

    #[test]
    fn sizes_of_compose_are_binary() {
        for (text, size) in
            [("512m", Some(512 << 20)), ("1GB", Some(1 << 30)), ("8388608", Some(8 << 20)), ("1m", None), ("x", None)]
        {
            assert_eq!(bytes(text), size, "{text}");
        }
    }
}
