//! The flags of `deployctl policy`.

use clap::{Args as ClapArgs, Subcommand};
use contract::policy::{HostBind, Level, Policy, Quota};

use super::Listing;

/// `deployctl policy`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Levels:
  restricted  as baseline; not as root, and no capability but NET_BIND_SERVICE
  baseline    ordinary images; nothing of the node or of other namespaces (default)
  trusted     nearly everything; equivalent to root on the node
The namespace * stands for all namespaces without a policy of their own. A policy applies to new specs and new containers; \
what runs is left alone. docs/security.md has the rules of each level.

Examples:
  deployctl policy list
  deployctl policy show shop
  deployctl policy set shop baseline --allow-bind /srv/models:ro --allow-capability NET_RAW
  deployctl policy set * restricted
  deployctl policy remove shop")]
pub struct PolicyArgs {
    #[command(subcommand)]
    pub what: PolicyWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum PolicyWhat {
    /// Show all policies
    List {
        #[command(flatten)]
        listing: Listing,
    },
    /// Show the policy that applies to a namespace
    Show {
        /// Namespace, or *
        namespace: String,
    },
    /// Set the policy of a namespace; replaces the previous one
    Set {
        /// Namespace, or * for all without a policy of their own
        namespace: String,
        /// restricted, baseline or trusted
        #[arg(value_parser = str::parse::<Level>)]
        level: Level,
        #[command(flatten)]
        exceptions: Box<Exceptions>,
    },
    /// Remove the policy of a namespace; that of * applies
    Remove {
        /// Namespace, or *
        namespace: String,
    },
}

/// Exceptions from the rules of a level, and limits.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Exceptions {
    /// Directory or file of the nodes that SystemVolumes may bind; with :ro only for reading, then also everything below it
    #[arg(long, value_name = "PATH[:ro]")]
    pub allow_bind: Vec<String>,
    /// Docker network that pods may join
    #[arg(long, value_name = "NAME")]
    pub allow_network: Vec<String>,
    /// Docker log driver that containers may use, besides those that the level allows, for example syslog
    #[arg(long, value_name = "NAME")]
    pub allow_log_driver: Vec<String>,
    /// Capability that containers get, for example NET_RAW
    #[arg(long, value_name = "NAME")]
    pub allow_capability: Vec<String>,
    /// Prefix of labels that other systems use, for example traefik.
    #[arg(long, value_name = "PREFIX")]
    pub allow_label: Vec<String>,
    /// Image that may run, or a prefix such as registry.example/*; without this flag all may
    #[arg(long, value_name = "IMAGE")]
    pub allow_image: Vec<String>,
    /// User that restricted accepts besides numeric ids other than 0
    #[arg(long, value_name = "USER")]
    pub allow_user: Vec<String>,
    /// Path below /dev that SystemVolumes may bind
    #[arg(long, value_name = "PATH")]
    pub allow_device: Vec<String>,
    /// PodGroups of the namespace at most
    #[arg(long, value_name = "COUNT")]
    pub max_groups: Option<u64>,
    /// Instances of the namespace at most
    #[arg(long, value_name = "COUNT")]
    pub max_instances: Option<u64>,
    /// Containers of a pod at most
    #[arg(long, value_name = "COUNT")]
    pub max_containers: Option<u64>,
}

impl Exceptions {
    pub fn policy(&self, level: Level) -> Policy {
        let bind = |text: &String| match text.strip_suffix(":ro") {
            Some(path) => HostBind { path: path.to_owned(), read_only: true },
            None => HostBind { path: text.clone(), read_only: false },
        };
        let set = |list: &[String]| list.iter().cloned().collect();
        Policy {
            level,
            host_binds: self.allow_bind.iter().map(bind).collect(),
            networks: set(&self.allow_network),
            log_drivers: set(&self.allow_log_driver),
            capabilities: set(&self.allow_capability),
            labels: set(&self.allow_label),
            images: set(&self.allow_image),
            users: set(&self.allow_user),
            devices: set(&self.allow_device),
            quota: Quota { groups: self.max_groups, instances: self.max_instances, containers: self.max_containers },
        }
    }
}
