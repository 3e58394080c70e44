//! What `deployctl` can be asked: every command, flag and environment variable, with its help.
//!
//! Nothing here acts; a test parses every example that the help shows.

mod backup;
mod depends;
mod fleet;
mod local;
mod node;
mod release;
mod serving;
mod switches;
mod watching;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

pub use backup::{Backup, Restore};
pub use depends::{Depends, DependsWhat};
pub use fleet::{Drift, Evacuate, Operate};
pub use local::{Down, Up};
pub use node::{Drain, Label, Node, NodeWhat, labels};
pub use release::{Drained, Follow, Gate, History, Plan, Rollout, RolloutWhat, Say, SayGroup, Undo};
pub use serving::{Clear, Health};
pub use switches::{Constraints, ConstraintsWhat, Engine, EngineWhat, Guard, GuardWhat, Notifies, NotifiesWhat};
pub use watching::{DeadLetters, Events};

use crate::exit;

const EXAMPLES: &str = "\
Examples:
  deployctl up --nodes 5 --detach
  deployctl apply -f deploy/demo-podgroup.json
  deployctl get podgroup demo.web.web
  deployctl plan -f deploy/demo-beta.yaml
  deployctl rollout status demo.web.web
  deployctl scale demo.web.web 5
  deployctl restart demo.web.web --instance 2
  deployctl node drain node-2
  deployctl events --follow
  deployctl status
  deployctl down";

fn after_help() -> String {
    format!("{}\n\n{EXAMPLES}", exit::table())
}

