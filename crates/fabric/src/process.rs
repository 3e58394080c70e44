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
