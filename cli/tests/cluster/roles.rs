//! The role matrix on a whole cluster: every route for every role, with and without a token, for own and foreign objects. What
//! happens is what the tables in `contract::access` say. A later route is checked without a change here.
//!
//! Clients without a token come through a proxy that the apiservers trust, because the user of this test is an admin.

use std::time::{Duration, Instant};

use contract::access::routes::{ROUTES, RouteRight};
use contract::access::{Principal, Right, Role};
use futures_util::future::join_all;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::cluster::{Cluster, demo_group, eventually};
use crate::old_clients::{BEHIND_PROXY, through_proxy};
use crate::requests::{Concerns, Objects, Request, about, dependency, is_allowed};

const OWN: &str = "shop";
const FOREIGN: &str = "bank2";
const SOON: Duration = Duration::from_secs(60);

/// What a client learns from an answer, or must learn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Allowed,
    /// 401
    Unauthenticated,
    /// 403
    Denied,
    /// 404, or a list without the object.
    Hidden,
    /// An error of the server, or too many requests.
    Failed,
}

/// One client: none of the cluster's principals is a client that no binding is for.
struct Sender {
    principal: Option<Principal>,
    /// Its token, or its address behind the proxy.
    token: Option<String>,
    address: String,
}

/// A route, or a change of it that needs a stronger right.
struct Row {
    route: RouteRight,
    /// Replaces the query of the route.
    query: Option<&'static str>,
}

fn rows() -> Vec<Row> {
    let stronger = |path, right, query| Row { route: RouteRight { method: "PATCH", path, right }, query: Some(query) };
    let commands = [
        stronger("/api/podgroups", Right::Deploy, "cmd=operation&optype=none"),
        stronger("/api/podgroups", Right::Deploy, "cmd=replica&num_instances=1"),
        stronger("/api/podgroups", Right::Deploy, "cmd=rollout&action=abort"),
        stronger("/api/podgroups", Right::Release, "cmd=rollout&action=resume"),
    ];
    ROUTES.into_iter().map(|route| Row { route, query: None }).chain(commands).collect()
}

impl Row {
    fn request(&self, objects: &Objects) -> Request {
        let wanted = about(&self.route, objects);
        match self.query {
            None => wanted,
            Some(query) => Request { path: format!("{}?name={}&{query}", self.route.path, objects.group), ..wanted },
        }
    }

    fn expected(&self, sender: &Sender, concerns: Concerns, namespace: &str) -> Answer {
        let (Some(principal), right) = (&sender.principal, self.route.right) else { return Answer::Unauthenticated };
        let is_allowed = match concerns {
            Concerns::Namespace => principal.may(right, Some(namespace)),
            Concerns::Anything => principal.may_somewhere(right),
        };
        // Each new object has a known namespace. Others are hidden from clients that may not read them.
        let is_known = self.route.method == "POST" || principal.may(Right::Read, Some(namespace));
        match is_allowed {
            true => Answer::Allowed,
            false if is_known || !principal.may_somewhere(right) => Answer::Denied,
            false => Answer::Hidden,
        }
    }

    /// Whether an allowed request removes its object.
    fn removes(&self) -> bool {
        self.route.method == "DELETE" && ["/api/podgroups", "/api/depends"].contains(&self.route.path)
    }
}

impl Sender {
    fn name(&self) -> String {
        let principal = self.principal.as_ref().map_or("no binding", |principal| principal.name.as_str());
        format!("{principal} {}", if self.token.is_some() { "with a token" } else { "without a token" })
    }

    async fn send(&self, client: &Client, api: &str, method: &str, wanted: &Request) -> (u16, String) {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = client.request(method, format!("{api}{}", wanted.path));
        request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request.header("X-Forwarded-For", &self.address),
        };
        if let Some(body) = &wanted.body {
            request = request.header("Content-Type", "application/json").body(body.clone());
        }
        let response = request.send().await.expect("the apiserver answers");
        (response.status().as_u16(), response.text().await.expect("a body"))
    }
}

/// The bindings of the clients: each role in one namespace and in all, and one client that reads everything and deploys to one
/// namespace.
fn bindings() -> Vec<Vec<String>> {
    let scopes = |role: Role| [OWN, "*"].map(|scope| vec![format!("{role}@{scope}")]);
    let mixed = vec![format!("{}@*", Role::Viewer), format!("{}@{OWN}", Role::Deployer)];
    Role::ALL.into_iter().flat_map(scopes).chain([mixed]).collect()
}

/// The address behind the proxy of the clients with these bindings.
fn address(index: usize) -> String {
    format!("10.9.0.{}", index + 1)
}

async fn senders(cluster: &Cluster) -> Vec<Sender> {
    let mut senders = vec![Sender { principal: None, token: None, address: "10.8.0.1".to_owned() }];
    for (index, texts) in bindings().into_iter().enumerate() {
        let bindings = texts.iter().map(|text| text.parse().expect("a binding")).collect();
        let principal = Some(Principal { name: texts.join(" and "), bindings });
        let token = Some(cluster.token(&format!("client-{index}"), &texts).await);
        // A command without a token proves one binding only, so the leader does not know what else its client reads.
        if texts.len() == 1 {
            senders.push(Sender { principal: principal.clone(), token: None, address: address(index) });
        }
        senders.push(Sender { principal, token, address: String::new() });
    }
    senders
}

