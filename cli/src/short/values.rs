//! Single values: from what a user writes to the JSON of a PodGroupSpec, and back. Pure.

use contract::ranges;
use contract::rollout::Amount;
use serde_json::{Map, Value, json};

use super::keys::{self, KeyKind, ShortKey};
use crate::document::tree::{TextPosition, YamlNode, YamlTree};

/// Cores of one CPU level: a sixteenth of `--quota-cores`, which is 8 unless the cluster is set up otherwise.
const CORES_PER_LEVEL: f64 = 0.5;
/// The smallest memory limit that Docker accepts, in bytes.
const LEAST_MEMORY: i64 = 6 << 20;
/// The families of placement expressions.
const FAMILIES: [&str; 2] = ["constraint:", "affinity:"];
const SIZES: [(&str, u32); 4] = [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];

/// The JSON that a value of this key stands for, or the problem and the remedy.
pub(super) fn to_json(key: &ShortKey, node: &YamlNode) -> Result<Value, String> {
    if node.tree == YamlTree::Null {
        return Err(format!("has no value; write {}, or leave the key out", must_be(key)));
    }
    let found = match key.kind {
        KeyKind::Text => text(node).map(Value::from),
        KeyKind::Number => return number(key, node),
        KeyKind::Flag => flag(node),
        KeyKind::Words => words(node).map(Value::from),
        KeyKind::Seconds => return seconds(key, node),
        KeyKind::Bytes => bytes(node).map(Value::from),
        KeyKind::Cores => level(node).map(Value::from),
        KeyKind::Amount => amount(node),
        KeyKind::Choice(choices) => {
            let word = text(node);
            let chosen = choices.iter().find(|(choice, _)| word.as_deref() == Some(*choice));
            chosen.map(|(_, value)| value.json())
        }
        KeyKind::Texts => named(node, |node| plain(node).map(Value::from)),
        KeyKind::Amounts => named(node, amount),
        KeyKind::Environment => environment(node),
        KeyKind::Ports => return port_of_list(key, node),
        KeyKind::Filters => words(node).map(|words| words.into_iter().map(expression).map(Value::from).collect()),
        KeyKind::Json => annotation(node).map(Value::from),
        // Sections are read key by key.
        KeyKind::Section(_) | KeyKind::Sections(_) => None,
    };
    found.ok_or_else(|| format!("must be {}, is {}", must_be(key), shown(node)))
}

/// The part of a list or a mapping that is wrong.
pub(super) struct WrongPart {
    /// Its path below the value: `[2]`, `.NAME`.
    pub(super) path: String,
    pub(super) position: Option<TextPosition>,
    pub(super) problem: String,
}

/// The first item of a list of words, or member of a mapping, that has a wrong type.
pub(super) fn wrong_part(key: &ShortKey, node: &YamlNode) -> Option<WrongPart> {
    let part = |path: String, node: &YamlNode| {
        let problem = format!("{}, is {}", wrong_value(key, node)?, shown(node));
        Some(WrongPart { path, position: node.position, problem })
    };
    match (key.kind, &node.tree) {
        (KeyKind::Words | KeyKind::Filters | KeyKind::Environment, YamlTree::List(items)) => {
            items.iter().enumerate().find_map(|(index, item)| part(format!("[{index}]"), item))
        }
        (KeyKind::Environment, YamlTree::Map(members)) if members.iter().any(|it| !is_variable(&it.key)) => {
            let member = members.iter().find(|it| !is_variable(&it.key))?;
            let problem = "is no name of a variable; write NAME: text".to_owned();
            Some(WrongPart { path: format!(".{}", member.key), position: member.position, problem })
        }
        (KeyKind::Texts | KeyKind::Amounts | KeyKind::Environment, YamlTree::Map(members)) => {
            members.iter().find_map(|member| part(format!(".{}", member.key), &member.node))
        }
        _ => None,
    }
}

