//! How a process ends when it cannot begin.

use std::fmt::Display;

/// Exit code of a bad setting: `EX_USAGE` of sysexits.h, which supervisors need not retry.
pub const BAD_CONFIG: i32 = 64;

/// Says what is wrong with the settings in one line and ends the process with code 64.
pub fn exit_bad_config(message: impl Display) -> ! {
    let one_line = message.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("bad configuration: {one_line}");
    std::process::exit(BAD_CONFIG)
}

/// Reads the settings of a process from its arguments and environment. Help and version are printed and end it with 0,
/// anything wrong ends it with one line and 64.
pub fn settings<T: clap::Parser>() -> T {
    match T::try_parse() {
        Ok(settings) => settings,
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            let text = error.to_string();
            let first = text.lines().take_while(|line| !line.trim().is_empty()).collect::<Vec<_>>().join(" ");
            exit_bad_config(first.trim_start_matches("error: "))
        }
    }
}
