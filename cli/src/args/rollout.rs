//! The flags of `plan`, `rollout`, `gate` and `drained`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args as ClapArgs, Subcommand};

use super::{Listing, Output, Waiting};

/// `deployctl plan`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
The scheduler computes the plan with the code that executes it, assuming that every new pod becomes ready. Nothing changes.

With --detailed-exitcode: 0 no changes, 10 changes, 11 changes that cannot complete (no node fits, or the rollout stalls).

Examples:
  deployctl plan -f deploy/demo-beta.yaml
  deployctl plan -f deploy/demo-beta.yaml --output json
  deployctl plan --detailed-exitcode -f - < deploy/demo-release.yaml")]
pub struct PlanArgs {
    /// File to read, as for `apply`; `-` reads standard input
    #[arg(long, short, value_name = "FILE")]
    pub file: PathBuf,
    /// Use the exit code to tell whether something would change
    #[arg(long)]
    pub detailed_exitcode: bool,
    /// Output format: text, or one JSON value per PodGroup
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// `deployctl rollout`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
A rollout brings the instances of a PodGroup to another revision of its pod. --release names a rollout by that revision.

Examples:
  deployctl rollout status demo.web.web
  deployctl rollout confirm demo.web.web
  deployctl rollout history demo.web.web
  deployctl rollout undo demo.web.web --to 3 --cause broken-login")]
pub struct Rollout {
    #[command(subcommand)]
    pub what: RolloutWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum RolloutWhat {
    /// Show the progress of the rollout and wait until it ends
    Status(Follow),
    /// List the revisions with time, user, cause and outcome
    History(History),
    /// Roll back to an earlier revision
    #[command(alias = "rollback")]
    Undo(Undo),
    /// Start no further instances; those in progress finish
    #[command(after_help = "Example:\n  deployctl rollout pause demo.web.web")]
    Pause(Control),
    /// Resume a paused or failed rollout
    #[command(after_help = "Example:\n  deployctl rollout resume demo.web.web")]
    Resume(Control),
    /// Approve the finished batch and start the next
    #[command(after_help = "\
Without --batch it approves the batch that waits now. If the rollout has moved on meanwhile, the command is refused.

Examples:
  deployctl rollout confirm demo.web.web
  deployctl rollout confirm demo.web.web --release 5 --batch 1")]
    Confirm(ControlBatch),
    /// Stop the rollout; every instance keeps its current revision
    #[command(after_help = "Example:\n  deployctl rollout abort demo.web.web --release 5")]
    Abort(Control),
    /// Skip a batch and start the next
    #[command(after_help = "\
Without --batch it skips the current one.

Example:
  deployctl rollout skip demo.web.web --batch 2")]
    Skip(ControlBatch),
    /// Freeze: no rollouts and no scaling
    #[command(after_help = "Example:\n  deployctl rollout freeze demo.web.web")]
    Freeze(Control),
    /// Allow rollouts and scaling again
    #[command(after_help = "Example:\n  deployctl rollout unfreeze demo.web.web")]
    Unfreeze(Control),
}

/// `deployctl rollout status`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
On a terminal it shows a bar per deployment unit; elsewhere it prints a line to standard error whenever something changes. \
The final state is on standard output. Without --release it follows the PodGroup to its newest rollout.

Exit codes (see `deployctl --help`): 0 complete; 1 paused by a failure, stuck, aborted, rolled back or, with --release, \
superseded; 5 not finished at the deadline, for example because it waits for approval; 130 Ctrl-C, which does not stop the \
rollout. With --no-wait: 1 when it has failed, 0 otherwise.

Examples:
  deployctl rollout status demo.web.web
  deployctl rollout status demo.web.web --release 5 --timeout 1h
  deployctl rollout status demo.web.web --no-wait --output json")]
pub struct Follow {
    /// Name of the PodGroup
    pub name: String,
    /// Only the rollout to this revision [default: the current one]
    #[arg(long, value_name = "N")]
    pub release: Option<u32>,
    /// Show the current state and do not wait
    #[arg(long, conflicts_with = "timeout")]
    pub no_wait: bool,
    /// How long to wait; the default equals the default ProgressDeadlineSeconds
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = fabric::duration::parse)]
    pub timeout: Duration,
    /// Output format of the final state
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// `deployctl rollout history`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  deployctl rollout history demo.web.web
  deployctl rollout history demo.web.web --revision 3
  deployctl rollout history demo.web.web --output json")]
pub struct History {
    /// Name of the PodGroup
    pub name: String,
    /// Only this revision, with its whole pod spec
    #[arg(long, value_name = "N")]
    pub revision: Option<u32>,
    #[command(flatten)]
    pub listing: Listing,
}

/// `deployctl rollout undo`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
A rollback is a rollout of its own: a new revision with the pod spec of the earlier one. Instances that still run that spec \
are not touched.

Examples:
  deployctl rollout undo demo.web.web
  deployctl rollout undo demo.web.web --to 3 --cause broken-login --wait")]
pub struct Undo {
    /// Name of the PodGroup
    pub name: String,
    /// Revision to roll back to [default: the newest earlier one that completed]
    #[arg(long, visible_alias = "to", value_name = "N")]
    pub revision: Option<u32>,
    /// Only if the rollout to this revision is still the current one
    #[arg(long, value_name = "N")]
    pub release: Option<u32>,
    /// Reason for the change; `rollout history` shows it
    #[arg(long, value_name = "TEXT")]
    pub cause: Option<String>,
    /// Also for a paused rollout, which rolls back once it is resumed
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub waiting: Waiting,
}

/// The flags of commands that control a whole rollout.
#[derive(Debug, Clone, ClapArgs)]
pub struct Control {
    /// Name of the PodGroup
    pub name: String,
    /// Only if the rollout to this revision is still the current one
    #[arg(long, value_name = "N")]
    pub release: Option<u32>,
}

/// The flags of commands that control one batch of a rollout.
#[derive(Debug, Clone, ClapArgs)]
pub struct ControlBatch {
    /// Name of the PodGroup
    pub name: String,
    /// Only if the rollout to this revision is still the current one
    #[arg(long, value_name = "N")]
    pub release: Option<u32>,
    /// Number of the batch, from 1 [default: the current one]
    #[arg(long, alias = "group", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub batch: Option<u64>,
}

/// `deployctl gate`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
An instance is ready only when all ReadinessGates of its PodGroup are true. The gates of a new pod are false.

Examples:
  deployctl gate demo.web.web 2 in-rotation true
  deployctl gate demo.web.web 2 in-rotation true --version 5")]
pub struct Gate {
    /// Name of the PodGroup
    pub name: String,
    /// Number of the instance
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub instance: u32,
    /// Name of the gate
    pub gate: String,
    /// true or false
    #[arg(action = ArgAction::Set)]
    pub value: bool,
    /// Only the pod of this revision [default: every pod of the instance]
    #[arg(long, value_name = "N")]
    pub version: Option<u32>,
}

/// `deployctl drained`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
For a PodGroup with Drain.NeedsAnswer: confirms that instance N gets no more traffic, so that its agent may stop it. Without it \
the rollout fails after Drain.TimeoutSeconds; an instance that is being removed stops then anyway.

Example:
  deployctl drained demo.web.web 2")]
pub struct Drained {
    /// Name of the PodGroup
    pub name: String,
    /// Number of the instance
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub instance: u32,
}
