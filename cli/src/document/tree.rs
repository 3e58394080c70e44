//! A YAML or JSON text as a tree in which every node and every key knows its position. Pure.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{Location, Spanned};

/// A place in the text; line and column count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextPosition {
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// Characters, at least 1.
    pub(crate) length: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlNode {
    /// None for a part of a text that only the JSON parser can read.
    pub(crate) position: Option<TextPosition>,
    /// A scalar as it is written: `1.10` stays `1.10`.
    pub(crate) raw: String,
    pub(crate) tree: YamlTree,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum YamlTree {
    Null,
    Flag(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<YamlNode>),
    Map(Vec<YamlMember>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlMember {
    pub(crate) key: String,
    pub(crate) position: Option<TextPosition>,
    pub(crate) node: YamlNode,
}

/// A text that is not YAML.
#[derive(Debug)]
pub(crate) struct SyntaxProblem {
    pub(crate) position: Option<TextPosition>,
    pub(crate) reason: String,
}

impl YamlNode {
    pub(crate) fn members(&self) -> &[YamlMember] {
        match &self.tree {
            YamlTree::Map(members) => members,
            _ => &[],
        }
    }

    /// A member by its exact name.
    pub(crate) fn member(&self, key: &str) -> Option<&YamlMember> {
        self.members().iter().find(|member| member.key == key)
    }

    /// A member by its name in any case.
    pub(crate) fn member_in_any_case(&self, key: &str) -> Option<&YamlMember> {
        self.member(key).or_else(|| self.members().iter().find(|member| member.key.eq_ignore_ascii_case(key)))
    }

    pub(crate) fn to_json(&self) -> Value {
        match &self.tree {
            YamlTree::Null => Value::Null,
            YamlTree::Flag(flag) => Value::from(*flag),
            YamlTree::Integer(number) => Value::from(*number),
            YamlTree::Float(number) => Value::from(*number),
            YamlTree::Text(text) => Value::from(text.as_str()),
            YamlTree::List(items) => items.iter().map(Self::to_json).collect(),
            YamlTree::Map(members) => members.iter().map(|it| (it.key.clone(), it.node.to_json())).collect(),
        }
    }

    /// The same tree without positions.
    fn of_json(value: &Value) -> Self {
        let raw = match value {
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => String::new(),
        };
        let tree = match value {
            Value::Null => YamlTree::Null,
            Value::Bool(flag) => YamlTree::Flag(*flag),
            Value::Number(number) => match number.as_i64() {
                Some(number) => YamlTree::Integer(number),
                None => YamlTree::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => YamlTree::Text(text.clone()),
            Value::Array(items) => YamlTree::List(items.iter().map(Self::of_json).collect()),
            Value::Object(members) => {
                let member = |(key, value): (&String, &Value)| YamlMember {
                    key: key.clone(),
                    position: None,
                    node: Self::of_json(value),
                };
                YamlTree::Map(members.iter().map(member).collect())
            }
        };
        Self { position: None, raw, tree }
    }
}

/// Every document of a YAML text.
pub(crate) fn yaml(text: &str) -> Result<Vec<YamlNode>, SyntaxProblem> {
    let documents: Vec<Spanned<Scanned>> =
        serde_saphyr::from_multiple_with_options(text, serde_saphyr::options! { with_snippet: false })
            .map_err(|error| syntax(&error))?;
    Ok(documents.into_iter().map(|document| node(document, text)).collect())
}

/// A JSON value that begins at the byte `offset` of `text`. Most JSON is YAML too, and so it has positions.
pub(crate) fn json(text: &str, offset: usize, value: &Value, length: usize) -> YamlNode {
    let (before, json) = (&text[..offset], &text[offset..offset + length]);
    let begins = before.rfind('\n').map_or(0, |end| end + 1);
    // Line breaks and blanks in the place of what precedes the value keep its lines and columns.
    let blanks = " ".repeat(before[begins..].chars().count());
    let padded = format!("{}{blanks}{json}", "\n".repeat(before.matches('\n').count()));
    match yaml(&padded) {
        Ok(mut documents) if documents.len() == 1 && documents[0].to_json() == *value => documents.swap_remove(0),
        Ok(_) | Err(_) => YamlNode::of_json(value),
    }
}

fn syntax(error: &serde_saphyr::Error) -> SyntaxProblem {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    // The position is shown in our own words.
    let reason = first.rsplit_once(" at line ").map_or(first, |(reason, _)| reason);
    SyntaxProblem { position: error.location().and_then(|at| position(at, 1)), reason: reason.to_owned() }
}

fn position(at: Location, length: usize) -> Option<TextPosition> {
    let (line, column) = (usize::try_from(at.line()).ok()?, usize::try_from(at.column()).ok()?);
    (line > 0 && column > 0).then_some(TextPosition { line, column, length: length.max(1) })
}

/// What the text has at this location.
fn written(text: &str, at: Location) -> &str {
    let span = at.span();
    let bounds = span.byte_offset().zip(span.byte_len());
    let bounds = bounds.and_then(|(from, length)| {
        let from = usize::try_from(from).ok()?;
        Some((from, from.checked_add(usize::try_from(length).ok()?)?))
    });
    bounds.and_then(|(from, to)| text.get(from..to)).unwrap_or_default().trim_end()
}

fn node(scanned: Spanned<Scanned>, text: &str) -> YamlNode {
    let Spanned { value, referenced, defined } = scanned;
    let is_scalar = !matches!(value, Scanned::List(_) | Scanned::Map(_));
    let raw = if is_scalar { written(text, defined).to_owned() } else { String::new() };
    let shown = if is_scalar { written(text, referenced).lines().next().unwrap_or_default() } else { "" };
    let position = position(referenced, shown.chars().count());
    let member = |(key, value): (Spanned<String>, Spanned<Scanned>)| YamlMember {
        position: self::position(key.referenced, written(text, key.referenced).chars().count()),
        key: key.value,
        node: node(value, text),
    };
    let tree = match value {
        Scanned::Null => YamlTree::Null,
        Scanned::Flag(flag) => YamlTree::Flag(flag),
        Scanned::Integer(number) => YamlTree::Integer(number),
        Scanned::Float(number) => YamlTree::Float(number),
        Scanned::Text(text) => YamlTree::Text(text),
        Scanned::List(items) => YamlTree::List(items.into_iter().map(|item| node(item, text)).collect()),
        Scanned::Map(members) => YamlTree::Map(members.into_iter().map(member).collect()),
    };
    YamlNode { position, raw, tree }
}

/// A value as the YAML parser reports it.
enum Scanned {
    Null,
    Flag(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Scanned>>),
    Map(Vec<(Spanned<String>, Spanned<Scanned>)>),
}

impl<'de> Deserialize<'de> for Scanned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Scanner)
    }
}

struct Scanner;

impl<'de> Visitor<'de> for Scanner {
    type Value = Scanned;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Scanned, E> {
        Ok(Scanned::Null)
    }
    fn visit_none<E>(self) -> Result<Scanned, E> {
        Ok(Scanned::Null)
    }
    fn visit_bool<E>(self, flag: bool) -> Result<Scanned, E> {
        Ok(Scanned::Flag(flag))
    }
    fn visit_i64<E>(self, number: i64) -> Result<Scanned, E> {
        Ok(Scanned::Integer(number))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Scanned, E> {
        // A number that no field can hold: it is refused like a fraction.
        Ok(i64::try_from(number).map_or(Scanned::Float(f64::INFINITY), Scanned::Integer))
    }
    fn visit_f64<E>(self, number: f64) -> Result<Scanned, E> {
        Ok(Scanned::Float(number))
    }
    fn visit_str<E>(self, text: &str) -> Result<Scanned, E> {
        Ok(Scanned::Text(text.to_owned()))
    }
    fn visit_string<E>(self, text: String) -> Result<Scanned, E> {
        Ok(Scanned::Text(text))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Scanned, A::Error> {
        let mut found = Vec::new();
        while let Some(item) = items.next_element()? {
            found.push(item);
        }
        Ok(Scanned::List(found))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Scanned, A::Error> {
        let mut found = Vec::new();
        while let Some(member) = members.next_entry()? {
            found.push(member);
        }
        Ok(Scanned::Map(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: usize, column: usize, length: usize) -> Option<TextPosition> {
        Some(TextPosition { line, column, length })
    }

    fn one(text: &str) -> YamlNode {
        let mut documents = yaml(text).unwrap_or_else(|error| panic!("{}", error.reason));
        assert_eq!(documents.len(), 1);
        documents.swap_remove(0)
    }

    #[test]
    fn keys_and_values_know_their_positions() {
        let tree = one("name: web\nenv:\n  ratio: 1.10\n  list: [a, \"ü b\"]\n");
        let name = tree.member("name").unwrap();
        assert_eq!((name.position, name.node.position), (at(1, 1, 4), at(1, 7, 3)));
        let env = &tree.member("env").unwrap().node;
        let ratio = env.member("ratio").unwrap();
        assert_eq!((ratio.position, ratio.node.position, ratio.node.raw.as_str()), (at(3, 3, 5), at(3, 10, 4), "1.10"));
        let YamlTree::List(items) = &env.member("list").unwrap().node.tree else { panic!("a list") };
        assert_eq!((items[0].position, items[1].position), (at(4, 10, 1), at(4, 13, 5)));
    }

    #[test]
    fn an_alias_has_the_position_of_its_use_and_the_text_of_its_anchor() {
        let tree = one("a: &x 0x10\nb: *x\n");
        let b = &tree.member("b").unwrap().node;
        assert_eq!((&b.tree, b.raw.as_str(), b.position.unwrap().line), (&YamlTree::Integer(16), "0x10", 2));
    }

    #[test]
    fn a_duplicate_key_and_broken_yaml_have_a_position() {
        for (text, line) in [("a: 1\na: 2\n", 2), ("a: [1,\nb: 2\n", 1)] {
            let problem = yaml(text).expect_err("it is not valid");
            assert!(problem.position.is_some_and(|at| at.line >= line), "{text}: {}", problem.reason);
            assert!(!problem.reason.contains("line"), "{}", problem.reason);
        }
    }

    #[test]
    fn json_has_positions_too() {
        let text = "{\"a\": 1}\n  {\"b\":\n true}";
        let tree = json(text, 11, &serde_json::json!({"b": true}), 12);
        let b = tree.member("b").unwrap();
        assert_eq!((b.position, b.node.position), (at(2, 4, 3), at(3, 2, 4)));
    }
}
