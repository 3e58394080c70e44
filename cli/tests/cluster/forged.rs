//! Orders that no leader signed, sent by an attacker with a scheduler's key for the bus, but without its signing key.

use std::time::Duration;

use bytes::Bytes;
use contract::bus::{Identity, Member};
use contract::subjects;
use devcluster::keys::Keys;
use fabric::nats::{Args, Bus, Message};
use reqwest::Method;
use serde_json::Value;

use crate::cluster::{Cluster, demo_group, eventually};

const GROUP: &str = "forged.web.web";
const WITHIN: Duration = Duration::from_secs(60);

impl Cluster {
    pub(crate) async fn bus(&self, member: Member, name: &str) -> Bus {
        let identity = Identity { member, name: name.parse().expect("a name") };
        let nats = self.state()["nats"].as_str().expect("a URL").to_owned();
        let args = Args { credentials_file: Some(Keys::of(self.folder()).bus(&identity)), ..Args::at(nats) };
        Bus::connect(&args, "attacker").await.expect("connects")
    }

    /// How many orders the agents counted with this result.
    async fn orders(&self, result: &str) -> u64 {
        let client = fabric::http::client(Duration::from_secs(5));
        let mut total = 0;
        for child in self.state()["children"].as_array().expect("children").iter().filter(|c| c["role"] == "agent") {
            let url = format!("http://{}/metrics", child["listen"].as_str().expect("an address"));
            let text = client.get(url).send().await.expect("metrics").text().await.expect("text");
            let wanted = format!("deployd_agent_orders_total{{decision=\"{result}\"}} ");
            total += text.lines().find_map(|line| line.strip_prefix(&wanted)?.parse::<u64>().ok()).unwrap_or(0);
        }
        total
    }
}

/// The orders that the leader sends while `work` runs, as an agent receives them.
async fn overheard(bus: &Bus, node: &str, work: impl Future<Output = ()>) -> Vec<Message> {
    let subject = subjects::order(&node.parse().expect("a name"));
    let mut orders = bus.subscribe(&subject).await.expect("subscribes");
    bus.flush().await.expect("flushes");
    work.await;
    let mut heard = Vec::new();
    while let Ok(Some(message)) = tokio::time::timeout(Duration::from_millis(500), orders.next()).await {
        heard.push(message);
    }
    heard
}

/// Every way to change an order and its signature that an attacker without a key has.
fn forgeries(order: &Message) -> Vec<(Option<String>, Vec<u8>)> {
    let signature = order.header(subjects::SIGNATURE_HEADER).expect("the leader signs").to_owned();
    let payload = order.payload.to_vec();
    let mut all = vec![(None, payload.clone()), (Some(String::new()), payload.clone())];
    // The highest term and no store: what took a node over for ever before orders were signed.
    let mut taken: Value = serde_json::from_slice(&payload).expect("JSON");
    if let Some(order) = taken.as_object_mut().and_then(|kinds| kinds.values_mut().next()) {
        order["fence"] = serde_json::json!({"term": u64::MAX, "generation": 1});
        order["stores"] = serde_json::json!([]);
    }
    all.push((Some(signature.clone()), taken.to_string().into_bytes()));
    all.push((None, taken.to_string().into_bytes()));
    for step in 0..160 {
        let at = step * payload.len() / 160;
        let mut changed = payload.clone();
        changed[at] ^= 1;
        all.push((Some(signature.clone()), changed));
        all.push((Some(signature.clone()), payload[..at].to_vec()));
    }
    for at in 0..signature.len() {
        let mut changed: Vec<char> = signature.chars().collect();
        changed[at] = if changed[at] == 'A' { 'B' } else { 'A' };
        all.push((Some(changed.into_iter().collect()), payload.clone()));
        all.push((Some(signature[..at].to_owned()), payload.clone()));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_forged_replayed_or_truncated_order_is_obeyed() {
    let cluster = Cluster::start(&["--nodes", "2"]).await;
    let (agent, attacker) =
        (cluster.bus(Member::Agent, "node-1").await, cluster.bus(Member::Scheduler, "scheduler-1").await);
    let deployed = async {
        cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group(GROUP, 4))).await;
        cluster.running(GROUP, 4, WITHIN).await;
    };
    let heard = overheard(&agent, "node-1", deployed).await;
    let order = heard.first().expect("the leader sent an order to node-1");
    let before = cluster.exactly(GROUP, 4, WITHIN).await;
    let accepted = cluster.orders("accepted").await;

    let mut forged: Vec<(&str, Option<String>, Vec<u8>)> =
        forgeries(order).into_iter().map(|(signature, payload)| ("node-1", signature, payload)).collect();
    // A real order of one node, played to the other.
    for message in &heard {
        let signature = message.header(subjects::SIGNATURE_HEADER).map(str::to_owned);
        forged.push(("node-2", signature, message.payload.to_vec()));
    }
    assert!(forged.len() >= 500, "{}", forged.len());
    for (node, signature, payload) in &forged {
        let subject = subjects::order(&node.parse().expect("a name"));
        let header = signature.clone().map(|value| (subjects::SIGNATURE_HEADER, value));
        let reply: Result<Value, _> =
            attacker.request_bytes(&subject, Bytes::from(payload.clone()), header, Duration::from_secs(5)).await;
        let reply = reply.expect("the agent answers").to_string();
        assert!(reply.contains("Failed"), "{signature:?}: {reply}");
    }

    let expected = u64::try_from(forged.len()).expect("a count");
    eventually(WITHIN, "every forged order is counted", async || {
        (cluster.orders("rejected").await == expected).then_some(())
    })
    .await;
    assert_eq!(cluster.orders("accepted").await, accepted, "the agents obeyed nothing");
    assert_eq!(cluster.exactly(GROUP, 4, WITHIN).await, before, "the same containers run");
    // A real order is still obeyed: the forged term counts for nothing.
    let path = format!("/api/podgroups?name={GROUP}&cmd=replica&num_instances=2");
    cluster.accepted(Method::PATCH, &path, None).await;
    cluster.exactly(GROUP, 2, WITHIN).await;
}
