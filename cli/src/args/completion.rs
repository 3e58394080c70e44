//! The flags of `completion`.

use clap::{Args as ClapArgs, ValueEnum};

/// `deployctl completion`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Prints a script that completes commands and flags:
  bash: source <(deployctl completion bash), or write it to /etc/bash_completion.d/deployctl
  zsh:  write it to a file named _deployctl in a directory of $fpath
  fish: write it to ~/.config/fish/completions/deployctl.fish

Examples:
  deployctl completion bash
  deployctl completion zsh")]
pub struct Completion {
    /// Shell to write the script for
    #[arg(value_enum)]
    pub shell: CompletionShell,
}

/// Shells with completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}
