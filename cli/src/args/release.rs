//! The flags of releases: `plan`, `rollout`, `gate` and `drained`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args as ClapArgs, Subcommand};

use super::{Output, Waiting};

/// `deployctl plan`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
The cluster computes it with what executes it, as if everything that is ordered came up. Nothing is changed.

With --detailed-exitcode: 0 nothing would change, 10 something would, 11 something would and either an instance finds no
place or the release does not come to an end.

Examples:
  deployctl plan -f deploy/demo-beta.yaml
  deployctl plan -f deploy/demo-beta.yaml --output json
  deployctl plan --detailed-exitcode -f - < deploy/demo-release.yaml")]
pub struct Plan {
    /// File to read, as for `apply`; `-` reads standard input
    #[arg(long, short, value_name = "FILE")]
    pub file: PathBuf,
    /// Say by the exit code whether something would change
    #[arg(long)]
    pub detailed_exitcode: bool,
    /// Form of the answer: text for people, or one JSON value per PodGroup
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// `deployctl rollout`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
A release leads the instances of a PodGroup to another revision of its pod; its number is that revision.

Examples:
  deployctl rollout status demo.web.web
  deployctl rollout confirm demo.web.web
  deployctl rollout history demo.web.web
  deployctl rollout undo demo.web.web --to 3 --cause broken-login")]
pub struct Rollout {
    /// What to do.
    #[command(subcommand)]
    pub what: RolloutWhat,
}

/// What `rollout` does.
#[derive(Debug, Clone, Subcommand)]
pub enum RolloutWhat {
    /// Show how far the release is, and wait until it is over
    Status(Follow),
    /// Show the revisions: when, by whom, why, and what became of them
    History(History),
    /// Go back to an earlier revision
    #[command(alias = "rollback")]
    Undo(Undo),
    /// Start nothing new; what is under way is finished
    #[command(after_help = "Example:\n  deployctl rollout pause demo.web.web")]
    Pause(Say),
    /// Go on with what was paused, or with what a failure held
    #[command(after_help = "Example:\n  deployctl rollout resume demo.web.web")]
    Resume(Say),
    /// Say that the group that is done is fine, so that the next one starts
    #[command(after_help = "\
Without --group the group that waits now is confirmed, and only that: if the release has moved on meanwhile, nothing is.

Examples:
  deployctl rollout confirm demo.web.web
  deployctl rollout confirm demo.web.web --release 5 --group 1")]
    Confirm(SayGroup),
    /// Give the release up; every instance stays at the revision it has
    #[command(after_help = "Example:\n  deployctl rollout abort demo.web.web --release 5")]
    Abort(Say),
    /// Leave a group of the release as it is and go on with the next
    #[command(after_help = "\
Without --group the current one is skipped.

Example:
  deployctl rollout skip demo.web.web --group 2")]
    Skip(SayGroup),
    /// Move nothing at all, neither for a release nor for another number of instances
    #[command(after_help = "Example:\n  deployctl rollout freeze demo.web.web")]
    Freeze(Say),
    /// Let things move again
    #[command(after_help = "Example:\n  deployctl rollout unfreeze demo.web.web")]
    Unfreeze(Say),
}

/// `deployctl rollout status`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
On a terminal it shows a bar per deployment unit; elsewhere a line whenever something changed, on standard error. What
stands at the end is on standard output. Without --release it follows the PodGroup to its newest release.

Of the exit codes that `deployctl --help` lists, 0 means complete; 1 held by a failure, stuck, given up, rolled back or, with
--release, superseded; 5 not over at the deadline, for example because it waits to be confirmed or resumed; 130 Ctrl-C, which
leaves the release alone. With --no-wait: 1 when it has failed, 0 otherwise.

Examples:
  deployctl rollout status demo.web.web
  deployctl rollout status demo.web.web --release 5 --timeout 1h
  deployctl rollout status demo.web.web --no-wait --output json")]
pub struct Follow {
    /// Name of the PodGroup
    pub name: String,
    /// Only this release, by the revision it leads to [default: the current one]
    #[arg(long, value_name = "N")]
    pub release: Option<u32>,
    /// Show how far it is now and do not wait
    #[arg(long, conflicts_with = "timeout")]
    pub no_wait: bool,
    /// How long to wait; as long as a release may go without progress unless its spec says otherwise
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = fabric::duration::parse)]
    pub timeout: Duration,
    /// Form of what stands at the end
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
    /// Only this revision, with its whole pod
    #[arg(long, value_name = "N")]
    pub revision: Option<u32>,
    /// Form of the answer
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// `deployctl rollout undo`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Going back is a release of its own: a new revision with the content of the earlier one. Instances that still run that
content are not touched.

Examples:
  deployctl rollout undo demo.web.web
  deployctl rollout undo demo.web.web --to 3 --cause broken-login --wait")]
pub struct Undo {
    /// Name of the PodGroup
    pub name: String,
    /// The revision to go back to [default: the newest before the present one that completed]
    #[arg(long, visible_alias = "to", value_name = "N")]
    pub revision: Option<u32>,
    /// Only if this release is still the current one
    #[arg(long, value_name = "N")]
    pub release: Option<u32>,
    /// Why, in your words; the history shows it beside the revision
    #[arg(long, value_name = "TEXT")]
    pub cause: Option<String>,
    /// Even though it is paused: it goes back once it is resumed
    #[arg(long)]
    pub force: bool,
    /// Whether to wait until it is back.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// What is said to a release as a whole.
#[derive(Debug, Clone, ClapArgs)]
pub struct Say {
    /// Name of the PodGroup
    pub name: String,
    /// Only if this release is still the current one
    #[arg(long, value_name = "N")]
    pub release: Option<u32>,
}

/// What is said to one group of a release.
#[derive(Debug, Clone, ClapArgs)]
pub struct SayGroup {
    /// Name of the PodGroup
    pub name: String,
    /// Only if this release is still the current one
    #[arg(long, value_name = "N")]
    pub release: Option<u32>,
    /// Which group, from 1 [default: the current one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub group: Option<u64>,
}

/// `deployctl gate`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
An instance is ready only when all gates that ReadinessGates of its PodGroup names are true; those of a new pod are false.

Examples:
  deployctl gate demo.web.web 2 in-rotation true
  deployctl gate demo.web.web 2 in-rotation true --version 5")]
pub struct Gate {
    /// Name of the PodGroup
    pub name: String,
    /// Which instance
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub instance: u32,
    /// Which gate
    pub gate: String,
    /// To what: true or false
    #[arg(action = ArgAction::Set)]
    pub value: bool,
    /// Only of the pod of this version [default: of each pod of the instance]
    #[arg(long, value_name = "N")]
    pub version: Option<u32>,
}

/// `deployctl drained`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
It answers a PodGroup whose Drain has NeedsAnswer: the instance is not touched before.

Example:
  deployctl drained demo.web.web 2")]
pub struct Drained {
    /// Name of the PodGroup
    pub name: String,
    /// Which instance
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub instance: u32,
}
