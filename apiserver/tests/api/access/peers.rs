//! Clients without a token: open clusters, bindings by address, and no scheduler that could tell.

use contract::access::token::Proof;
use contract::command::Verb;
use contract::query::{Answer, Query, Reply};
use contract::subjects;
use contract::switches::EngineRecord;
use fabric::nats::Subscription;

use super::{Person, client_at, group, records, request};
use crate::leader::{Leader, Manner};
use crate::world::{Seen, World, eventually, seen};

async fn send(world: &World, host: u8, method: &str, path: &str, body: Option<&str>) -> Seen {
    seen(request(&client_at(5, host), method, world.at(path), body).send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_cluster_asks_for_nothing_and_commands_prove_nothing() {
    let world = World::guarded(&["--anonymous", "viewer from any"]).await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let created = world.post("/api/podgroups", &group("shop", "shop.a")).await;
    assert_eq!(created.status, 202, "bindings restrict nothing while the cluster is open: {}", created.text);
    assert_eq!(world.get("/metrics").await.status, 200);
    let commands = leader.stop().await;
    let credentials = commands[0].credentials.as_ref().unwrap();
    assert_eq!((credentials.proof.as_ref(), commands[0].by.as_str()), (None, "api-1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bindings_of_an_address_add_up_and_a_command_carries_the_one_that_it_needs() {
    let bindings = ["viewer@* from 127.0.5.0/24", "deployer@shop from 127.0.5.1", "deployer@team-* from 127.0.5.1"];
    let flags = bindings.join(";");
    let world = World::guarded(&["--anonymous", &flags]).await;
    let leader = Leader::enforcing(&world.bus, Vec::new(), &bindings).await;
    for namespace in ["shop", "team-a"] {
        let body = group(namespace, &format!("{namespace}.a"));
        let created = send(&world, 1, "POST", "/api/podgroups", Some(&body)).await;
        assert_eq!(created.status, 202, "{}", created.text);
        let path = format!("/api/podgroups?name={namespace}.a&cmd=replica&num_instances=1");
        let scaled = send(&world, 1, "PATCH", &path, None).await;
        assert_eq!(scaled.status, 202, "the namespace of a group that exists is looked up");
    }
    let foreign = send(&world, 1, "POST", "/api/podgroups", Some(&group("bank", "bank.a"))).await;
    assert_eq!(foreign.status, 403, "{}", foreign.text);
    let refused = send(&world, 2, "DELETE", "/api/podgroups?name=shop.a", None).await;
    assert_eq!(refused.status, 403);
    assert!(refused.message().starts_with("anonymous@127.0.5.2 may not deploy /api/podgroups"), "{}", refused.text);
    assert_eq!(send(&world, 2, "GET", "/api/podgroups?name=shop.a", None).await.status, 200);
    let proofs: Vec<(bool, String)> = leader
        .stop()
        .await
        .into_iter()
        .map(|command| {
            let proof = command.credentials.unwrap().proof;
            let Some(Proof::Anonymous(binding)) = proof else { panic!("{proof:?}") };
            (matches!(command.verb, Verb::CreateGroup { .. }), binding.to_string())
        })
        .collect();
    let [shop, team] =
        [bindings[1], bindings[2]].map(|text| text.parse::<contract::access::AnonymousBinding>().unwrap().to_string());
    let expected = [(true, &shop), (false, &shop), (true, &team), (false, &team), (true, &shop)];
    assert_eq!(proofs, expected.map(|(is_create, binding)| (is_create, binding.clone())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_scheduler_only_clients_with_a_binding_are_known() {
    let root = Person::new("root", &["admin"]);
    let world = World::guarded(&["--anonymous", "admin from 127.0.5.1", "--query-deadline", "300ms"]).await;
    for seen in [world.get("/api/status").await, world.read(&root, "/api/status").await] {
        assert!(seen.status == 503 && seen.retry_after, "{}", seen.text);
        assert!(seen.message().contains("cannot check who you are yet"), "{}", seen.text);
    }
    assert_eq!(send(&world, 1, "GET", "/api/status", None).await.status, 200);
    let _leader = Leader::enforcing(&world.bus, records(&[&root]), &[]).await;
    assert_eq!(world.get("/api/status").await.status, 401, "asked again at once");
    assert_eq!(world.read(&root, "/api/status").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_known_client_learns_why_the_apiserver_is_not_ready() {
    let root = Person::new("root", &["admin"]);
    let mut world = World::guarded(&[]).await;
    let _leader = Leader::enforcing(&world.bus, records(&[&root]), &[]).await;
    eventually("ready", async || (world.read(&root, "/readyz").await.status == 200).then_some(())).await;
    assert_eq!(world.read(&root, "/api/status").await.status, 200, "the tokens are read");
    world.nats.kill();
    eventually("not ready", async || (world.get("/readyz").await.status == 503).then_some(())).await;
    assert_eq!(world.get("/readyz").await.text, "not ready\n");
    assert_eq!(world.read(&root, "/readyz").await.text, "no connection to NATS\n");
    assert_eq!(world.read(&root, "/api/status").await.status, 200, "the table is kept");
    assert_eq!(world.get("/api/status").await.status, 401);
}

/// Answers like a scheduler of the version before access control until another query arrives.
async fn answer_as_before(world: &World, mut questions: Subscription) -> Query {
    loop {
        let question = questions.next().await.unwrap();
        match question.decode().unwrap() {
            Query::Engine => {
                let reply = Reply::new(false, Answer::Engine(EngineRecord::default()));
                let reply = Reply { checks_access: false, ..reply };
                world.bus.answer(&question.reply.unwrap(), &reply).await.unwrap();
            }
            other => return other,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_schedulers_know_no_access_control_is_open_and_is_not_asked_about_it() {
    let world = World::guarded(&["--query-deadline", "300ms"]).await;
    let questions = world.bus.subscribe(subjects::QUERY_LEADER).await.unwrap();
    let clients = async {
        assert_eq!(world.get("/api/status").await.status, 200);
        assert_eq!(world.get("/api/access").await.json()["Enforced"], false);
        let root = Person::new("root", &["admin"]);
        let seen = world.read(&root, "/api/status").await;
        assert!(seen.status == 503 && seen.message().contains("upgrade the schedulers"), "{}", seen.text);
        // The last query of this test.
        assert_eq!(world.get("/api/nodes").await.status, 503);
    };
    let (first, ()) = tokio::join!(answer_as_before(&world, questions), clients);
    assert_eq!(first, Query::Nodes, "no query about access came before");
}