/// What a part of a value must be, if it is not.
fn wrong_value(key: &ShortKey, node: &YamlNode) -> Option<&'static str> {
    match (key.kind, &node.tree) {
        (KeyKind::Amounts, _) => {
            amount(node).is_none().then_some("must be a count such as 2 or a percentage such as 25%")
        }
        (_, YamlTree::Null) => Some("must be a text; write \"\" for an empty one"),
        (_, YamlTree::List(_) | YamlTree::Map(_)) => Some("must be a text"),
        _ => None,
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains('=')
}

/// The number that a text on the command line stands for, such as `256Mi` for `memory`.
pub(crate) fn number_of_text(path: &str, text: &str) -> Result<i64, String> {
    let key = keys::by_path(path).ok_or_else(|| format!("{path}: unknown key"))?;
    let node = YamlNode { position: None, raw: text.to_owned(), tree: YamlTree::Text(text.to_owned()) };
    let value = to_json(key, &node).map_err(|problem| format!("{path}: {problem}"))?;
    value.as_i64().ok_or_else(|| format!("{path}: is no number"))
}

/// What a key holds, in the words of an error.
pub(super) fn must_be(key: &ShortKey) -> String {
    let example = key.example;
    match key.kind {
        KeyKind::Text => format!("a text such as {example}"),
        KeyKind::Number => format!("a whole number such as {example}"),
        KeyKind::Flag => "true or false".to_owned(),
        KeyKind::Words | KeyKind::Filters => format!("a list of words such as {example}"),
        KeyKind::Seconds => format!("a time such as {example}"),
        KeyKind::Bytes => format!("a size such as {example}"),
        KeyKind::Cores => "cores from 0.5 to 4 in steps of 0.5, such as 0.5".to_owned(),
        KeyKind::Amount => "a count such as 2 or a percentage such as 25%".to_owned(),
        KeyKind::Choice(choices) => {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            let (last, first) = words.split_last().map_or(("", &[][..]), |(last, first)| (*last, first));
            format!("{} or {last}", first.join(", "))
        }
        KeyKind::Texts | KeyKind::Amounts => format!("a mapping such as {example}"),
        KeyKind::Environment => format!("a mapping such as {example}, or a list of NAME=text"),
        KeyKind::Ports => format!("a list with one port such as {example}"),
        KeyKind::Json => format!("a mapping such as {example}, or a JSON object as text"),
        KeyKind::Section(None) => format!("a mapping such as {example}"),
        KeyKind::Section(Some(_)) => format!("a word, or a mapping such as {example}"),
        KeyKind::Sections(_) => format!("a list such as {example}"),
    }
}

/// A value in the words of an error.
fn shown(node: &YamlNode) -> String {
    match &node.tree {
        YamlTree::Null => "empty".to_owned(),
        YamlTree::Flag(_) | YamlTree::Integer(_) | YamlTree::Float(_) => node.raw.clone(),
        YamlTree::Text(text) => format!("{text:?}"),
        YamlTree::List(_) => "a list".to_owned(),
        YamlTree::Map(_) => "a mapping".to_owned(),
    }
}

/// A text; a number counts as the text that is written.
fn text(node: &YamlNode) -> Option<String> {
    match &node.tree {
        YamlTree::Flag(_) => None,
        _ => plain(node),
    }
}

/// Any scalar, as it is written.
fn plain(node: &YamlNode) -> Option<String> {
    match &node.tree {
        YamlTree::Text(text) => Some(text.clone()),
        YamlTree::Flag(_) | YamlTree::Integer(_) | YamlTree::Float(_) => Some(node.raw.clone()),
        YamlTree::Null | YamlTree::List(_) | YamlTree::Map(_) => None,
    }
}

fn flag(node: &YamlNode) -> Option<Value> {
    match node.tree {
        YamlTree::Flag(flag) => Some(json!(flag)),
        _ => None,
    }
}

fn words(node: &YamlNode) -> Option<Vec<String>> {
    match &node.tree {
        YamlTree::List(items) => items.iter().map(plain).collect(),
        _ => None,
    }
}

fn number(key: &ShortKey, node: &YamlNode) -> Result<Value, String> {
    let YamlTree::Integer(number) = node.tree else {
        return Err(format!("must be {}, is {}", must_be(key), shown(node)));
    };
    match key.range() {
        Some(range) if !(range.least..=range.most).contains(&number) => {
            Err(format!("must be {}..{}, is {number}", range.least, range.most))
        }
        _ => Ok(json!(number)),
    }
}

