//! Exit with a bad configuration.

use std::fmt::Display;

/// Exit code for bad settings: `EX_USAGE` of sysexits.h; supervisors need not retry.
pub const BAD_CONFIG: i32 = 64;

/// Prints the problem in one line and exits with code 64.
pub fn exit_bad_config(message: impl Display) -> ! {
    let one_line = message.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("bad configuration: {one_line}");
    std::process::exit(BAD_CONFIG)
}
