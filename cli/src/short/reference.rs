//! The reference of the short form: `docs/spec.md` and `deployctl explain`. Pure.

use std::fmt::Write as _;

use super::keys::{self, CHAPTERS, KeyKind, KeyScope, ShortKey};
use super::values;
use crate::document::suggest;

const INTRODUCTION: &str = "\
# The short form

Generated from `cli/src/short/keys`; `deploy/golden` writes it again. `deployctl explain KEY` shows a part of it.

`deployctl apply`, `plan` and `convert` read this form beside PodGroupSpec JSON and YAML:

```yaml
name: shop.web
image: nginx:1.27
replicas: 3
port: 80
env: {GREETING: hello}
memory: 256Mi
health: {http: /healthz, port: 80, every: 5s}
```

* A document with `Pod` or `NumInstances` is a PodGroupSpec; one with `image` or `containers` is the short form. A file may hold several documents.
* The keys of a container stand at the top level, or in each item of `containers` when there are several.
* An unknown key, a value of another type and a number out of its range are errors with line, column and a caret: exit code 2, nothing is sent.
* Over a group that exists, a document without `restart`, `strategy`, `paused`, `memory` or `cpu` leaves what the group has. Every other absent key
  means its default.
* A plain value may stand for a mapping with one key: `strategy: batch` is `strategy: {type: batch}`, and an item of `needs` may be a name.
* `deployctl convert -f FILE` prints the PodGroupSpec, and `deployctl convert --to short -f FILE` the short form of a PodGroupSpec. Nothing is lost
  either way; only what the cluster sets itself (versions and times) is left out. `strategy: serial` is a group without a `Strategy`.
* `deployctl convert --from compose -f docker-compose.yml` converts a compose file and reports every key that it leaves out.

[podgroup.schema.json](podgroup.schema.json) is the JSON schema for editors (`deployctl explain --schema`). The exact rules of rollouts are in
[rollout-rules.md](rollout-rules.md).
";

/// The page `docs/spec.md`.
pub(crate) fn reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (title, keys) in CHAPTERS {
        let _ = write!(
            page,
            "\n## {title}\n\n| key | meaning | default | rules | example | PodGroupSpec |\n|---|---|---|---|---|---|\n"
        );
        for key in keys {
            let row = [
                format!("`{}`", key.path),
                key.meaning.to_owned(),
                key.absent.to_owned(),
                rules(key),
                format!("`{}`", key.example),
                format!("`{}`", key.spec),
            ];
            let _ = writeln!(page, "| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "));
        }
    }
    page
}

/// What the value is, its range and its rules.
fn rules(key: &ShortKey) -> String {
    let of_kind = match key.kind {
        KeyKind::Choice(choices) => {
            let words: Vec<String> = choices.iter().map(|(word, _)| format!("`{word}`")).collect();
            words.join(", ")
        }
        KeyKind::Cores => "0.5 to 4, in steps of 0.5".to_owned(),
        KeyKind::Amount => "a count or a percentage".to_owned(),
        KeyKind::Flag => "`true`, `false`".to_owned(),
        _ => String::new(),
    };
    let range = key.range().map(|range| match key.kind {
        KeyKind::Seconds => format!("{} to {}", values::time(range.least), values::time(range.most)),
        KeyKind::Number => format!("{} to {}", range.least.max(i64::from(range.field.ends_with("Expose"))), range.most),
        _ => String::new(),
    });
    let parts = [of_kind, range.unwrap_or_default(), key.rules.to_owned()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// What `explain` prints: all keys, or one with the keys inside it. The error suggests a key.
pub(crate) fn explain(path: Option<&str>) -> Result<String, String> {
    let Some(path) = path else { return Ok(list()) };
    let wanted = path.trim_end_matches("[]");
    let is_meant = |key: &&ShortKey| key.path == wanted || without_lists(key.path) == without_lists(wanted);
    let found = keys::all().find(is_meant).or_else(|| keys::all().find(|key| key.spec == wanted)).or_else(|| {
        Some(keys::all().filter(|key| key.name() == wanted))
            .and_then(|mut keys| Some((keys.next()?, keys.next())))
            .and_then(|(key, other)| other.is_none().then_some(key))
    });
    found.map(details).ok_or_else(|| {
        let all: Vec<&str> = keys::all().map(|key| key.path).collect();
        let names = keys::all().find(|key| key.also.contains(&wanted)).map(|key| key.path);
        let named = || keys::all().find(|key| key.name() == wanted).map(|key| key.path);
        names
            .or_else(named)
            .or_else(|| suggest::closest(wanted, &all))
            .map_or_else(|| "`deployctl explain` lists all keys".to_owned(), |meant| format!("did you mean {meant}?"))
    })
}

fn without_lists(path: &str) -> String {
    path.replace("[]", "")
}

fn list() -> String {
    let width = keys::all().map(|key| key.path.len()).max().unwrap_or_default();
    let mut text = String::new();
    for (title, keys) in CHAPTERS {
        let _ = writeln!(text, "{}{title}", if text.is_empty() { "" } else { "\n" });
        for key in keys {
            let _ = writeln!(text, "  {:width$}  {}", key.path, plain(first_sentence(key.meaning)));
        }
    }
    text + "\n`deployctl explain KEY` shows one key with its default, rules and example."
}

fn first_sentence(text: &str) -> &str {
    text.split_inclusive(". ").next().unwrap_or(text).trim_end()
}

fn details(key: &ShortKey) -> String {
    let mut text = format!("{}\n  {}\n\n", key.path, plain(key.meaning));
    for (name, value) in [("Default", key.absent.to_owned()), ("Rules", rules(key))] {
        if !value.is_empty() {
            let _ = writeln!(text, "  {name:<13} {}", plain(&value));
        }
    }
    let _ = writeln!(text, "  {:<13} {}: {}", "Example", key.name(), key.example);
    let _ = write!(text, "  {:<13} {}", "PodGroupSpec", key.spec);
    if key.scope == KeyScope::Container {
        text.push_str("\n  With several containers it stands in each item of containers.");
    }
    let inside: Vec<&ShortKey> = keys::all()
        .filter(|inner| inner.path.strip_prefix(key.path).is_some_and(|rest| rest.starts_with(['.', '['])))
        .collect();
    if !inside.is_empty() {
        let width = inside.iter().map(|inner| inner.path.len()).max().unwrap_or_default();
        text.push_str("\n\nKeys:");
        for inner in inside {
            let _ = write!(text, "\n  {:width$}  {}", inner.path, plain(first_sentence(inner.meaning)));
        }
    }
    text
}

/// A text for a terminal: without the marks of Markdown.
fn plain(text: &str) -> String {
    let mut text = text.replace('`', "");
    while let (Some(open), Some(middle)) = (text.find('['), text.find("](")) {
        let Some(close) = text[middle..].find(')') else { break };
        let label = text[open + 1..middle].to_owned();
        text.replace_range(open..=middle + close, &label);
    }
    text
}
