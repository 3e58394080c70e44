//! `completion`: scripts that let shells complete commands and flags.

use clap::CommandFactory;
use clap_complete::generate;
use clap_complete::shells::{Bash, Fish, Zsh};

use crate::args::{Args, CompletionShell};
use crate::output::terminal;

/// `deployctl completion`
pub fn completion(shell: CompletionShell) {
    let (mut command, mut script) = (Args::command(), Vec::new());
    match shell {
        CompletionShell::Bash => generate(Bash, &mut command, "deployctl", &mut script),
        CompletionShell::Zsh => generate(Zsh, &mut command, "deployctl", &mut script),
        CompletionShell::Fish => generate(Fish, &mut command, "deployctl", &mut script),
    }
    terminal::print_script(&String::from_utf8_lossy(&script));
}
