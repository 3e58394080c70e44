//! The flags of the commands that write, convert and explain documents: `init`, `run`, `set`, `convert`, `explain`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::Waiting;

/// `deployctl convert`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
The file is read as `apply` reads it, and nothing is sent. A default that the short form implies is written in full in the \
PodGroupSpec. Versions and times, which the cluster sets, are left out of the short form; nothing else is lost.
With --from compose, each service of a docker-compose file becomes a document of the short form. Every key that is left out or \
means something else is reported on standard error, with its line and path.

Examples:
  deployctl convert -f deploy/demo-short.yaml
  deployctl convert --to short -f deploy/demo-podgroup.json
  deployctl convert --to short -f - < deploy/demo-release.yaml
  deployctl convert --from compose -f docker-compose.yml --project shop")]
pub struct Convert {
    /// File to read, as for `apply`; `-` reads standard input
    #[arg(long, short, value_name = "FILE")]
    pub file: PathBuf,
    /// What the file holds
    #[arg(long, value_enum, default_value_t = ConvertFrom::Document)]
    pub from: ConvertFrom,
    /// What to convert to [default: spec; with --from compose short]
    #[arg(long, value_enum)]
    pub to: Option<ConvertTo>,
    /// Project of a compose file, the first part of the names [default: `name` of the file, else its directory]
    #[arg(long)]
    pub project: Option<String>,
}

/// What `deployctl convert` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ConvertFrom {
    /// PodGroups, in the short form or as PodGroupSpecs
    Document,
    /// A docker-compose file
    Compose,
}

/// What `deployctl convert` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ConvertTo {
    /// PodGroupSpec JSON, as the API takes it
    Spec,
    /// The short form, as YAML
    Short,
}

/// `deployctl explain`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  deployctl explain
  deployctl explain health.every
  deployctl explain Pod.Containers[].MemoryLimit
  deployctl explain --schema")]
pub struct Explain {
    /// Key of the short form, or field of a PodGroupSpec; all keys when absent
    pub key: Option<String>,
    /// Print the JSON schema of the short form
    #[arg(long, conflicts_with = "key")]
    pub schema: bool,
    /// Print the reference as Markdown: docs/spec.md
    #[arg(long, conflicts_with_all = ["key", "schema"])]
    pub markdown: bool,
}

/// `deployctl init`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
It writes DIR/deployd.yaml, with a comment on each key, and never overwrites a file.

Examples:
  deployctl init
  deployctl init shop --name shop.web --image nginx:1.27 --port 80")]
pub struct Init {
    /// Directory, created when it does not exist
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Name of the PodGroup [default: NAME-OF-THE-DIRECTORY.web]
    #[arg(long)]
    pub name: Option<String>,
    /// Image to run
    #[arg(long, default_value = "nginx:1.27")]
    pub image: String,
    /// TCP port that the container listens on
    #[arg(long, default_value_t = 80)]
    pub port: u16,
}

/// `deployctl run`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
It creates a PodGroup in the way `apply` does. --dry-run prints the document instead, to store it in a file for `apply`.
The same command again changes nothing; a PodGroup that exists and differs is not changed: see `deployctl set`.

Examples:
  deployctl run nginx:1.27 --port 80
  deployctl run nginx:1.27 --name shop.web --replicas 3 --env GREETING=hello --memory 256Mi --cpu 0.5
  deployctl run nginx:1.27 --name shop.web --port 80 --dry-run")]
pub struct Run {
    /// Image, which the nodes pull
    pub image: String,
    /// Name of the PodGroup [default: that of the image]
    #[arg(long)]
    pub name: Option<String>,
    /// TCP port that the container listens on
    #[arg(long)]
    pub port: Option<u16>,
    /// Environment variable; repeat for several
    #[arg(long, value_name = "NAME=TEXT")]
    pub env: Vec<String>,
    /// Memory limit, such as 256Mi
    #[arg(long)]
    pub memory: Option<String>,
    /// CPU cores, such as 0.5
    #[arg(long)]
    pub cpu: Option<String>,
    /// Number of instances
    #[arg(long, default_value_t = 1)]
    pub replicas: u32,
    /// Print the document, and send nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub waiting: Waiting,
}

/// `deployctl set`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
It reads the PodGroup, changes one part of a container and applies the result, which starts a rollout. The same command again \
changes nothing. A document that you keep in a file does not change with it.

Examples:
  deployctl set image demo.web.web deployd/demo:1
  deployctl set env demo.web.web GREETING=hello DEBUG-
  deployctl set memory demo.web.web 256Mi
  deployctl set cpu demo.web.web 0.5 --cause slow-answers")]
pub struct Set {
    #[command(subcommand)]
    pub what: SetWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum SetWhat {
    /// Change the image
    #[command(after_help = "Example:\n  deployctl set image demo.web.web deployd/demo:1")]
    Image {
        #[command(flatten)]
        target: SetTarget,
        /// Image, which the nodes pull
        image: String,
    },
    /// Set and remove environment variables; the others stay
    #[command(after_help = "Example:\n  deployctl set env demo.web.web GREETING=hello DEBUG-")]
    Env {
        #[command(flatten)]
        target: SetTarget,
        /// `NAME=TEXT` sets a variable, `NAME-` removes it
        #[arg(required = true, value_name = "NAME=TEXT|NAME-")]
        changes: Vec<String>,
    },
    /// Change the memory limit
    #[command(after_help = "Example:\n  deployctl set memory demo.web.web 256Mi")]
    Memory {
        #[command(flatten)]
        target: SetTarget,
        /// Size, such as 256Mi
        memory: String,
    },
    /// Change the CPU cores
    #[command(after_help = "Example:\n  deployctl set cpu demo.web.web 0.5")]
    Cpu {
        #[command(flatten)]
        target: SetTarget,
        /// Cores, such as 0.5
        cpu: String,
    },
}

/// What `deployctl set` changes, and how.
#[derive(Debug, Clone, ClapArgs)]
pub struct SetTarget {
    /// Name of the PodGroup
    pub name: String,
    /// Which container, from 0; needed when there are several
    #[arg(long, value_name = "INDEX")]
    pub container: Option<usize>,
    /// Reason for the change; `rollout history` shows it
    #[arg(long, value_name = "TEXT")]
    pub cause: Option<String>,
    #[command(flatten)]
    pub waiting: Waiting,
}
