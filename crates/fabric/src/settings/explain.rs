//! Output of `--check-config`: each setting with its value, origin and help.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use super::file::File;
use super::{CHECK, CONFIG};

/// One line per setting.
pub(super) fn explain(command: &Command, matches: &ArgMatches, file: Option<&File>) -> String {
    let settings = command
        .get_arguments()
        .filter(|arg| arg.get_long().is_some_and(|long| ![CONFIG, CHECK, "help", "version"].contains(&long)));
    let rows: Vec<[String; 4]> = settings.map(|arg| row(arg, matches, file)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let mut text = format!("the configuration of {} is good\n", command.get_name());
    for [name, value, from, why] in &rows {
        let line = format!("{name:0$}  {value:1$}  {from:2$}  {why}", widths[0], widths[1], widths[2]);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn row(arg: &Arg, matches: &ArgMatches, file: Option<&File>) -> [String; 4] {
    let id = arg.get_id().as_str();
    let long = arg.get_long().unwrap_or(id).to_owned();
    let values = matches.get_raw(id).into_iter().flatten().map(|value| without_secret(&value.to_string_lossy()));
    let value = values.collect::<Vec<_>>().join(",");
    let variable = arg.get_env().map(|variable| variable.to_string_lossy().into_owned()).unwrap_or_default();
    let from = match matches.value_source(id) {
        Some(ValueSource::CommandLine) => "flag".to_owned(),
        Some(ValueSource::EnvVariable) => variable,
        _ => file.and_then(|file| file.place_of(&long)).unwrap_or_else(|| "default".to_owned()),
    };
    let why = arg.get_help().map(ToString::to_string).unwrap_or_default();
    [long, if value.is_empty() { "-".to_owned() } else { value }, from, why]
}

/// Whether `value` is an address with a password or token in it.
pub(super) fn has_secret(value: &str) -> bool {
    value.split(',').any(|part| secret_in(part).is_some())
}

/// The value with passwords and tokens replaced by `***`.
pub(crate) fn without_secret(value: &str) -> String {
    let hide = |part: &str| match secret_in(part) {
        Some(secret) => part.replacen(secret, "***", 1),
        None => part.to_owned(),
    };
    value.split(',').map(hide).collect::<Vec<_>>().join(",")
}

/// The part before the host. Without a scheme, only `user:password@host` counts as an address.
fn secret_in(part: &str) -> Option<&str> {
    let (has_scheme, rest) = part.split_once("://").map_or((false, part), |(_, rest)| (true, rest));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let (secret, _) = authority.rsplit_once('@')?;
    (has_scheme && !secret.is_empty() || (secret.contains(':') && !secret.contains('='))).then_some(secret)
}
