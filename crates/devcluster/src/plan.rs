//! Decides what a local cluster consists of: processes, names, labels, ports and command lines.
//!
//! Input is the state of the machine, output a [`Cluster`]; nothing is started here.
//! All agents share one engine; each sees only the containers labelled with its node name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use contract::access::AnonymousBinding;
use contract::bus::{Identity, Member};
use contract::name::NodeName;
use fabric::bus_accounts::{self, User};
use fabric::local::{EtcdPorts, Syncing};

use crate::keys::Keys;
use crate::state::{Child, Cluster, ProcessKind};

/// Schedulers: one leads, one stands by.
const SCHEDULERS: u16 = 2;
/// Apiservers: enough to see that any of them answers.
const APISERVERS: u16 = 2;
/// Everything listens here only.
const HOST: &str = "127.0.0.1";
/// Who needs no token: the programs of the user that starts the cluster. Other users of this machine and pods get none of it.
pub const OWN_USER: &str = "admin@* from uid:self";
/// Longest path of a unix socket on Linux.
const LONGEST_SOCKET: usize = 107;
/// Everything that leads to this machine and not to the network.
const LOOPBACK: &str = "127.0.0.0/8";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    pub etcd: PathBuf,
    pub nats: PathBuf,
    /// Directory of deployd's own programs.
    pub ours: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Bytes.
    pub memory: u64,
    pub cpus: u32,
}

/// What the user chooses: the flags of `deployctl up` that shape the cluster.
#[derive(Debug, Clone)]
pub struct Settings {
    pub nodes: u16,
    /// Port of the first apiserver, the second takes the next; 0 takes free ports.
    pub port: u16,
    pub labels: Vec<NodeLabel>,
    /// Bytes; none gives each node a fair share of the machine.
    pub node_memory: Option<u64>,
    pub node_cpus: Option<u32>,
    pub suspect_after: Option<Duration>,
    pub lost_after: Option<Duration>,
    pub failover_grace: Option<Duration>,
    /// Nodes whose agents the user starts: they get keys and no process.
    pub extra_nodes: Vec<NodeName>,
    /// Clients without a token that are let in beside the own user's.
    pub anonymous: Vec<AnonymousBinding>,
    /// Only flags that the previous version knows, so no keys on the bus and no access control: for tests of two
    /// versions side by side.
    pub previous_flags: bool,
}

/// A label of the nodes, with a value for each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLabel {
    pub key: String,
    /// One value per node, from the first again after the last; never empty.
    pub values: Vec<String>,
}

impl NodeLabel {
    /// Reads `KEY=VALUE` or `KEY=VALUE,VALUE`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let complaint = || format!("{text:?} is not a label; write KEY=VALUE, or KEY=VALUE,VALUE for node after node");
        let (key, values) = text.split_once('=').ok_or_else(complaint)?;
        let (key, values) = (key.trim(), values.split(',').map(|value| value.trim().to_owned()).collect::<Vec<_>>());
        if key.is_empty() || key.contains(',') || values.iter().all(String::is_empty) {
            return Err(complaint());
        }
        Ok(Self { key: key.to_owned(), values })
    }

    /// The value of a node, counted from 1; none when it has no such label.
    pub fn of_node(&self, number: u16) -> Option<&str> {
        let index = usize::from(number.saturating_sub(1)) % self.values.len().max(1);
        self.values.get(index).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Everything a plan is made from.
#[derive(Debug)]
pub struct Facts<'a> {
    /// Directory of the cluster, absolute.
    pub dir: &'a Path,
    pub cluster: &'a str,
    pub settings: &'a Settings,
    /// Socket of the engine that all nodes share.
    pub engine: &'a Path,
    pub programs: &'a Programs,
    pub machine: Machine,
    /// A port for each name of [`port_names`].
    pub ports: &'a BTreeMap<String, u16>,
}

/// Every port a cluster of `nodes` nodes needs, by what it is for.
pub fn port_names(nodes: u16) -> Vec<String> {
    let numbered = |what: &'static str, count: u16| (1..=count).map(move |n| format!("{what}-{n}"));
    ["etcd", "etcd-peer", "nats", "notifier"]
        .map(str::to_owned)
        .into_iter()
        .chain(numbered("apiserver", APISERVERS))
        .chain(numbered("scheduler", SCHEDULERS))
        .chain(numbered("agent", nodes))
        .chain(["etcd-health".to_owned()])
        .collect()
}

