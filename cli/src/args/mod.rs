//! The command line: every command, flag and environment variable with its help. A test parses every example of the help.

mod access;
mod backup;
mod bus_keys;
mod ca;
mod completion;
mod delete;
mod depends;
mod describe;
mod doctor;
mod events;
mod get;
mod health;
mod listing;
mod login;
mod logs;
mod node;
mod operate;
mod policy;
mod rollout;
mod scale;
mod spec;
mod switches;
mod up;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

pub use access::{AuditArgs, AuditWhat, AuthArgs, AuthWhat, NewToken, TokenArgs, TokenWhat};
pub use backup::{Backup, Restore};
pub use bus_keys::BusKeys;
pub use ca::{Ca, CaWhat};
pub use completion::{Completion, CompletionShell};
pub use delete::{Delete, DeleteGroups, DeleteWhat, Mode};
pub use depends::{Depends, DependsWhat};
pub use describe::{Describe, DescribeWhat, Why};
pub use doctor::Doctor;
pub use events::{DeadLetters, Events};
pub use get::{All, Get, GetWhat, Groups, Instances, Nodes};
pub use health::{Clear, Health};
pub use listing::{ListOutput, Listing, Scope, Selector, matches};
pub use login::{ContextArgs, ContextWhat, Login, Logout, Proxy};
pub use logs::{Logs, Tail};
pub use node::{Drain, JoinTokenArgs, JoinTokenWhat, Label, NewJoinToken, Node, NodeWhat, labels};
pub use operate::{Drift, Evacuate, Operate};
pub use policy::{Exceptions, PolicyArgs, PolicyWhat};
pub use rollout::{Control, ControlBatch, Drained, Follow, Gate, History, PlanArgs, Rollout, RolloutWhat, Undo};
pub use scale::{InstanceCount, Scale};
pub use spec::{Convert, ConvertFrom, ConvertTo, Explain, Init, Run, Set, SetTarget, SetWhat};
pub use switches::{
    Constraints, ConstraintsWhat, EngineArgs, EngineWhat, GuardArgs, GuardWhat, Notifies, NotifiesWhat,
};
pub use up::{Down, Up};

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
  deployctl logs demo.web.web --follow
  deployctl events --follow
  deployctl login https://deployd.example:9003
  deployctl status
  deployctl down";

const STATUS: &str = "\
Exit code 1 when something is not well; the lines `not well` name it. JSON and YAML have the members Well, Problems, Leader, Term, \
Nodes, PodGroups and, for a local cluster, Processes.

Examples:
  deployctl status
  deployctl status --output json";

fn after_help() -> String {
    format!("{}\n\n{EXAMPLES}", exit::table())
}

/// Command-line client for deployd
#[derive(Debug, Parser)]
#[command(name = "deployctl", version, after_help = after_help(), arg_required_else_help = true)]
pub struct Args {
    #[command(flatten)]
    pub endpoint: Endpoint,
    /// Colour bad states in tables
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Colour,
    #[command(subcommand)]
    pub command: Command,
}

