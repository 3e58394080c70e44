//! Every route for every role, with and without a token, for own and foreign objects: what happens is what the tables in
//! `contract::access` say. A later route is checked without a change here, or fails because it has no request.

use contract::access::routes::ROUTES;
use contract::access::{Principal, Role};
use contract::event::{Event, Kind};
use contract::streams::EVENTS;
use contract::subjects;
use reqwest::Client;

use super::requests::{Concerns, Objects, Request, about, dependency, is_allowed};
use super::{Person, client_at, group, records, request};
use crate::leader::Leader;
use crate::world::{Seen, World, seen};

const OWN: &str = "shop";
const FOREIGN: &str = "bank2";

/// `locked...` groups exist and are never removed.
fn name(namespace: &str) -> String {
    format!("locked.{namespace}")
}

fn objects(namespace: &str) -> Objects {
    let name = name(namespace);
    Objects { namespace: namespace.to_owned(), spec: group(namespace, &name), group: name }
}

/// One client: its principal, and how it sends requests.
struct Sender {
    principal: Principal,
    client: Client,
    header: Option<String>,
}

impl Sender {
    async fn send(&self, world: &World, method: &str, wanted: &Request) -> Seen {
        let mut request = request(&self.client, method, world.at(&wanted.path), wanted.body.as_deref());
        if let Some(header) = &self.header {
            request = request.header("Authorization", header);
        }
        seen(request.send().await.unwrap()).await
    }
}

/// A client with and one without a token for each role, in one namespace and in all.
fn senders() -> (Vec<Sender>, Vec<Person>, Vec<String>) {
    let (mut senders, mut people, mut anonymous) = (Vec::new(), Vec::new(), Vec::new());
    for (host, (role, scope)) in (10..).zip(Role::ALL.into_iter().flat_map(|role| [(role, OWN), (role, "*")])) {
        let binding = format!("{role}@{scope}");
        let person = Person::new(&format!("{scope}-{role}"), &[&binding]);
        let (principal, header) = (person.principal(), Some(person.header()));
        senders.push(Sender { principal: principal.clone(), client: client_at(7, host), header });
        senders.push(Sender { principal, client: client_at(8, host), header: None });
        anonymous.push(format!("{binding} from 127.0.8.{host}"));
        people.push(person);
    }
    (senders, people, anonymous)
}

async fn prepare(world: &World, admin: &Person) {
    world.bus.ensure_stream(&(&EVENTS).into()).await.unwrap();
    for namespace in [OWN, FOREIGN] {
        world.create(admin, namespace, &name(namespace)).await;
        let policy = format!("/api/policies?namespace={namespace}");
        assert_eq!(world.send(admin, "PUT", &policy, Some(r#"{"Level":"baseline"}"#)).await.status, 202);
        repair(world, admin, namespace).await;
        let event = Event {
            at: contract::time::Timestamp::from_millis(1_700_000_000_000),
            kind: Kind::Placed,
            group: name(namespace).parse().ok(),
            instance: 1,
            node: None,
            message: "placed".to_owned(),
            namespace: None,
            reasons: std::collections::BTreeMap::new(),
        };
        let deadline = std::time::Duration::from_secs(5);
        world.bus.publish_durable(subjects::EVENTS, namespace, &[], &event, deadline).await.unwrap();
    }
}

/// The dependency pod exists again.
async fn repair(world: &World, admin: &Person, namespace: &str) {
    let seen = world.send(admin, "POST", "/api/depends", Some(&dependency(namespace))).await;
    assert!([202, 405].contains(&seen.status), "{}", seen.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_allows_exactly_what_the_tables_say() {
    let (senders, people, anonymous) = senders();
    let flags: Vec<&str> = anonymous.iter().flat_map(|binding| ["--anonymous", binding]).collect();
    let world = World::guarded(&[&flags[..], &["--inspect-deadline", "1ms"]].concat()).await;
    let root = Person::new("root", &["admin"]);
    let tokens = records(&people.iter().chain([&root]).collect::<Vec<_>>());
    let bindings: Vec<&str> = anonymous.iter().map(String::as_str).collect();
    let _leader = Leader::enforcing(&world.bus, tokens, &bindings).await;
    prepare(&world, &root).await;
    let (mut cells, mut wrong) = (0, Vec::new());
    for route in &ROUTES {
        for namespace in [OWN, FOREIGN] {
            let objects = objects(namespace);
            let wanted = about(route, &objects);
            for sender in &senders {
                let expected = match wanted.concerns {
                    Concerns::Namespace => sender.principal.may(route.right, Some(namespace)),
                    Concerns::Anything => sender.principal.may_somewhere(route.right),
                };
                let seen = sender.send(&world, route.method, &wanted).await;
                let allowed = is_allowed((seen.status, &seen.text), route, wanted.concerns, &objects);
                if allowed != expected || seen.status >= 500 {
                    let who = (&sender.principal.name, sender.header.is_some());
                    wrong.push(format!("{} {} {who:?}: {} {}", route.method, wanted.path, seen.status, seen.text));
                }
                cells += 1;
                if (route.method, route.path, allowed) == ("DELETE", "/api/depends", true) {
                    repair(&world, &root, namespace).await;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {cells} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cells >= 800, "{cells}");
    println!("{cells} cells");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_route_answers_a_client_that_is_not_known_and_the_health_endpoints_always_answer() {
    let world = World::guarded(&[]).await;
    let _leader = Leader::enforcing(&world.bus, Vec::new(), &[]).await;
    for route in &ROUTES {
        let wanted = about(route, &objects(OWN));
        let seen = seen(
            request(&world.client, route.method, world.at(&wanted.path), wanted.body.as_deref()).send().await.unwrap(),
        )
        .await;
        assert_eq!(seen.status, 401, "{} {}: {}", route.method, wanted.path, seen.text);
        assert!(seen.message().contains("deployctl login"), "{}", seen.text);
    }
    for (method, path, status) in [
        ("OPTIONS", "/api/podgroups", 401),
        ("HEAD", "/api/podgroups", 401),
        ("TRACE", "/api/podgroups", 401),
        ("GET", "/api/podgroups/", 401),
        ("GET", "/api/unknown", 404),
        ("GET", "/healthz", 200),
    ] {
        assert_eq!(world.call(method, path, None).await.status, status, "{method} {path}");
    }
    let ready = async || (world.get("/readyz").await.status == 200).then_some(());
    crate::world::eventually("ready", ready).await;
}