/// Ports the user fixed by `--port BASE`.
pub fn fixed_ports(base: u16) -> BTreeMap<String, u16> {
    if base == 0 {
        return BTreeMap::new();
    }
    (0..APISERVERS).map(|n| (format!("apiserver-{}", n + 1), base.saturating_add(n))).collect()
}

/// The cluster; nothing of it runs yet.
pub fn plan(facts: &Facts<'_>) -> Cluster {
    let scheme = if facts.settings.previous_flags { "http" } else { "https" };
    let etcd = format!("{scheme}://{}", listen(facts, "etcd"));
    let nats = format!("nats://{}", listen(facts, "nats"));
    let mut children = vec![etcd_server(facts), nats_server(facts)];
    children.extend((1..=SCHEDULERS).map(|n| scheduler(facts, n, &nats, &etcd)));
    children.extend((1..=facts.settings.nodes).map(|n| agent(facts, n, &nats)));
    children.extend((1..=APISERVERS).map(|n| apiserver(facts, n, &nats)));
    children.push(notifier(facts, &nats));
    let served = |child: &&Child| child.role == ProcessKind::Apiserver;
    Cluster {
        cluster: facts.cluster.to_owned(),
        api: children.iter().filter(served).map(|child| format!("http://{}", child.listen)).collect(),
        sockets: (1..=APISERVERS).filter_map(|n| socket(facts, n)).collect(),
        nats,
        etcd,
        nodes: (1..=facts.settings.nodes).map(node_name).collect(),
        supervisor: None,
        children,
        ports: facts.ports.clone(),
    }
}

/// Contents of the NATS server's configuration: an acknowledged command survives the loss of power, not only of the
/// process.
pub fn nats_config(dir: &Path, port: u16, users: Option<&[User]>) -> NatsFiles {
    let (accounts, agents) = match users {
        Some(users) => bus_accounts::config_with_agents_file(users),
        None => (fabric::local::open_accounts(), String::new()),
    };
    NatsFiles { config: fabric::local::nats_config(&dir.join("nats"), port, Syncing::Always, &accounts), agents }
}

/// The files of the NATS server.
#[derive(Debug)]
pub struct NatsFiles {
    pub config: String,
    /// The users of agents, which the configuration includes; empty on an open bus.
    pub agents: String,
}