fn seconds(key: &ShortKey, node: &YamlNode) -> Result<Value, String> {
    let wrong = || format!("must be {}, is {}", must_be(key), shown(node));
    let seconds = match &node.tree {
        YamlTree::Integer(seconds) => *seconds,
        YamlTree::Text(text) => {
            let span = fabric::duration::parse(text).map_err(|_| wrong())?;
            if span.subsec_nanos() != 0 {
                return Err(format!("must be whole seconds, is {text}"));
            }
            i64::try_from(span.as_secs()).map_err(|_| wrong())?
        }
        _ => return Err(wrong()),
    };
    match key.range() {
        Some(range) if !(range.least..=range.most).contains(&seconds) => {
            let (least, most) = (time(range.least), time(range.most));
            Err(format!("must be {least} to {most}, is {}", time(seconds)))
        }
        _ => Ok(json!(seconds)),
    }
}

/// Seconds as people write them: `90s`, `10m`, `168h`.
pub(super) fn time(seconds: i64) -> String {
    match seconds {
        0 => "0s".to_owned(),
        hours if hours % 3600 == 0 => format!("{}h", hours / 3600),
        minutes if minutes % 60 == 0 => format!("{}m", minutes / 60),
        seconds => format!("{seconds}s"),
    }
}

fn bytes(node: &YamlNode) -> Option<i64> {
    let size = match &node.tree {
        YamlTree::Integer(size) => *size,
        YamlTree::Text(text) => {
            let (digits, shift) =
                SIZES.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift))).unwrap_or((text, 0));
            let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            digits.parse::<i64>().ok().filter(|_| is_number)?.checked_mul(1 << shift)?
        }
        _ => return None,
    };
    (LEAST_MEMORY..=ranges::MEMORY_LIMIT.most).contains(&size).then_some(size)
}

/// Bytes as people write them: with the largest unit that divides them.
pub(super) fn size(bytes: i64) -> Written {
    let unit = SIZES.iter().find(|(_, shift)| bytes != 0 && bytes % (1 << shift) == 0);
    unit.map_or(Written::Number(bytes), |(unit, shift)| Written::Text(format!("{}{unit}", bytes >> shift)))
}

/// A CPU level from cores, or from thousandths of a core such as `500m`.
fn level(node: &YamlNode) -> Option<i64> {
    let cores = match &node.tree {
        YamlTree::Integer(_) | YamlTree::Float(_) => node.raw.parse::<f64>().ok()?,
        YamlTree::Text(text) => match text.strip_suffix('m') {
            Some(thousandths) => f64::from(thousandths.parse::<u32>().ok()?) / 1000.0,
            None => text.parse().ok()?,
        },
        _ => return None,
    };
    let mut levels = (1..=ranges::CPU_LIMIT.most).zip(1_u32..);
    levels.find(|(_, level)| f64::from(*level) * CORES_PER_LEVEL == cores).map(|(level, _)| level)
}

fn amount(node: &YamlNode) -> Option<Value> {
    match &node.tree {
        YamlTree::Integer(count) => Some(json!(count)),
        YamlTree::Text(text) => Amount::parse(text).ok().map(|amount| json!(amount)),
        _ => None,
    }
}

fn named(node: &YamlNode, value: impl Fn(&YamlNode) -> Option<Value>) -> Option<Value> {
    let YamlTree::Map(members) = &node.tree else { return None };
    let members: Option<Map<String, Value>> =
        members.iter().map(|member| Some((member.key.clone(), value(&member.node)?))).collect();
    members.map(Value::Object)
}

fn environment(node: &YamlNode) -> Option<Value> {
    match &node.tree {
        YamlTree::Map(members) => {
            members.iter().all(|member| is_variable(&member.key)).then_some(())?;
            members.iter().map(|member| Some(json!(format!("{}={}", member.key, plain(&member.node)?)))).collect()
        }
        _ => words(node).map(Value::from),
    }
}

