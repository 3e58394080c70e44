//! A service whose database is away for a while: it crash-loops meanwhile and runs soon after the database is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::cluster::{Cluster, demo_group, eventually};

const SOON: Duration = Duration::from_secs(30);
const OUTAGE: Duration = Duration::from_secs(20);
/// The service is up within this time after the return of the database.
const RETURN: Duration = Duration::from_secs(30);
const GROUP: &str = "outage.web.web";

/// Accepts connections and keeps them open until it is stopped.
struct Database {
    tasks: JoinSet<()>,
    port: u16,
    clients: Arc<AtomicUsize>,
}

impl Database {
    /// Port 0 takes a free one.
    async fn start(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port of the database");
        let port = listener.local_addr().expect("an address").port();
        let clients = Arc::new(AtomicUsize::new(0));
        let connected = Arc::clone(&clients);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let connected = Arc::clone(&connected);
                connected.fetch_add(1, Ordering::Relaxed);
                connections.spawn(async move {
                    // The demo sends nothing: this returns when it disconnects.
                    drop(client.read(&mut [0]).await);
                    connected.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self { tasks, port, clients }
    }

    fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Closes every connection and the port.
    async fn stop(mut self) -> u16 {
        self.tasks.shutdown().await;
        self.port
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_up_within_thirty_seconds_after_its_database_was_away_for_twenty() {
    let cluster = Cluster::start(&["--nodes", "1"]).await;
    let database = Database::start(0).await;
    let mut group = demo_group(GROUP, 1);
    // The database listens on the loopback address of the machine, which only trusted namespaces may reach.
    let namespace = group["Namespace"].as_str().expect("a namespace").to_owned();
    let policy = format!("/api/policies?namespace={namespace}");
    cluster.accepted(Method::PUT, &policy, Some(&json!({"Level": "trusted"}))).await;
    group["Pod"]["Network"] = json!("host");
    group["Pod"]["Containers"][0]["Env"] = json!([format!("DEMO_DATABASE=127.0.0.1:{}", database.port), "PORT=0"]);
    cluster.accepted(Method::POST, "/api/podgroups", Some(&group)).await;
    cluster.running(GROUP, 1, SOON).await;
    let before = cluster.exactly(GROUP, 1, SOON).await;
    assert_eq!(database.clients(), 1);

    let away = Instant::now();
    let port = database.stop().await;
    let exit = eventually(SOON, "the immediate restarts are used up", async || {
        cluster.group(0, GROUP).await?.pods[0].exit.clone().filter(|exit| exit.restarts > 3)
    })
    .await;
    assert_eq!(exit.code, 1);
    assert!(exit.last_line.contains("no database at"), "{exit:?}");
    tokio::time::sleep_until((away + OUTAGE).into()).await;
    assert_ne!(cluster.group(0, GROUP).await.expect("the group").pods[0].exit, None, "it is down without its database");

    let back = Instant::now();
    let database = Database::start(port).await;
    eventually(RETURN, "it is up after the return of the database", async || {
        let group = cluster.group(0, GROUP).await?;
        let is_up = group.pods[0].exit.is_none() && group.pods[0].state == contract::state::RunState::Success;
        (is_up && database.clients() == 1).then_some(())
    })
    .await;
    println!("up {:?} after the return of the database", back.elapsed());
    assert_eq!(cluster.exactly(GROUP, 1, SOON).await, before, "the same container");
}
