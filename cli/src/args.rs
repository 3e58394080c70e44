//! What `deployctl` can be asked: every command, flag and environment variable, with its help.
//!
//! Nothing here acts; a test parses every example that the help shows.

mod depends;
mod fleet;
mod switches;
mod watching;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

pub use depends::{Depends, DependsWhat};
pub use fleet::{Drift, Evacuate, Operate};
pub use switches::{Constraints, ConstraintsWhat, Engine, EngineWhat, Guard, GuardWhat, Notifies, NotifiesWhat};
pub use watching::{DeadLetters, Events};

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  it failed, or `status` found something that is not well
  2  the command line is wrong
  3  no such PodGroup, instance, node or other thing
  4  the API cannot be reached
  5  the deadline passed before the work was finished

Examples:
  deployctl up --nodes 5 --detach
  deployctl apply -f deploy/demo-podgroup.json
  deployctl get podgroup demo.web.web
  deployctl scale demo.web.web 5
  deployctl restart demo.web.web --instance 2
  deployctl evacuate node-2 --wait
  deployctl events --follow
  deployctl status
  deployctl down";

/// The people's way into a deployd cluster.
#[derive(Debug, Parser)]
#[command(name = "deployctl", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct Args {
    /// Where to find the cluster.
    #[command(flatten)]
    pub place: Place,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Where to find the cluster.
#[derive(Debug, Clone, ClapArgs)]
pub struct Place {
    /// API of the cluster; several, comma separated, are tried in turn
    /// [default: the local cluster's, else http://127.0.0.1:9003]
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
    /// Runs the processes of a prepared directory; `up --detach` starts this.
    #[command(hide = true)]
    Supervise,
}

/// `deployctl up`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  deployctl up                       three nodes and the demo, until Ctrl-C
  deployctl up --detach              the same in the background; `deployctl down` stops it
  deployctl up --port 9100           API on 9100 and 9101
  deployctl up --port 0 --dir /tmp/c --no-demo --detach   a second cluster on free ports")]
pub struct Up {
    /// How many nodes: agents that share the one local engine
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub nodes: u16,
    /// Return when the cluster is ready and leave it running in the background
    #[arg(long, short)]
    pub detach: bool,
    /// Port of the first apiserver, the second takes the next; 0 takes free ports
    #[arg(long, default_value_t = 9003, env = "DEPLOYD_PORT")]
    pub port: u16,
    /// Do not deploy the demo
    #[arg(long)]
    pub no_demo: bool,
    /// On Ctrl-C leave containers and PodGroups to the next `up`
    #[arg(long)]
    pub keep_containers: bool,
    /// How long to wait until everything is ready
    #[arg(long, default_value = "60s", value_parser = fabric::duration::parse)]
    pub timeout: Duration,
    /// Memory of each node in bytes [default: a fair share of the machine's]
    #[arg(long, value_name = "BYTES")]
    pub node_memory: Option<u64>,
    /// Cores of each node [default: the machine's, which all of them share]
    #[arg(long, value_name = "N")]
    pub node_cpus: Option<u32>,
    /// Handed to the schedulers: silence until a node is suspect
    #[arg(long, value_name = "TIME", value_parser = fabric::duration::parse)]
    pub suspect_after: Option<Duration>,
    /// Handed to the schedulers: silence until a node's work is given to others
    #[arg(long, value_name = "TIME", value_parser = fabric::duration::parse)]
    pub lost_after: Option<Duration>,
    /// Handed to the schedulers: how long a fresh leader listens before it calls a node lost
    #[arg(long, value_name = "TIME", value_parser = fabric::duration::parse)]
    pub failover_grace: Option<Duration>,
}

/// `deployctl down`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "Examples:\n  deployctl down\n  deployctl down --purge")]
pub struct Down {
    /// Leave containers and PodGroups to the next `up`
    #[arg(long)]
    pub keep_containers: bool,
    /// Remove logs and volumes too: the cluster's whole directory
    #[arg(long, conflicts_with = "keep_containers")]
    pub purge: bool,
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
    /// How long to try and to wait
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
Pod.Name and Pod.Namespace may be left out; they equal Name and Namespace.
A group that exists is changed to what the file says: another pod makes its instances anew one by one, another number
scales it, and nothing to change changes nothing. A CPU or memory limit of 0 leaves the limit as it is.

Examples:
  deployctl apply -f deploy/demo-podgroup.json
  deployctl apply --wait -f - < deploy/demo-podgroup.json")]
pub struct Apply {
    /// File to read; `-` reads standard input
    #[arg(long, short, value_name = "FILE")]
    pub file: PathBuf,
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
#[command(after_help = "Example:\n  deployctl delete podgroup demo.web.web --wait")]
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
        /// Whether to wait until the name is free again.
        #[command(flatten)]
        waiting: Waiting,
    },
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

    #[test]
    fn every_example_of_the_help_parses() {
        let mut command = Args::command();
        command.build();
        let mut helps = vec![("deployctl".to_owned(), command.render_long_help().to_string())];
        let visible = command.get_subcommands_mut().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
        helps.extend(visible.map(|sub| (sub.get_name().to_owned(), sub.render_long_help().to_string())));
        for (name, help) in helps {
            let examples: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  deployctl ")).collect();
            assert!(!examples.is_empty() || name == "status", "`deployctl {name} --help` shows no example");
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
        assert_eq!(args.place.api, ["http://a:1", "http://b:2"]);
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
