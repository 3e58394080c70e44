//! Every route for every role, with and without a token, for own and foreign objects: what happens is what the tables in
//! `contract::access` say. A later route is checked without a change here, or fails because it has no request.

use contract::access::routes::{ROUTES, RouteRight};
use contract::access::{Principal, Role};
use contract::event::{Event, Kind};
use contract::streams::EVENTS;
use contract::subjects;
use reqwest::Client;

use super::{Person, client_at, group, records, request};
use crate::leader::Leader;
use crate::world::{Seen, World, seen};

const OWN: &str = "shop";
const FOREIGN: &str = "bank2";

/// What decides about a request.
#[derive(Clone, Copy, PartialEq)]
enum Concerns {
    /// The namespace of its object.
    Namespace,
    /// Whether the client has the right anywhere.
    Anything,
}
use Concerns::{Anything, Namespace};

/// One request of a route about an object of a namespace.
struct Request {
    path: String,
    body: Option<String>,
    concerns: Concerns,
}

fn name(namespace: &str) -> String {
    format!("locked.{namespace}")
}

fn dependency(namespace: &str) -> String {
    format!(
        r#"{{"Name":"dep-{namespace}","Namespace":"{namespace}","Containers":[{{"Image":"a"}}],"Annotation":"{{}}"}}"#
    )
}

/// The request of a route. `locked...` groups exist and are never removed.
fn about(route: &RouteRight, namespace: &str) -> Request {
    let name = name(namespace);
    let spec = group(namespace, &name);
    let with = |path: &str, query: &str, body: Option<&str>, concerns| Request {
        path: format!("{path}{query}"),
        body: body.map(str::to_owned),
        concerns,
    };
    let named = format!("?name={name}");
    let (query, body, concerns) = match (route.method, route.path) {
        ("GET", "/api/podgroups" | "/api/rollouts" | "/api/revisions") => (named, None, Namespace),
        ("GET", "/api/cntstatushistory") => (format!("{named}&instance=1"), None, Namespace),
        ("POST", "/api/podgroups" | "/api/podgroups/plan") => (String::new(), Some(spec), Namespace),
        ("PATCH", "/api/podgroups") => (format!("{named}&cmd=drained&instance=1"), None, Namespace),
        ("DELETE", "/api/podgroups") => (named, None, Namespace),
        ("GET" | "DELETE", "/api/depends") => (format!("?name=dep-{namespace}"), None, Namespace),
        ("POST" | "PUT", "/api/depends") => (String::new(), Some(dependency(namespace)), Namespace),
        ("GET", "/api/events" | "/api/ports" | "/api/policies") => (String::new(), None, Namespace),
        ("PATCH", "/api/nodes") => (format!("?cmd=drift&from=n1&pg={name}"), None, Namespace),
        ("POST", "/api/ports") => ("?cmd=validate".to_owned(), Some(r#"{"Ports":[7]}"#.to_owned()), Anything),
        ("GET", "/api/operations") => ("?id=none".to_owned(), None, Anything),
        ("DELETE", "/api/nodes") => ("?node=n1".to_owned(), None, Anything),
        ("GET" | "DELETE", "/api/nodes/{name}") => {
            return with("/api/nodes/n1", "", None, Anything);
        }
        ("PATCH", "/api/nodes/{name}") => return with("/api/nodes/n1", "?cmd=uncordon", None, Anything),
        ("PATCH", "/api/status") => (String::new(), Some(r#"{"status":"start"}"#.to_owned()), Anything),
        ("PUT", "/api/policies") => {
            ("?namespace=other".to_owned(), Some(r#"{"Level":"baseline"}"#.to_owned()), Anything)
        }
        ("DELETE", "/api/policies") => ("?namespace=none".to_owned(), None, Anything),
        ("POST" | "DELETE", "/api/notifies") => ("?callback=http://127.0.0.1:1/".to_owned(), None, Anything),
        ("PATCH", "/api/constraints") => ("?type=node&value=n9".to_owned(), None, Anything),
        ("PATCH", "/api/engine/config") => (String::new(), Some("{}".to_owned()), Anything),
        ("POST", "/api/guard") => ("?work=true".to_owned(), None, Anything),
        ("DELETE", "/api/tokens") => ("?id=none".to_owned(), None, Anything),
        ("POST", "/api/tokens") => {
            (String::new(), Some(r#"{"Principal":"new","Bindings":["viewer@none"]}"#.to_owned()), Anything)
        }
        ("DELETE", "/api/jointokens") => ("?id=none".to_owned(), None, Anything),
        ("POST", "/api/jointokens") => (String::new(), Some(r#"{"Names":"rack-*"}"#.to_owned()), Anything),
        ("PATCH", "/api/access") => (String::new(), Some(r#"{"Enforced":true}"#.to_owned()), Anything),
        ("POST", "/api/restore") => (String::new(), Some(r#""Abort""#.to_owned()), Anything),
        (
            "GET",
            "/api/status" | "/api/cluster" | "/api/nodes" | "/api/notifies" | "/api/constraints" | "/api/engine/config"
            | "/api/guard" | "/api/deadletters" | "/debug/vars" | "/metrics" | "/api/backup" | "/api/tokens"
            | "/api/jointokens" | "/api/access" | "/api/audit",
        )
        | ("PATCH", "/api/engine/maintenance")
        | ("DELETE", "/api/constraints" | "/api/restore") => (String::new(), None, Anything),
        other => panic!("no request for the route {other:?}"),
    };
    Request { path: format!("{}{query}", route.path), body, concerns }
}

/// Whether an answer shows that the client was allowed: it is neither a refusal nor the answer about an unknown object.
fn is_allowed(seen: &Seen, route: &RouteRight, concerns: Concerns, namespace: &str) -> bool {
    if [401, 403, 429].contains(&seen.status) {
        return false;
    }
    let lists = ["/api/events", "/api/ports", "/api/policies"];
    match (route.method, route.path) {
        ("GET", path) if lists.contains(&path) => {
            seen.text.contains(&format!("\"{}\"", name(namespace)))
                || seen.text.contains(&format!("\"Namespace\": \"{namespace}\""))
        }
        ("GET", "/api/cntstatushistory") => seen.text.contains("start"),
        _ => concerns == Anything || seen.status != 404,
    }
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
            let wanted = about(route, namespace);
            for sender in &senders {
                let expected = match wanted.concerns {
                    Namespace => sender.principal.may(route.right, Some(namespace)),
                    Anything => sender.principal.may_somewhere(route.right),
                };
                let seen = sender.send(&world, route.method, &wanted).await;
                let allowed = is_allowed(&seen, route, wanted.concerns, namespace);
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
        let wanted = about(route, OWN);
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