fn objects(namespace: &str, name: &str) -> Objects {
    let group = format!("{namespace}.{name}.web");
    let mut spec = demo_group(&group, u32::from(name == "web"));
    if name == "web" {
        let port = 9_500 + namespace.len();
        spec["Pod"]["Annotation"] = json!({"ports": [{"srcport": port, "dstport": 1}]}).to_string().into();
    }
    Objects { namespace: namespace.to_owned(), group, spec: spec.to_string() }
}

impl Cluster {
    /// A new token with these bindings.
    pub(crate) async fn token(&self, principal: &str, bindings: &[String]) -> String {
        let body = json!({"Principal": principal, "Bindings": bindings});
        let (status, text) = self.call(0, Method::POST, "/api/tokens", Some(&body)).await;
        assert_eq!(status.as_u16(), 201, "{text}");
        let created: Value = serde_json::from_str(&text).expect("JSON");
        created["Token"].as_str().expect("a token").to_owned()
    }

    /// The object of a DELETE exists again.
    async fn repair(&self, path: &str, body: &str) {
        let body: Value = serde_json::from_str(body).expect("JSON");
        let named = format!("{path}?name={}", body["Name"].as_str().expect("a name"));
        eventually(SOON, &named, async || {
            if self.call(0, Method::GET, &named, None).await.0.is_success() {
                return Some(());
            }
            // The name is taken until the removal of its last bearer has ended.
            self.call(0, Method::POST, path, Some(&body)).await;
            None
        })
        .await;
    }

    async fn prepare(&self, namespace: &str) -> Objects {
        let objects = objects(namespace, "web");
        let spec: Value = serde_json::from_str(&objects.spec).expect("JSON");
        self.accepted(Method::POST, "/api/podgroups", Some(&spec)).await;
        self.accepted(
            Method::PUT,
            &format!("/api/policies?namespace={namespace}"),
            Some(&json!({"Level": "baseline"})),
        )
        .await;
        self.repair("/api/depends", &dependency(namespace)).await;
        objects
    }
}

fn judge(row: &Row, concerns: Concerns, objects: &Objects, (status, text): (u16, &str)) -> Answer {
    match status {
        401 => Answer::Unauthenticated,
        403 => Answer::Denied,
        429 | 500.. => Answer::Failed,
        _ if is_allowed((status, text), &row.route, concerns, objects) => Answer::Allowed,
        _ => Answer::Hidden,
    }
}

/// A row for the objects of one namespace; with each client it is a cell.
struct Cells<'a> {
    cluster: &'a Cluster,
    client: &'a Client,
    row: &'a Row,
    objects: &'a Objects,
}

impl Cells<'_> {
    /// What is wrong about a cell.
    async fn cell(&self, sender: &Sender) -> Option<String> {
        let (row, objects) = (self.row, self.objects);
        let wanted = row.request(objects);
        if row.removes() {
            self.cluster.repair(row.route.path, &self.body()).await;
        }
        let (status, text) = sender.send(self.client, self.cluster.api(0), row.route.method, &wanted).await;
        let expected = row.expected(sender, wanted.concerns, &objects.namespace);
        let seen = judge(row, wanted.concerns, objects, (status, &text));
        let what = format!("{} {} by {}", row.route.method, wanted.path, sender.name());
        (seen != expected).then(|| format!("{what}: {seen:?} instead of {expected:?}: {status} {text}"))
    }

    /// The body that creates what a DELETE removes.
    fn body(&self) -> String {
        let is_dependency = self.row.route.path == "/api/depends";
        if is_dependency { dependency(&self.objects.namespace) } else { self.objects.spec.clone() }
    }

    async fn wrong(&self, senders: &[Sender]) -> Vec<String> {
        if !self.row.removes() {
            return join_all(senders.iter().map(|sender| self.cell(sender))).await.into_iter().flatten().collect();
        }
        let mut wrong = Vec::new();
        for sender in senders {
            wrong.extend(self.cell(sender).await);
        }
        wrong
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_of_a_cluster_allows_each_role_exactly_what_the_tables_say() {
    let anonymous: Vec<String> = bindings()
        .into_iter()
        .enumerate()
        .flat_map(|(index, texts)| texts.into_iter().map(move |text| format!("{text} from {}", address(index))))
        .collect();
    let flags: Vec<&str> = anonymous.iter().flat_map(|binding| ["--anonymous", binding.as_str()]).collect();
    let cluster = Cluster::start_with(&BEHIND_PROXY, &flags).await;
    let senders = senders(&cluster).await;
    let mut kept = Vec::new();
    for namespace in [OWN, FOREIGN] {
        kept.push(cluster.prepare(namespace).await);
    }
    for objects in &kept {
        cluster.running(&objects.group, 1, SOON).await;
    }
    let client = through_proxy();
    let (started, rows) = (Instant::now(), rows());
    let (mut count, mut wrong) = (0, Vec::new());
    for row in &rows {
        for kept in &kept {
            // A group without instances is removed at once.
            let removed = objects(&kept.namespace, "gone");
            let objects = if row.removes() { &removed } else { kept };
            let cells = Cells { cluster: &cluster, client: &client, row, objects };
            wrong.extend(cells.wrong(&senders).await);
            count += senders.len();
        }
    }
    println!("{count} cells in {:.1} s, {} wrong", started.elapsed().as_secs_f64(), wrong.len());
    assert!(wrong.is_empty(), "{} of {count} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 800, "{count} cells");
    for kept in &kept {
        cluster.running(&kept.group, 1, SOON).await;
    }
}
