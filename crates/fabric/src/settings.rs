//! Settings of a process: from a flag, else the environment, else a file, else the default.
//!
//! Every setting has one name: `--lost-after` is `DEPLOYD_LOST_AFTER` in the environment and `lost-after` in the file.
//! The values of the file replace the defaults, so clap applies the order of precedence.

mod explain;
mod file;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

pub(crate) use self::explain::without_secret;
use self::file::File;
use crate::process::exit_bad_config;

const CONFIG: &str = "config";
const CHECK: &str = "check-config";

/// Settings of a process.
pub trait Settings: clap::Parser {
    /// Checks settings that are valid each by itself but not together.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Result of reading the settings.
#[derive(Debug)]
pub enum Read<T> {
    Start(T),
    /// Print this and exit: help, version, or the answer of `--check-config`.
    Print(String),
}

/// Reads the settings of this process. Prints help, version and `--check-config` and exits with 0; prints an error in
/// one line and exits with 64.
pub fn of_process<T: Settings>() -> T {
    match read(&std::env::args_os().collect::<Vec<_>>()) {
        Ok(Read::Start(settings)) => settings,
        Ok(Read::Print(text)) => {
            println!("{}", text.trim_end());
            std::process::exit(0)
        }
        Err(flaw) => exit_bad_config(flaw),
    }
}

/// Reads settings from `arguments`, the environment and the file that these name.
pub fn read<T: Settings>(arguments: &[OsString]) -> Result<Read<T>, String> {
    let command = with_file_flags(T::command());
    // The first pass only finds the file: no setting is required, so a file cannot fix an error here.
    let file = match command.clone().try_get_matches_from(arguments) {
        Ok(matches) => matches.get_one::<String>(CONFIG).map(File::read).transpose()?,
        Err(error) if !error.use_stderr() => return Ok(Read::Print(error.render().ansi().to_string())),
        Err(error) => return Err(error_text(&command, &error, arguments)),
    };
    let command = match &file {
        Some(file) => file.as_defaults(command)?,
        None => command,
    };
    let matches =
        command.clone().try_get_matches_from(arguments).map_err(|error| error_text(&command, &error, arguments))?;
    refuse_secrets(&command, &matches)?;
    let settings = T::from_arg_matches(&matches).map_err(|error| first_line(&error))?;
    settings.check().map_err(|flaw| match &file {
        Some(file) => format!("{flaw} (flags, environment and {} together)", file.path()),
        None => flaw,
    })?;
    if matches.get_flag(CHECK) {
        return Ok(Read::Print(explain::explain(&command, &matches, file.as_ref())));
    }
    Ok(Read::Start(settings))
}

fn with_file_flags(command: Command) -> Command {
    let config = Arg::new(CONFIG).long(CONFIG).env("DEPLOYD_CONFIG").value_name("FILE").help(
        "File with settings, one `name = \"value\"` a line, named like the flags; flags and environment take precedence",
    );
    let check = Arg::new(CHECK)
        .long(CHECK)
        .action(ArgAction::SetTrue)
        .help("Check the settings, print each with its value and origin, and exit");
    let example = format!(
        "Each setting comes from its flag, else from the environment, else from the file, else from its default.\n\n\
         Examples:\n  {name} --config /etc/deployd/{file}.toml\n  {name} --config /etc/deployd/{file}.toml --check-config",
        name = command.get_name(),
        file = command.get_name().trim_start_matches("deployd-"),
    );
    command.arg(config).arg(check).after_help(example)
}

/// clap's error in one sentence that names where the value came from.
fn error_text(command: &Command, error: &clap::Error, arguments: &[OsString]) -> String {
    let line = first_line(error);
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return line };
    let long = shown.trim_start_matches("--").split([' ', '=']).next().unwrap_or_default();
    let given = |argument: &OsString| {
        let text = argument.to_string_lossy();
        text.strip_prefix("--").is_some_and(|flag| flag.split('=').next() == Some(long))
    };
    let variable = command.get_arguments().find(|arg| arg.get_long() == Some(long)).and_then(Arg::get_env);
    match variable {
        Some(variable) if !arguments.iter().any(given) && std::env::var_os(variable).is_some() => {
            format!("environment variable {}: {line}", variable.to_string_lossy())
        }
        Some(_) | None => line,
    }
}

/// Refuses passwords in arguments, which every user of the machine can read in the process list.
fn refuse_secrets(command: &Command, matches: &ArgMatches) -> Result<(), String> {
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let mut values = matches.get_raw(id).into_iter().flatten();
        if values.any(|value| explain::has_secret(&value.to_string_lossy())) {
            return Err(format!(
                "--{0} has a password in it, and arguments are in the process list; give it in a file or in the environment",
                arg.get_long().unwrap_or(id)
            ));
        }
    }
    Ok(())
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.lines().take_while(|line| !line.trim().is_empty()).collect::<Vec<_>>().join(" ");
    first.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests;
