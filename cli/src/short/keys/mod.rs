//! Every key of the short form: where it is written, which field of a PodGroupSpec it stands for, and what it means.
//!
//! This table is the only source: reading, writing, `docs/spec.md`, `deployctl explain` and the JSON schema come from it.

mod check;
mod container;
mod group;
mod rollout;

use contract::ranges::{self, Range};
use serde_json::{Value, json};

/// One key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShortKey {
    /// Its path; `[]` stands for each item of a list.
    pub(crate) path: &'static str,
    /// The path of the field of a PodGroupSpec.
    pub(crate) spec: &'static str,
    pub(crate) kind: KeyKind,
    pub(crate) scope: KeyScope,
    pub(crate) meaning: &'static str,
    /// What holds when the key is absent.
    pub(crate) absent: &'static str,
    /// Its rules, beside the range of the number.
    pub(crate) rules: &'static str,
    /// A value as a user writes it.
    pub(crate) example: &'static str,
    /// Other words that people write for it.
    pub(crate) also: &'static [&'static str],
    /// Another spelling of the same field: it is read, never written.
    pub(crate) is_alias: bool,
}

/// Where a key may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyScope {
    /// At the top level.
    Group,
    /// At the top level, or in an item of `containers`.
    Container,
    /// In an item of `containers` only.
    Item,
}

/// What a key holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeyKind {
    Text,
    /// A whole number.
    Number,
    Flag,
    /// A list of words.
    Words,
    /// A time such as `10s`.
    Seconds,
    /// A size such as `256Mi`.
    Bytes,
    /// CPU cores such as `0.5`.
    Cores,
    /// A count, or a percentage.
    Amount,
    /// A word, and the JSON it stands for.
    Choice(&'static [(&'static str, ChoiceValue)]),
    /// Names of the user's choice with texts.
    Texts,
    /// Names of the user's choice with amounts.
    Amounts,
    /// Environment variables: names with texts, or a list of `NAME=text`.
    Environment,
    /// A list with at most one port.
    Ports,
    /// Placement expressions; `constraint:` may be left out.
    Filters,
    /// A JSON object as text, or as a mapping.
    Json,
    /// A mapping of further keys; a plain value stands for the named one.
    Section(Option<&'static str>),
    /// A list of such mappings.
    Sections(Option<&'static str>),
}

/// The JSON of a choice.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ChoiceValue {
    Word(&'static str),
    Number(u8),
}

impl ChoiceValue {
    pub(crate) fn json(self) -> Value {
        match self {
            Self::Word(word) => json!(word),
            Self::Number(number) => json!(number),
        }
    }
}

/// The chapters of the table, in the order of the reference.
pub(crate) const CHAPTERS: [(&str, &[ShortKey]); 6] = [
    ("The group", &group::GROUP),
    ("The container", &container::CONTAINER),
    ("Health, start and stop", &group::LIFE),
    ("Health checks by the agent", &check::CHECKS),
    ("Rollouts and units", &rollout::ROLLOUT),
    ("Kept for the original API", &group::KEPT),
];

/// All keys.
pub(crate) fn all() -> impl Iterator<Item = &'static ShortKey> {
    CHAPTERS.iter().flat_map(|(_, keys)| keys.iter())
}

/// The key with this path.
pub(crate) fn by_path(path: &str) -> Option<&'static ShortKey> {
    all().find(|key| key.path == path)
}

/// Builds a key of the group.
const fn key(path: &'static str, spec: &'static str, kind: KeyKind, meaning: &'static str) -> ShortKey {
    ShortKey {
        path,
        spec,
        kind,
        scope: KeyScope::Group,
        meaning,
        absent: "",
        rules: "",
        example: "",
        also: &[],
        is_alias: false,
    }
}

impl ShortKey {
    const fn absent(self, absent: &'static str) -> Self {
        Self { absent, ..self }
    }
    const fn rules(self, rules: &'static str) -> Self {
        Self { rules, ..self }
    }
    const fn example(self, example: &'static str) -> Self {
        Self { example, ..self }
    }
    const fn also(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }
    const fn within(self, scope: KeyScope) -> Self {
        Self { scope, ..self }
    }
    const fn alias(self) -> Self {
        Self { is_alias: true, ..self }
    }

    /// The path without its last step.
    pub(crate) fn parent(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(parent, _)| parent)
    }

    /// The last step of the path.
    pub(crate) fn name(&self) -> &'static str {
        self.path.rsplit_once('.').map_or(self.path, |(_, name)| name)
    }

    /// The range of its number.
    pub(crate) fn range(&self) -> Option<&'static Range> {
        // The three checks of the agent have the same ranges.
        let field = match self.spec.split('.').collect::<Vec<_>>().as_slice() {
            ["Pod", "HealthConfig", "startup" | "readiness" | "liveness", number] => {
                format!("Pod.HealthConfig.*.{number}")
            }
            _ => self.spec.to_owned(),
        };
        ranges::ALL.iter().find(|range| range.field == field)
    }

    /// The key that a plain value of this section stands for.
    pub(crate) fn plain(&self) -> Option<&'static Self> {
        match self.kind {
            KeyKind::Section(Some(plain)) => by_path(&format!("{}.{plain}", self.path)),
            KeyKind::Sections(Some(plain)) => by_path(&format!("{}[].{plain}", self.path)),
            _ => None,
        }
    }
}