/// The flags that say which cluster to use.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Endpoint {
    /// URLs of the API, comma separated, http://, https:// or unix:///PATH; deployctl tries them in this order
    /// [default: that of the cluster in --dir; without --dir that of the context in use, else the local cluster's, else
    /// http://127.0.0.1:9003]
    #[arg(long, global = true, env = "DEPLOYD_API", value_name = "URL", value_delimiter = ',')]
    pub api: Vec<String>,
    /// Directory of the local cluster: state, logs, data [default: .deployd/run of the checkout]
    #[arg(long, global = true, env = "DEPLOYD_DIR", value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// File with the token to send, which no other user can read [default: the token in DEPLOYD_TOKEN, else that of the
    /// context in use, which only its own API gets]
    #[arg(long, global = true, env = "DEPLOYD_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// CA that signed the certificate of the API (PEM), for https:// [default: that of the context in use, else the CAs of
    /// this machine]
    #[arg(long, global = true, env = "DEPLOYD_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a local cluster and deploy the demo
    Up(Up),
    /// Stop the local cluster and remove its containers and PodGroups
    Down(Down),
    /// Show processes, leader, nodes and PodGroups, and what is not well
    #[command(after_help = STATUS)]
    Status {
        /// Output format
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Create or update PodGroups from a file
    Apply(Apply),
    /// Write a commented document to start from
    Init(Init),
    /// Run an image as a new PodGroup
    Run(Run),
    /// Change the image, environment, memory or CPU of a PodGroup
    Set(Set),
    /// Convert documents between the short form and PodGroupSpec JSON
    Convert(Convert),
    /// Explain the keys of the short form
    Explain(Explain),
    /// Preview what applying a file would do to each instance
    Plan(PlanArgs),
    /// Watch and control rollouts
    Rollout(Rollout),
    /// Set a readiness gate of an instance
    Gate(Gate),
    /// Confirm that an instance gets no more traffic
    Drained(Drained),
    /// List PodGroups, instances or nodes, or show one PodGroup
    Get(Get),
    /// List PodGroups
    #[command(after_help = get::LS)]
    Ls(Groups),
    /// List instances
    #[command(after_help = get::PS)]
    Ps(Instances),
    /// Show everything about a PodGroup or a node
    Describe(Describe),
    /// Explain why a PodGroup is not ready, and what helps
    Why(Why),
    /// Delete PodGroups
    Delete(Delete),
    /// Change the number of instances of a PodGroup
    Scale(Scale),
    /// Start instances and reset their restart count
    #[command(after_help = operate::START)]
    Start(Operate),
    /// Stop instances until `deployctl start`
    #[command(after_help = operate::STOP)]
    Stop(Operate),
    /// Restart instances, one after another
    #[command(after_help = operate::RESTART)]
    Restart(Operate),
    /// Move instances off a node once; new ones may still be placed there
    Drift(Drift),
    /// Move all instances off a node and set a constraint against it; prefer `node drain`
    Evacuate(Evacuate),
    /// Show, cordon, drain, label or remove nodes
    #[command(alias = "nodes")]
    Node(Node),
    /// Manage dependency pods, which run beside the instances that need them
    Depends(Depends),
    /// Show what the containers of a PodGroup write
    Logs(Logs),
    /// Show what happened in the cluster and why
    Events(Events),
    /// Show messages that could not be delivered
    DeadLetters(DeadLetters),
    /// Show, start, stop or configure scheduling
    Engine(EngineArgs),
    /// Show, enable or disable automatic replacement of missing containers
    Guard(GuardArgs),
    /// Manage placement constraints of the whole cluster
    #[command(alias = "constraint")]
    Constraints(Constraints),
    /// Manage what workloads may request from the nodes
    #[command(alias = "policies")]
    Policy(PolicyArgs),
    /// Manage webhooks
    #[command(alias = "notify")]
    Notifies(Notifies),
    /// Store the URL of a cluster and your token for it
    Login(Login),
    /// Remove a stored cluster and its token
    Logout(Logout),
    /// List and choose the clusters that you have logged in to
    #[command(alias = "contexts")]
    Context(ContextArgs),
    /// Create, list and revoke tokens
    #[command(alias = "tokens")]
    Token(TokenArgs),
    /// Show who you are and what roles allow; enforce access control
    Auth(AuthArgs),
    /// Show and verify the log of all commands
    Audit(AuditArgs),
    /// Add your token to the requests of programs of this machine
    Proxy(Proxy),
    /// Print a script that completes commands and flags in your shell
    Completion(Completion),
    /// Write the keys of the processes on NATS, and the NATS accounts that know them
    BusKeys(BusKeys),
    /// Make a certificate authority, and certificates for the API, NATS, etcd and their clients
    Ca(Ca),
    /// Write the cluster's state to a file
    Backup(Backup),
    /// Restore the cluster's state from a backup
    Restore(Restore),
    /// Check this machine and the cluster, and say what helps
    Doctor(Doctor),
    /// Check health endpoints
    Health(Health),
    /// Clean up containers of a deleted cluster
    Clear(Clear),
    /// Run the processes of a prepared directory; `up --detach` starts this
    #[command(hide = true)]
    Supervise,
}

/// The flags of commands that can wait for their result.
#[derive(Debug, Clone, ClapArgs)]
pub struct Waiting {
    /// Wait for the result (the default)
    #[arg(long, short, conflicts_with = "detach")]
    pub wait: bool,
    /// Do not wait: return when the change is accepted
    #[arg(long, short)]
    pub detach: bool,
    /// How long the whole command may take
    #[arg(long, default_value = "120s", value_parser = fabric::duration::parse)]
    pub timeout: Duration,
}

impl Waiting {
    /// Whether to wait: success is reported only when it was observed, unless the user asked for less.
    pub fn waits(&self) -> bool {
        !self.detach
    }
}

/// `deployctl apply`
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("timeout", |timeout| timeout.default_value("10m")))]
#[command(after_help = "\
A file holds one or several PodGroups, each in the short form (`deployctl init` writes an example, `deployctl explain` lists \
its keys) or as a PodGroupSpec: YAML documents, or JSON values one after the other or in an array.
For a PodGroupSpec: Pod.Name and Pod.Namespace may be left out; they equal Name and Namespace. NumInstances is required. An unknown field, or a \
value that the cluster would change, is an error: exit code 2, and nothing is sent.
Readable values are accepted: RestartPolicy always, onfail or never (default for a new group: always), MemoryLimit 256Mi, \
CpuLimit 0.5 (cores; an integer is a level of half a core), durations such as 10s.
An existing group is updated: first the rollout settings (Strategy, Topology, Drain ...), then the pod and the number of \
instances. Applying the same file again changes nothing. A CPU or memory limit of 0 keeps the current limit, and a file \
without Paused keeps a paused rollout paused.
A changed pod starts a rollout, which replaces the instances as Strategy says, by default one after the other. deployctl \
follows the rollout to its end, with the exit codes of `deployctl rollout status`; with --detach it returns when the change \
is accepted. On a terminal it shows the plan and asks before it changes a PodGroup that exists; --yes skips the question.