/// Every process on the bus.
pub fn identities(settings: &Settings) -> Vec<Identity> {
    let numbered = |member: Member, count: u16| (1..=count).map(move |n| (member, format!("{}-{n}", member.word())));
    let extra = settings.extra_nodes.iter().map(|node| (Member::Agent, node.to_string()));
    let agents = (1..=settings.nodes).map(|n| (Member::Agent, node_name(n))).chain(extra);
    let notifier = (Member::Notifier, "notifier".to_owned());
    numbered(Member::Scheduler, SCHEDULERS)
        .chain(numbered(Member::Apiserver, APISERVERS))
        .chain([notifier])
        .chain(agents)
        .map(|(member, name)| identity(member, &name))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// The names of the schedulers.
pub fn schedulers() -> Vec<String> {
    (1..=SCHEDULERS).map(|n| format!("scheduler-{n}")).collect()
}

fn identity(member: Member, name: &str) -> Identity {
    let name = name.parse().expect("our own names, such as scheduler-1, are valid");
    Identity { member, name }
}

/// Where the NATS server's configuration lies.
pub fn nats_agents_file(dir: &Path) -> PathBuf {
    dir.join(bus_accounts::AGENTS_FILE)
}

pub fn nats_config_file(dir: &Path) -> PathBuf {
    dir.join("nats.conf")
}

/// Directories that must be there before anything starts.
pub fn directories(dir: &Path, nodes: u16) -> Vec<PathBuf> {
    let of_nodes = (1..=nodes).flat_map(|n| {
        let node = node_dir(dir, n);
        [node.join("state"), node.join("volumes")]
    });
    ["logs", "etcd", "nats"].map(|name| dir.join(name)).into_iter().chain(of_nodes).collect()
}

/// Memory of each of `nodes` nodes: an eighth of the machine is kept for ourselves.
pub fn node_memory(machine: Machine, nodes: u16) -> u64 {
    (machine.memory - machine.memory / 8) / u64::from(nodes.max(1))
}

fn node_name(number: u16) -> String {
    format!("node-{number}")
}

fn node_dir(dir: &Path, number: u16) -> PathBuf {
    dir.join("nodes").join(node_name(number))
}

/// The labels of a node: the user's, and the defaults for other keys. Units alternate between cell-a and cell-b, so that a
/// rollout over units has two.
fn labels(settings: &Settings, number: u16) -> Vec<String> {
    let usual = [("group", "default"), ("unit", if number % 2 == 1 { "cell-a" } else { "cell-b" })];
    let usual = usual.into_iter().filter(|(key, _)| !settings.labels.iter().any(|label| label.key == *key));
    let given = settings.labels.iter().filter_map(|label| Some((label.key.as_str(), label.of_node(number)?)));
    usual.chain(given).map(|(key, value)| format!("{key}={value}")).collect()
}

fn listen(facts: &Facts<'_>, what: &str) -> String {
    format!("{HOST}:{}", facts.ports.get(what).copied().unwrap_or(0))
}

fn child(name: &str, role: ProcessKind, listen: String, command: Vec<String>) -> Child {
    Child { name: name.to_owned(), role, listen, pid: None, restarts: 0, last_exit: None, command }
}

fn command(program: &Path, words: &[&str]) -> Vec<String> {
    std::iter::once(program.display().to_string()).chain(words.iter().map(|word| (*word).to_owned())).collect()
}

fn etcd_server(facts: &Facts<'_>) -> Child {
    let port = |name: &str| facts.ports.get(name).copied().unwrap_or(0);
    let ports = EtcdPorts { client: port("etcd"), peer: port("etcd-peer"), health: port("etcd-health") };
    let mut words = fabric::local::etcd_arguments(&facts.dir.join("etcd"), ports.client, ports.peer);
    let mut probed = "etcd";
    // Every user of the machine can connect to 127.0.0.1.
    if !facts.settings.previous_flags {
        words.extend(fabric::local::etcd_tls_arguments(&Keys::of(facts.dir).etcd(), ports));
        probed = "etcd-health";
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    child("etcd", ProcessKind::Etcd, listen(facts, probed), command(&facts.programs.etcd, &words))
}

fn nats_server(facts: &Facts<'_>) -> Child {
    let config = nats_config_file(facts.dir).display().to_string();
    child("nats", ProcessKind::Nats, listen(facts, "nats"), command(&facts.programs.nats, &["--config", &config]))
}

fn scheduler(facts: &Facts<'_>, number: u16, nats: &str, etcd: &str) -> Child {
    let name = format!("scheduler-{number}");
    let address = listen(facts, &name);
    let program = facts.programs.ours.join("deployd-scheduler");
    let mut words = command(&program, &["--name", &name, "--nats", nats, "--etcd", etcd, "--listen", &address]);
    words.extend(credentials(facts, Member::Scheduler, &name));
    for (flag, file) in [("--etcd-ca", "ca.pem"), ("--etcd-cert", "client.pem"), ("--etcd-key", "client-key.pem")] {
        words.extend(key_flag(facts, flag, &Keys::of(facts.dir).etcd().join(file)));
    }
    words.extend(key_flag(facts, "--order-key-file", &Keys::of(facts.dir).signing(&name)));
    words.extend(anonymous(facts));
    words.extend(key_flag(facts, "--order-keys-file", &Keys::of(facts.dir).public()));
    words.extend(key_flag(facts, "--bus-agents-file", &nats_agents_file(facts.dir)));
    words.extend(accepted_nodes(facts));
    let timers = [
        ("--suspect-after", facts.settings.suspect_after),
        ("--lost-after", facts.settings.lost_after),
        ("--failover-grace", facts.settings.failover_grace),
    ];
    for (flag, time) in timers {
        words.extend(time.into_iter().flat_map(|time| [flag.to_owned(), format!("{}ms", time.as_millis())]));
    }
    child(&name, ProcessKind::Scheduler, address, words)
}

/// Only the nodes of this cluster may join.
fn accepted_nodes(facts: &Facts<'_>) -> Vec<String> {
    if facts.settings.previous_flags {
        return Vec::new();
    }
    let extra = facts.settings.extra_nodes.iter().map(ToString::to_string);
    let names: Vec<String> = (1..=facts.settings.nodes).map(node_name).chain(extra).collect();
    vec!["--accept-nodes".to_owned(), names.join(",")]
}

fn apiserver(facts: &Facts<'_>, number: u16, nats: &str) -> Child {
    let name = format!("apiserver-{number}");
    let address = listen(facts, &name);
    let program = facts.programs.ours.join("deployd-apiserver");
    let mut words = command(&program, &["--name", &name, "--listen", &address, "--nats", nats]);
    words.extend(credentials(facts, Member::Apiserver, &name));
    words.extend(anonymous(facts));
    words.extend(callback_rules(facts));
    let socket = socket(facts, number).into_iter();
    words.extend(socket.flat_map(|path| ["--socket".to_owned(), path.display().to_string()]));
    child(&name, ProcessKind::Apiserver, address, words)
}

/// Lets programs of the own user use the API without a token. Apiservers decide who may ask, schedulers what may be changed.
fn anonymous(facts: &Facts<'_>) -> Vec<String> {
    if facts.settings.previous_flags {
        return Vec::new();
    }
    let others = facts.settings.anonymous.iter().map(ToString::to_string);
    std::iter::once(OWN_USER.to_owned()).chain(others).flat_map(|binding| ["--anonymous".to_owned(), binding]).collect()
}

/// The unix socket of an apiserver; none in a directory whose path is too long for the kernel.
fn socket(facts: &Facts<'_>, number: u16) -> Option<PathBuf> {
    let name = if number == 1 { "api.sock".to_owned() } else { format!("api-{number}.sock") };
    let path = facts.dir.join(name);
    let fits = path.as_os_str().len() <= LONGEST_SOCKET && path.to_str().is_some();
    (fits && !facts.settings.previous_flags).then_some(path)
}

/// Callbacks may lead to programs on this machine, except to the listeners of the cluster itself.
fn callback_rules(facts: &Facts<'_>) -> Vec<String> {
    if facts.settings.previous_flags {
        return Vec::new();
    }
    let own: Vec<String> = facts.ports.values().map(|port| format!("{LOOPBACK}:{port}")).collect();
    ["--callback-allow", &format!("{LOOPBACK},::1"), "--callback-deny", &own.join(",")].map(str::to_owned).to_vec()
}

fn agent(facts: &Facts<'_>, number: u16, nats: &str) -> Child {
    let name = format!("agent-{number}");
    let address = listen(facts, &name);
    let home = node_dir(facts.dir, number);
    let memory =
        facts.settings.node_memory.unwrap_or_else(|| node_memory(facts.machine, facts.settings.nodes)).to_string();
    let cpus = facts.settings.node_cpus.unwrap_or(facts.machine.cpus).to_string();
    let mut words = command(
        &facts.programs.ours.join("deployd-agent"),
        &[
            "--name",
            &node_name(number),
            "--cluster",
            facts.cluster,
            "--state-dir",
            &home.join("state").display().to_string(),
            "--volume-root",
            &home.join("volumes").display().to_string(),
            "--cloud-volume-root",
            &facts.dir.join("cloud-volumes").display().to_string(),
            "--docker",
            &facts.engine.display().to_string(),
            "--memory",
            &memory,
            "--cpus",
            &cpus,
            "--publish-ip",
            HOST,
            "--advertise-ip",
            HOST,
            "--listen",
            &address,
            "--nats",
            nats,
        ],
    );
    words.extend(credentials(facts, Member::Agent, &node_name(number)));
    words.extend(key_flag(facts, "--order-keys-file", &Keys::of(facts.dir).public()));
    words.extend(labels(facts.settings, number).into_iter().flat_map(|label| ["--label".to_owned(), label]));
    child(&name, ProcessKind::Agent, address, words)
}

fn notifier(facts: &Facts<'_>, nats: &str) -> Child {
    let address = listen(facts, "notifier");
    let program = facts.programs.ours.join("deployd-notifier");
    let mut words = command(&program, &["--listen", &address, "--nats", nats]);
    words.extend(credentials(facts, Member::Notifier, "notifier"));
    words.extend(callback_rules(facts));
    child("notifier", ProcessKind::Notifier, address, words)
}

fn credentials(facts: &Facts<'_>, member: Member, name: &str) -> Vec<String> {
    key_flag(facts, "--nats-credentials-file", &Keys::of(facts.dir).bus(&identity(member, name)))
}

fn key_flag(facts: &Facts<'_>, flag: &str, file: &Path) -> Vec<String> {
    if facts.settings.previous_flags { Vec::new() } else { vec![flag.to_owned(), file.display().to_string()] }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use contract::access::{Binding, Namespaces, Role, Source};
    use contract::callback_address::Filter;

    use super::*;

    fn settings(nodes: u16) -> Settings {
        Settings {
            nodes,
            port: 9003,
            labels: Vec::new(),
            node_memory: None,
            node_cpus: None,
            suspect_after: None,
            lost_after: None,
            failover_grace: None,
            extra_nodes: Vec::new(),
            anonymous: Vec::new(),
            previous_flags: false,
        }
    }

    fn cluster(settings: &Settings) -> Cluster {
        let ports = port_names(settings.nodes).into_iter().zip(9000..).collect();
        let programs = Programs { etcd: "/b/etcd".into(), nats: "/b/nats-server".into(), ours: "/o".into() };
        plan(&Facts {
            dir: Path::new("/run dir"),
            cluster: "local-1",
            settings,
            engine: Path::new("/e.sock"),
            programs: &programs,
            machine: Machine { memory: 8 << 30, cpus: 4 },
            ports: &ports,
        })
    }

    #[test]
    fn a_cluster_has_the_documented_processes_in_start_order() {
        let names: Vec<String> = cluster(&settings(3)).children.into_iter().map(|child| child.name).collect();
        let wanted = "etcd nats scheduler-1 scheduler-2 agent-1 agent-2 agent-3 apiserver-1 apiserver-2 notifier";
        assert_eq!(names.join(" "), wanted);
        let roles: Vec<ProcessKind> = cluster(&settings(1)).children.iter().map(|child| child.role).collect();
        assert!(roles.is_sorted());
    }

    #[test]
    fn every_process_has_its_own_port() {
        let cluster = cluster(&settings(5));
        let addresses: BTreeSet<&str> = cluster.children.iter().map(|child| child.listen.as_str()).collect();
        assert_eq!(addresses.len(), cluster.children.len());
        assert!(!addresses.iter().any(|address| address.ends_with(":0")), "{addresses:?}");
    }

    #[test]
    fn nodes_have_their_own_names_and_alternate_between_units() {
        let cluster = cluster(&settings(3));
        let line = |n: usize| {
            cluster.children.iter().filter(|c| c.role == ProcessKind::Agent).nth(n).unwrap().command.join(" ")
        };
        assert!(line(0).contains("--name node-1 --cluster local-1 "));
        assert!(line(0).ends_with("--label group=default --label unit=cell-a"));
        assert!(line(1).ends_with("--label group=default --label unit=cell-b"));
        assert!(line(2).ends_with("unit=cell-a"));
        assert!(line(0).contains("--cpus 4"));
        assert!(line(0).contains(&format!("--memory {}", (7u64 << 30) / 3)));
        assert_eq!(cluster.nodes, ["node-1", "node-2", "node-3"]);
    }

    #[test]
    fn nodes_have_the_chosen_labels_node_by_node() {
        let labels = ["zone=a,b,b", "unit=x,,x"].map(|text| NodeLabel::parse(text).unwrap()).to_vec();
        let cluster = cluster(&Settings { labels, ..settings(3) });
        let agents = cluster.children.iter().filter(|c| c.role == ProcessKind::Agent).map(|c| c.command.join(" "));
        let labels: Vec<String> = agents.filter_map(|line| Some(line.split_once(" --label ")?.1.to_owned())).collect();
        let expected = [
            "group=default --label zone=a --label unit=x",
            "group=default --label zone=b",
            "group=default --label zone=b --label unit=x",
        ];
        assert_eq!(labels, expected);
    }

    #[test]
    fn timers_are_passed_to_the_schedulers_only_when_set() {
        let line =
            |c: &Cluster| c.children.iter().find(|c| c.role == ProcessKind::Scheduler).unwrap().command.join(" ");
        let lost_after = Some(Duration::from_secs(2));
        assert!(line(&cluster(&Settings { lost_after, ..settings(3) })).ends_with("--lost-after 2000ms"));
        assert!(!line(&cluster(&settings(3))).contains("-after"));
    }

    #[test]
    fn only_programs_of_the_own_user_and_chosen_clients_need_no_token_and_the_previous_version_gets_no_such_flag() {
        let bindings = |settings: &Settings| {
            let knows = |child: &&Child| [ProcessKind::Apiserver, ProcessKind::Scheduler].contains(&child.role);
            let of = |child: &Child| -> Vec<AnonymousBinding> {
                let flags = child.command.windows(2).filter(|words| words[0] == "--anonymous");
                flags.map(|words| words[1].parse().unwrap()).collect()
            };
            cluster(settings).children.iter().filter(knows).map(of).collect::<Vec<_>>()
        };
        let (role, namespaces) = (Role::Admin, Namespaces::All);
        let own = AnonymousBinding { binding: Binding { role, namespaces }, source: Source::OwnUid };
        assert_eq!(bindings(&settings(3)), vec![vec![own.clone()]; 4]);
        let console: AnonymousBinding = "deployer@* from 10.1.0.0/16".parse().unwrap();
        let chosen = Settings { anonymous: vec![console.clone()], ..settings(3) };
        assert_eq!(bindings(&chosen), vec![vec![own, console]; 4]);
        let previous = Settings { previous_flags: true, ..chosen };
        assert_eq!(bindings(&previous), vec![Vec::new(); 4]);
    }

    #[test]
    fn callbacks_may_lead_to_this_machine_but_to_no_listener_of_the_cluster() {
        let cluster = cluster(&settings(3));
        let takes_callbacks = |child: &&Child| [ProcessKind::Apiserver, ProcessKind::Notifier].contains(&child.role);
        let commands: Vec<_> = cluster.children.iter().filter(takes_callbacks).map(|child| &child.command).collect();
        assert_eq!(commands.len(), 3);
        for command in commands {
            let rules = |flag: &str| {
                let value = command.iter().skip_while(|word| *word != flag).nth(1).unwrap();
                value.split(',').map(|rule| rule.parse().unwrap()).collect()
            };
            let filter = Filter::new(rules("--callback-allow"), rules("--callback-deny"));
            let at = |port: u16| filter.check("localhost", (Ipv4Addr::LOCALHOST, port).into());
            assert!(cluster.ports.len() == 12 && cluster.ports.values().all(|port| at(*port).is_err()));
            assert_eq!(at(8999), Ok(()));
        }
    }

    #[test]
    fn the_apiservers_take_the_chosen_port_and_the_next() {
        let ports = fixed_ports(9100);
        assert_eq!((ports["apiserver-1"], ports["apiserver-2"]), (9100, 9101));
        assert!(fixed_ports(0).is_empty());
    }

    #[test]
    fn each_apiserver_has_a_socket_and_the_previous_version_gets_none() {
        let cluster_of = |settings: &Settings| {
            let cluster = cluster(settings);
            let apiservers = cluster.children.iter().filter(|child| child.role == ProcessKind::Apiserver);
            let flags =
                apiservers.map(|child| child.command.iter().skip_while(|word| *word != "--socket").nth(1).cloned());
            (flags.collect::<Vec<_>>(), cluster.sockets)
        };
        let paths = ["/run dir/api.sock", "/run dir/api-2.sock"];
        let expected = (paths.map(|path| Some(path.to_owned())).to_vec(), paths.map(PathBuf::from).to_vec());
        assert_eq!(cluster_of(&settings(3)), expected);
        let previous = Settings { previous_flags: true, ..settings(3) };
        assert_eq!(cluster_of(&previous), (vec![None, None], Vec::new()));
    }

    #[test]
    fn nats_syncs_to_disk_before_it_acknowledges() {
        let text = nats_config(Path::new("/a \"b\""), 4222, Some(&[])).config;
        assert!(text.contains("sync_interval: always"));
        assert!(text.contains(r#"store_dir: "/a \"b\"/nats""#), "{text}");
    }

    #[test]
    fn label_values_repeat_after_the_last() {
        let of = |text: &str| {
            let label = NodeLabel::parse(text).unwrap();
            [1, 2, 3, 4].map(|number| label.of_node(number).unwrap_or("-").to_owned()).join(" ")
        };
        assert_eq!(of("zone=a"), "a a a a");
        assert_eq!(of("zone=a,b"), "a b a b");
        assert_eq!(of("zone=a,,b,b"), "a - b b");
        for text in ["zone", "=a", "zone=", "zone=,", ""] {
            assert!(NodeLabel::parse(text).unwrap_err().contains("KEY=VALUE"), "{text}");
        }
    }
}
