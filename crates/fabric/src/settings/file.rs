//! The settings file: flat TOML whose keys are flag names.

use std::collections::BTreeMap;
use std::ops::Range;

use clap::{Arg, ArgAction, Command};
use toml::de::{DeTable, DeValue};

use super::{CHECK, CONFIG, first_line};

/// Size limit of the file; a larger one is not a settings file.
const LARGEST: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct File {
    path: String,
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    line: usize,
    values: Vec<String>,
}

impl File {
    pub(super) fn read(path: &String) -> Result<Self, String> {
        let flaw = |error: std::io::Error| format!("--{CONFIG} {path}: {error}");
        let size = std::fs::metadata(path).map_err(flaw)?.len();
        if size > LARGEST {
            return Err(format!(
                "--{CONFIG} {path}: {size} bytes are too large for a settings file; the limit is {LARGEST}"
            ));
        }
        Self::parse(path, &std::fs::read_to_string(path).map_err(flaw)?)
    }

    pub(super) fn parse(path: &str, text: &str) -> Result<Self, String> {
        let at = |span: Range<usize>| line_of(text, span.start);
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, at);
            format!("{path}:{line}: {}; write `name = \"value\"`", error.message())
        })?;
        let mut entries = BTreeMap::new();
        for (name, value) in table.get_ref() {
            let line = at(name.span());
            let values = values(value.get_ref()).map_err(|kind| {
                format!(
                    "{path}:{line}: {} is {kind}; write a text, a number, true or false, or a list of those",
                    name.get_ref()
                )
            })?;
            entries.insert(name.get_ref().to_string(), Entry { line, values });
        }
        Ok(Self { path: path.to_owned(), entries })
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Position of a setting as `FILE:LINE`.
    pub(super) fn place_of(&self, name: &str) -> Option<String> {
        self.entries.get(name).map(|entry| format!("{}:{}", self.path, entry.line))
    }

    /// The command with the file's values as defaults.
    pub(super) fn as_defaults(&self, mut command: Command) -> Result<Command, String> {
        for (name, entry) in &self.entries {
            let flaw = |text: &str| format!("{}:{}: {text}", self.path, entry.line);
            let Some(arg) = setting(&command, name) else { return Err(flaw(&unknown(&command, name))) };
            let values = match arg.get_action() {
                ArgAction::SetTrue => vec![entry.values.join(",")],
                _ => entry.values.clone(),
            };
            try_alone(&command, arg, &values).map_err(|text| flaw(&text))?;
            let id = arg.get_id().clone();
            command = command.mut_arg(id, |arg| arg.default_values(values));
        }
        Ok(command)
    }
}

fn setting<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let names = |arg: &&Arg| arg.get_long() == Some(name) && ![CONFIG, CHECK].contains(&name);
    command.get_arguments().find(names)
}

/// Parses the values as if they were the only argument, so that an error belongs to this line.
fn try_alone(command: &Command, arg: &Arg, values: &[String]) -> Result<(), String> {
    let long = arg.get_long().unwrap_or_default();
    let alone = match (arg.get_action(), values) {
        (ArgAction::SetTrue, [value]) if ["true", "false"].contains(&value.as_str()) => return Ok(()),
        (ArgAction::SetTrue, _) => return Err(format!("{long} is either true or false")),
        (ArgAction::Set, [_, _, ..]) if arg.get_value_delimiter().is_none() => {
            return Err(format!("{long} takes one value, not a list"));
        }
        _ => values.iter().map(|value| format!("--{long}={value}")),
    };
    let joined = match arg.get_value_delimiter() {
        Some(delimiter) => vec![format!("--{long}={}", values.join(&delimiter.to_string()))],
        None => alone.collect(),
    };
    let words = std::iter::once(command.get_name().to_owned()).chain(joined);
    match command.clone().try_get_matches_from(words) {
        // An error about another setting does not belong to this line.
        Err(error) if first_line(&error).contains(long) => Err(first_line(&error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The error for an unknown setting, with a suggestion.
fn unknown(command: &Command, name: &str) -> String {
    let known = || {
        command
            .get_arguments()
            .filter_map(Arg::get_long)
            .filter(|long| ![CONFIG, CHECK, "help", "version"].contains(long))
    };
    let meant = name.trim_start_matches('-').replace('_', "-").to_lowercase();
    let meant = meant.strip_prefix("deployd-").unwrap_or(&meant).to_owned();
    let near = known().map(|long| (distance(long, &meant), long)).min();
    match near {
        Some((far, long)) if far <= 3 => format!("there is no setting {name}; did you mean {long}?"),
        _ => {
            let all: Vec<&str> = known().collect();
            format!("there is no setting {name}; there are {}", all.join(", "))
        }
    }
}

/// Levenshtein distance.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut before = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in right.iter().enumerate() {
            let replaced = before + usize::from(a != *b);
            before = row[j + 1];
            row[j + 1] = replaced.min(before + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

fn values(value: &DeValue<'_>) -> Result<Vec<String>, &'static str> {
    Ok(match value {
        DeValue::String(text) => vec![text.to_string()],
        DeValue::Integer(number) => vec![number.to_string()],
        DeValue::Float(number) => vec![number.to_string()],
        DeValue::Boolean(truth) => vec![truth.to_string()],
        DeValue::Array(list) => {
            let mut all = Vec::new();
            for one in list.iter() {
                match one.get_ref() {
                    DeValue::Array(_) => return Err("a list of lists"),
                    plain => all.extend(values(plain)?),
                }
            }
            all
        }
        DeValue::Table(_) => return Err("a table"),
        DeValue::Datetime(_) => return Err("a date"),
    })
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
}
