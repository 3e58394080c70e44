//! `completion`: scripts that let shells complete commands and flags.

use clap::CommandFactory;
use clap_complete::generate;
use clap_complete::shells::{Bash, Fish, Zsh};

use crate::args::{Args, Shell};
use crate::output::terminal;

/// `deployctl completion`
pub fn completion(shell: Shell) {
    let (mut command, mut script) = (Args::command(), Vec::new());
    match shell {
        Shell::Bash => generate(Bash, &mut command, "deployctl", &mut script),
        Shell::Zsh => generate(Zsh, &mut command, "deployctl", &mut script),
        Shell::Fish => generate(Fish, &mut command, "deployctl", &mut script),
    }
    terminal::print_script(&String::from_utf8_lossy(&script));
}
