//! Nodes that join and leave on real nats-servers: the file of agents, the reload, and what an agent without its key can do.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use contract::bus::{Identity, Member};
use contract::subjects;
use fabric::bus_accounts::{self, AGENTS_FILE, User};
use fabric::local::{NatsServer, Syncing, free_port};
use fabric::nats::{Args, Bus};

const DEADLINE: Duration = Duration::from_secs(10);

/// A process with its key file.
struct Process {
    user: User,
    args: Args,
}

impl Process {
    fn new(dir: &Path, member: Member, name: &str, url: &str) -> Self {
        let identity = Identity { member, name: name.parse().unwrap() };
        let (seed, public_key) = bus_accounts::generate_key();
        let file = dir.join(identity.user());
        std::fs::write(&file, format!("{}:{seed}\n", identity.user())).unwrap();
        let args = Args { credentials_file: Some(file), ..Args::at(url) };
        Self { user: User { identity, public_key }, args }
    }

    async fn connect(&self) -> Result<Bus, fabric::nats::Error> {
        Bus::connect(&self.args, "test").await
    }
}

/// Reloads every server; their number.
async fn reload(bus: &Bus) -> Result<usize, fabric::nats::Error> {
    let mut reloaded = BTreeSet::new();
    bus.reload_servers(&mut reloaded).await.map(|_| reloaded.len())
}

async fn until_disconnected(bus: &Bus) {
    let mut connected = bus.connected();
    tokio::time::timeout(DEADLINE, connected.wait_for(|up| !*up)).await.expect("the server closes it").unwrap();
}

fn write(dir: &Path, text: &str, joined: &[User]) {
    std::fs::write(dir.join(AGENTS_FILE), bus_accounts::with_joined(text, "", ("store", joined)).unwrap()).unwrap();
}

#[tokio::test]
async fn a_node_that_joins_gets_in_and_one_that_is_removed_is_cut_off_while_others_stay_connected() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let url = format!("nats://127.0.0.1:{port}");
    let scheduler = Process::new(dir.path(), Member::Scheduler, "s1", &url);
    let fixed = Process::new(dir.path(), Member::Agent, "node-1", &url);
    let joined = Process::new(dir.path(), Member::Agent, "node-2", &url);
    let (accounts, agents) = bus_accounts::config_with_agents_file(&[scheduler.user.clone(), fixed.user.clone()]);
    let home = dir.path().join("nats");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join(AGENTS_FILE), &agents).unwrap();
    let _server = NatsServer::start_configured(&home, port, Syncing::Always, &accounts).await.unwrap();
    let (leader, first) = (scheduler.connect().await.unwrap(), fixed.connect().await.unwrap());
    assert!(joined.connect().await.is_err(), "it has not joined");

    write(&home, &agents, std::slice::from_ref(&joined.user));
    assert_eq!(reload(&leader).await.unwrap(), 1);
    let second = joined.connect().await.unwrap();
    let mut orders = second.subscribe(&subjects::order(&joined.user.identity.name)).await.unwrap();
    second.flush().await.unwrap();
    leader.publish(&subjects::order(&joined.user.identity.name), &"order").await.unwrap();
    assert_eq!(orders.next().await.unwrap().decode::<String>().unwrap(), "order");

    write(&home, &agents, &[]);
    assert_eq!(reload(&leader).await.unwrap(), 1);
    until_disconnected(&second).await;
    assert!(joined.connect().await.is_err(), "its key is gone");
    for bus in [&leader, &first] {
        bus.flush().await.unwrap();
        assert!(*bus.connected().borrow(), "the others stay connected");
    }
}

#[tokio::test]
async fn every_server_of_a_cluster_is_reloaded_and_one_that_refuses_its_configuration_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let ports = [free_port(), free_port()];
    let routes = [free_port(), free_port()];
    let url = |index: usize| format!("nats://127.0.0.1:{}", ports[index]);
    let scheduler = Process::new(dir.path(), Member::Scheduler, "s1", &url(0));
    let joined = Process::new(dir.path(), Member::Agent, "node-2", &url(1));
    let (accounts, agents) = bus_accounts::config_with_agents_file(std::slice::from_ref(&scheduler.user));
    let homes = [dir.path().join("first"), dir.path().join("second")];
    let mut servers = Vec::new();
    for (index, home) in homes.iter().enumerate() {
        std::fs::create_dir_all(home).unwrap();
        std::fs::write(home.join(AGENTS_FILE), &agents).unwrap();
        let known = routes.map(|port| format!("\"nats://127.0.0.1:{port}\"")).join(", ");
        let cluster = format!(
            "{accounts}\nserver_name: s{index}\ncluster {{ name: c, listen: \"127.0.0.1:{}\", routes: [ {known} ] }}\n",
            routes[index]
        );
        servers.push(NatsServer::start_configured(home, ports[index], Syncing::Always, &cluster).await.unwrap());
    }
    let leader = scheduler.connect().await.unwrap();
    let until = tokio::time::Instant::now() + DEADLINE;
    while reload(&leader).await.unwrap_or(0) < 2 {
        assert!(tokio::time::Instant::now() < until, "the servers know each other");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    homes.iter().for_each(|home| write(home, &agents, std::slice::from_ref(&joined.user)));
    assert_eq!(reload(&leader).await.unwrap(), 2);
    let second = joined.connect().await.unwrap();
    std::fs::write(homes[1].join(AGENTS_FILE), "users: [").unwrap();
    write(&homes[0], &agents, &[]);
    let refused = reload(&leader).await.unwrap_err();
    assert!(refused.to_string().contains("s1"), "{refused}");
    write(&homes[1], &agents, &[]);
    let mut reloaded = BTreeSet::new();
    assert!(leader.reload_servers(&mut reloaded).await.unwrap());
    assert_eq!(reloaded.len(), 2);
    assert!(!leader.reload_servers(&mut reloaded).await.unwrap(), "both have read it");
    reloaded.pop_first();
    assert!(leader.reload_servers(&mut reloaded).await.unwrap(), "a server that was out of reach is reloaded later");
    assert_eq!(reloaded.len(), 2);
    until_disconnected(&second).await;
}