/// The people's way into a deployd cluster.
#[derive(Debug, Parser)]
#[command(name = "deployctl", version, after_help = after_help(), arg_required_else_help = true)]
pub struct Args {
    /// Where to find the cluster.
    #[command(flatten)]
    pub endpoint: Endpoint,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Where to find the cluster.
#[derive(Debug, Clone, ClapArgs)]
pub struct Endpoint {
    /// API of the cluster; several, comma separated, are tried in turn
    /// [default: that of the cluster in --dir; without --dir the local cluster's, else http://127.0.0.1:9003]
    #[arg(long, global = true, env = "DEPLOYD_API", value_name = "URL", value_delimiter = ',')]
    pub api: Vec<String>,
    /// Directory of the local cluster: state, logs, data [default: .deployd/run of the checkout]
    #[arg(long, global = true, env = "DEPLOYD_DIR", value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a local cluster and deploy the demo
    Up(Up),
    /// Stop the local cluster and remove its containers and PodGroups
    Down(Down),
    /// Show processes, leader, nodes and PodGroups
    Status,
    /// Create PodGroups from a file, or change them to what it says
    Apply(Apply),
    /// Show what applying a file would do to each instance, and change nothing
    Plan(Plan),
    /// Watch a release, and say whether and how it goes on
    Rollout(Rollout),
    /// Set a readiness gate of an instance
    Gate(Gate),
    /// Say that an instance that is taken out of service is drained
    Drained(Drained),
    /// Show PodGroups or nodes
    Get(Get),
    /// Delete a PodGroup
    Delete(Delete),
    /// Change the number of instances of a PodGroup
    Scale(Scale),
    /// Start instances, and forgive what they did before
    #[command(after_help = fleet::START)]
    Start(Operate),
    /// Stop instances; they stay stopped until they are started
    #[command(after_help = fleet::STOP)]
    Stop(Operate),
    /// Restart instances, one after another
    #[command(after_help = fleet::RESTART)]
    Restart(Operate),
    /// Move instances off a node
    Drift(Drift),
    /// Move everything off a node and keep new work away from it
    Evacuate(Evacuate),
    /// Nodes: show them, cordon, drain, label or remove them
    #[command(alias = "nodes")]
    Node(Node),
    /// Dependency pods: what runs beside the instances that need it
    Depends(Depends),
    /// Show what happened in the cluster and why
    Events(Events),
    /// Show messages that could not be delivered
    DeadLetters(DeadLetters),
    /// Show, start, stop or configure the engine
    Engine(Engine),
    /// Show the guard, or send it to work or to sleep
    Guard(Guard),
    /// Constraints that every new placement obeys
    #[command(alias = "constraint")]
    Constraints(Constraints),
    /// Callback URLs that are told what goes wrong
    #[command(alias = "notify")]
    Notifies(Notifies),
    /// Write everything the cluster stores to a file
    Backup(Backup),
    /// Put a backup in the place of everything the cluster stores
    Restore(Restore),
    /// Say whether processes and servers are well
    Health(Health),
    /// Remove what a cluster left on this machine's engine
    Clear(Clear),
    /// Runs the processes of a prepared directory; `up --detach` starts this.
    #[command(hide = true)]
    Supervise,
}

/// How long to wait, and whether.
#[derive(Debug, Clone, ClapArgs)]
pub struct Waiting {
    /// Wait until it is done [default on a terminal]
    #[arg(long, short, conflicts_with = "detach")]
    pub wait: bool,
    /// Do not wait
    #[arg(long, short)]
    pub detach: bool,
    /// How long the whole command may take
    #[arg(long, default_value = "120s", value_parser = fabric::duration::parse)]
    pub timeout: Duration,
}

impl Waiting {
    /// Whether to wait, given that a person watches or not.
    pub fn wanted(&self, on_terminal: bool) -> bool {
        self.wait || (on_terminal && !self.detach)
    }
}

/// `deployctl apply`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
A file holds one or several PodGroupSpecs: JSON values one after the other or in an array, or YAML documents.
Pod.Name and Pod.Namespace may be left out; they equal Name and Namespace. NumInstances is required. An unknown field, or a
value that the cluster would change, is an error: exit code 2, and nothing is sent.
Values may be written as people do: RestartPolicy always, onfail or never (a new group has always unless the file says
otherwise), MemoryLimit 256Mi, CpuLimit 0.5 (cores; an integer is a level of half a core), times 10s.
A group that exists is changed to what the file says: first how it wants to be changed (Strategy, Topology, Drain ...), then
its pod and its number of instances; nothing to change changes nothing. A CPU or memory limit of 0 leaves the limit as it
is, and a file that does not say Paused leaves a paused release paused.
Another pod is a release: its instances are made anew one by one, or as Strategy says. Waiting, on a terminal or with
--wait, follows it to its end as `deployctl rollout status` does, with the same exit codes.

Examples:
  deployctl apply -f deploy/demo-podgroup.json
  deployctl apply -f deploy/demo-beta.yaml --cause ticket-4711 --detach
  deployctl apply --wait --timeout 10m -f - < deploy/demo-release.yaml")]
pub struct Apply {
    /// File to read; `-` reads standard input
    #[arg(long, short, value_name = "FILE")]
    pub file: PathBuf,
    /// Why, in your words; the history shows it beside the revision
    #[arg(long, value_name = "TEXT")]
    pub cause: Option<String>,
    /// Whether to wait until the instances run.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// `deployctl get`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  deployctl get podgroup
  deployctl get podgroup demo.web.web --output json
  deployctl get nodes")]
pub struct Get {
    /// What to show.
    #[command(subcommand)]
    pub what: GetWhat,
}

/// What `get` shows.
#[derive(Debug, Clone, Subcommand)]
pub enum GetWhat {
    /// One PodGroup with its instances, or all of them in a list
    #[command(alias = "podgroups", alias = "pg")]
    Podgroup {
        /// Name; all when absent
        name: Option<String>,
        /// Form of the answer
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// The nodes
    #[command(alias = "node")]
    Nodes {
        /// Form of the answer
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
}

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// As the API gave it.
    Json,
}

/// `deployctl delete`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Modes:
  foreground  the containers go, and the name is free when the last one is gone
  background  the containers go, and the name is free at once
  orphan      the containers run on; the next PodGroup of that name adopts them

Examples:
  deployctl delete podgroup demo.web.web --wait
  deployctl delete podgroup demo.web.web --mode orphan")]
pub struct Delete {
    /// What to delete.
    #[command(subcommand)]
    pub what: DeleteWhat,
}

/// What `delete` deletes.
#[derive(Debug, Clone, Subcommand)]
pub enum DeleteWhat {
    /// A PodGroup and its containers
    #[command(alias = "pg")]
    Podgroup {
        /// Name
        name: String,
        /// What becomes of its containers
        #[arg(long, value_enum, default_value_t = Mode::Foreground)]
        mode: Mode,
        /// Whether to wait until the name is free again.
        #[command(flatten)]
        waiting: Waiting,
    },
}

/// What becomes of the containers of a PodGroup that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// They go, and the name is free when the last one is gone
    Foreground,
    /// They go, and the name is free at once
    Background,
    /// They run on, and the next PodGroup of that name adopts them
    Orphan,
}

/// `deployctl scale`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "Example:\n  deployctl scale demo.web.web 5")]
pub struct Scale {
    /// Name of the PodGroup
    pub name: String,
    /// How many instances
    pub instances: u32,
    /// Whether to wait until the instances run.
    #[command(flatten)]
    pub waiting: Waiting,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_consistent() {
        Args::command().debug_assert();
    }