Examples:
  deployctl apply -f deploy/demo-podgroup.json
  deployctl apply -f deploy/demo-beta.yaml --cause ticket-4711 --detach
  deployctl apply --yes --timeout 30m -f - < deploy/demo-release.yaml")]
pub struct Apply {
    /// File to read; `-` reads standard input
    #[arg(long, short, value_name = "FILE")]
    pub file: PathBuf,
    /// Reason for the change; `rollout history` shows it
    #[arg(long, value_name = "TEXT")]
    pub cause: Option<String>,
    /// Change existing PodGroups without asking
    #[arg(long, short)]
    pub yes: bool,
    #[command(flatten)]
    pub waiting: Waiting,
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Table
    Table,
    /// YAML
    Yaml,
    /// Raw JSON
    Json,
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

    /// The words and the help of every visible command, without line breaks for the width of a terminal.
    fn all_helps() -> Vec<(String, String)> {
        let (mut command, mut found) = (Args::command().term_width(0), Vec::new());
        command.build();
        helps(&mut command, "deployctl", &mut found);
        found
    }

    /// Every visible command below `command`: its words and its help.
    fn helps(command: &mut clap::Command, typed: &str, found: &mut Vec<(String, String)>) {
        found.push((typed.to_owned(), command.render_long_help().to_string()));
        for sub in command.get_subcommands_mut().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
            let typed = format!("{typed} {}", sub.get_name());
            helps(sub, &typed, found);
        }
    }

    #[test]
    fn every_example_of_the_help_parses_and_every_command_has_one() {
        for (typed, help) in all_helps() {
            let examples: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  deployctl ")).collect();
            let words = typed.split(' ').count();
            // The help of `deployctl node` has the examples of its subcommands.
            let needs_one = words < 3 || typed.starts_with("deployctl rollout ");
            let has_one = !examples.is_empty() || !needs_one;
            assert!(has_one, "`{typed} --help` shows no example");
            for line in examples {
                let typed = line.split("   ").next().and_then(|l| l.split(" < ").next()).unwrap_or(line);
                parse(&format!("deployctl {typed}")).unwrap_or_else(|error| panic!("{typed}: {error}"));
            }
        }
    }

    #[test]
    fn the_help_breaks_a_line_only_after_a_sentence() {
        let is_text = |line: &&str| !line.is_empty() && !line.starts_with(' ');
        for (typed, help) in all_helps() {
            let lines: Vec<&str> = help.lines().collect();
            let breaks = lines.windows(2).filter(|pair| pair.iter().all(is_text));
            let broken: Vec<_> = breaks.filter(|pair| !pair[0].ends_with(['.', ')', ':'])).collect();
            assert!(broken.is_empty(), "`{typed} --help` breaks lines that a terminal wraps: {broken:#?}");
        }
    }

    #[test]
    fn up_has_the_documented_defaults() {
        let Command::Up(up) = parse("deployctl up").unwrap().command else { panic!("not up") };
        assert_eq!((up.nodes, up.port, up.detach, up.no_demo), (3, 9003, false, false));
        assert!(parse("deployctl up --nodes 0").is_err());
    }

    #[test]
    fn several_apis_are_comma_separated_and_may_stand_anywhere() {
        let args = parse("deployctl get nodes --api http://a:1,http://b:2").unwrap();
        assert_eq!(args.endpoint.api, ["http://a:1", "http://b:2"]);
    }

    #[test]
    fn wait_and_detach_exclude_each_other() {
        assert!(parse("deployctl scale a 3 --wait --detach").is_err());
    }

    #[test]
    fn waiting_is_the_default() {
        for (line, waits) in [("scale a 3", true), ("scale a 3 -w", true), ("scale a 3 --detach", false)] {
            let Command::Scale(scale) = parse(&format!("deployctl {line}")).unwrap().command else { panic!("{line}") };
            assert_eq!(scale.waiting.waits(), waits, "{line}");
        }
    }

    #[test]
    fn an_apply_waits_for_the_longest_usual_rollout() {
        let Command::Apply(apply) = parse("deployctl apply -f a").unwrap().command else { panic!("not apply") };
        assert_eq!(apply.waiting.timeout, Duration::from_secs(600));
    }
}