fn port_of_list(key: &ShortKey, node: &YamlNode) -> Result<Value, String> {
    match &node.tree {
        YamlTree::List(items) if items.len() == 1 => number(key, &items[0]).map_err(|_| {
            let port = shown(&items[0]);
            format!(
                "must be the TCP port of the container, 1..65535, is {port}; the cluster chooses the port of the node"
            )
        }),
        YamlTree::List(items) => Err(format!("must be one port for each container, is a list of {}", items.len())),
        _ => Err(format!("must be {}, is {}", must_be(key), shown(node))),
    }
}

fn expression(text: String) -> String {
    if FAMILIES.iter().any(|family| text.starts_with(family)) { text } else { format!("{}{text}", FAMILIES[0]) }
}

fn annotation(node: &YamlNode) -> Option<String> {
    match &node.tree {
        YamlTree::Text(text) => Some(text.clone()),
        YamlTree::Map(_) => Some(node.to_json().to_string()),
        _ => None,
    }
}

/// A value of the short form, ready to be written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Written {
    Flag(bool),
    Number(i64),
    Cores(f64),
    Text(String),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

/// What stands for this JSON of a PodGroupSpec.
pub(super) fn of_json(key: &ShortKey, value: &Value) -> Written {
    match key.kind {
        KeyKind::Seconds => value.as_i64().map_or_else(|| as_it_is(value), |seconds| Written::Text(time(seconds))),
        KeyKind::Bytes => value.as_i64().map_or_else(|| as_it_is(value), size),
        KeyKind::Cores => {
            // A level is at most 8; a stored spec may hold more, which counts as 8.
            let level = value.as_i64().and_then(|level| u8::try_from(ranges::CPU_LIMIT.used(level)).ok());
            level.map_or_else(|| as_it_is(value), cores)
        }
        KeyKind::Choice(choices) => {
            let word = choices.iter().find(|(_, choice)| choice.json() == *value).map(|(word, _)| *word);
            word.map_or_else(|| as_it_is(value), |word| Written::Text(word.to_owned()))
        }
        KeyKind::Environment => variables(value),
        KeyKind::Filters => {
            Written::List(texts(value).into_iter().map(|text| Written::Text(shortened(text))).collect())
        }
        KeyKind::Text
        | KeyKind::Number
        | KeyKind::Flag
        | KeyKind::Words
        | KeyKind::Amount
        | KeyKind::Texts
        | KeyKind::Amounts
        | KeyKind::Ports
        | KeyKind::Json
        | KeyKind::Section(_)
        | KeyKind::Sections(_) => as_it_is(value),
    }
}

pub(super) fn cores(level: u8) -> Written {
    match level % 2 {
        0 => Written::Number(i64::from(level / 2)),
        _ => Written::Cores(f64::from(level) * CORES_PER_LEVEL),
    }
}

/// An expression without `constraint:`, unless the rest would be read as another family.
fn shortened(text: &str) -> String {
    match text.strip_prefix(FAMILIES[0]) {
        Some(rest) if FAMILIES.iter().all(|family| !rest.starts_with(family)) => rest.to_owned(),
        _ => text.to_owned(),
    }
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().map(|items| items.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// A mapping, or a list where a name occurs twice or an entry is not `NAME=text`.
fn variables(value: &Value) -> Written {
    let entries = texts(value);
    let mut members: Vec<(String, Written)> = Vec::new();
    for entry in &entries {
        match entry.split_once('=') {
            Some((name, text)) if !name.is_empty() && members.iter().all(|(known, _)| known != name) => {
                members.push((name.to_owned(), Written::Text(text.to_owned())));
            }
            _ => return as_it_is(value),
        }
    }
    Written::Map(members)
}

fn as_it_is(value: &Value) -> Written {
    match value {
        Value::Bool(flag) => Written::Flag(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Written::Number(number),
            None => Written::Text(number.to_string()),
        },
        Value::String(text) => Written::Text(text.clone()),
        Value::Array(items) => Written::List(items.iter().map(as_it_is).collect()),
        Value::Object(members) => {
            Written::Map(members.iter().map(|(name, value)| (name.clone(), as_it_is(value))).collect())
        }
        Value::Null => Written::Text(String::new()),
    }
}