    /// Every visible command below `command`, by what one types, with its help.
    fn helps(command: &mut clap::Command, typed: &str, found: &mut Vec<(String, String)>) {
        found.push((typed.to_owned(), command.render_long_help().to_string()));
        for sub in command.get_subcommands_mut().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
            let typed = format!("{typed} {}", sub.get_name());
            helps(sub, &typed, found);
        }
    }

    #[test]
    fn every_example_of_the_help_parses_and_every_command_has_one() {
        let mut command = Args::command();
        command.build();
        let mut found = Vec::new();
        helps(&mut command, "deployctl", &mut found);
        for (typed, help) in found {
            let examples: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  deployctl ")).collect();
            let words = typed.split(' ').count();
            // What only divides a command further is shown by the command.
            let needs_one = words < 3 || typed.starts_with("deployctl rollout ");
            let has_one = !examples.is_empty() || !needs_one || typed == "deployctl status";
            assert!(has_one, "`{typed} --help` shows no example");
            for line in examples {
                let typed = line.split("   ").next().and_then(|l| l.split(" < ").next()).unwrap_or(line);
                parse(&format!("deployctl {typed}")).unwrap_or_else(|error| panic!("{typed}: {error}"));
            }
        }
    }

    #[test]
    fn up_has_the_promised_defaults() {
        let Command::Up(up) = parse("deployctl up").unwrap().command else { panic!("not up") };
        assert_eq!((up.nodes, up.port, up.detach, up.no_demo), (3, 9003, false, false));
        assert!(parse("deployctl up --nodes 0").is_err());
    }

    #[test]
    fn several_apis_are_given_with_commas_and_anywhere() {
        let args = parse("deployctl get nodes --api http://a:1,http://b:2").unwrap();
        assert_eq!(args.endpoint.api, ["http://a:1", "http://b:2"]);
    }

    #[test]
    fn wait_and_detach_exclude_each_other() {
        assert!(parse("deployctl scale a 3 --wait --detach").is_err());
    }

    #[test]
    fn waiting_is_the_default_only_on_a_terminal() {
        let Command::Scale(scale) = parse("deployctl scale a 3").unwrap().command else { panic!("not scale") };
        assert!(scale.waiting.wanted(true) && !scale.waiting.wanted(false));
        let Command::Scale(scale) = parse("deployctl scale a 3 -w").unwrap().command else { panic!("not scale") };
        assert!(scale.waiting.wanted(false));
    }
}
