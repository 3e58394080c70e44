//! Random requests: a seed determines the sequence as long as the answers are the same.
//!
//! Most are valid, many are not; they share a few names, so that they conflict. Each request comes with its change, so that the
//! sender can record what was accepted.

use reqwest::Method;
use serde_json::{Value, json};

use super::expected::AcceptedChange;
use crate::cluster::demo_group;

pub(super) const GROUPS: [&str; 4] = ["rnd.a.web", "rnd.b.web", "other.c.web", "rnd.d.web"];
/// The first two groups need the first of these.
pub(super) const DEPENDENCIES: [&str; 2] = ["rnd.portal.one", "rnd.portal.two"];
const NODES: [&str; 4] = ["node-1", "node-2", "node-3", "nowhere"];
const PATHS: [&str; 13] = [
    "/api/podgroups",
    "/api/depends",
    "/api/nodes",
    "/api/engine/config",
    "/api/engine/maintenance",
    "/api/status",
    "/api/constraints",
    "/api/notifies",
    "/api/ports",
    "/api/guard",
    "/api/cntstatushistory",
    "/debug/vars",
    "/api//Nodes/",
];
const METHODS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"];
const ODD_BODIES: [&str; 8] =
    ["", "{", "null", "[]", "{}", "{\"Name\":7}", "\u{0}", "{\"status\":\"sleep\",\"Ports\":[1.5]}"];
const ODD_PARAMETERS: [&str; 10] = [
    "",
    "name=",
    "name=rnd.a.web&cmd=replica&num_instances=-3",
    "name=rnd.a.web&cmd=dance",
    "name=a%2Fb&cmd=operation",
    "type=node",
    "from=node-1&to=node-1&cmd=drift",
    "from=node-1&cmd=drift&pg_instance=0",
    "callback=nowhere",
    "name=rnd.b.web&instance=1",
];

/// A generator of numbers (splitmix64).
#[derive(Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// A number below `sides`.
    pub(super) fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % sides as u64).expect("a small number")
    }
    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// One request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<String>,
    /// What becomes true when it is accepted.
    pub(super) change: Option<AcceptedChange>,
}

impl Request {
    pub(super) fn new(method: &str, path: impl Into<String>) -> Self {
        Self { method: method.parse().expect("a method"), path: path.into(), body: None, change: None }
    }
    #[allow(clippy::needless_pass_by_value, reason = "tables read better without ampersands")]
    pub(super) fn body(mut self, body: impl ToString) -> Self {
        self.body = Some(body.to_string());
        self
    }
    pub(super) fn change(mut self, change: AcceptedChange) -> Self {
        self.change = Some(change);
        self
    }
}

/// The next request.
pub(super) fn next(dice: &mut Dice) -> Request {
    match dice.below(100) {
        0..10 => create(dice),
        10..14 => Request::new("DELETE", format!("/api/podgroups?name={}", dice.one_of(&GROUPS)))
            .named(AcceptedChange::Remove),
        14..28 => replica(dice),
        // Few: a patch is admitted during an upgrade, so with more of them nothing else would ever get the lock.
        28..33 => spec(dice),
        33..60 => operation(dice),
        60..65 => drift(dice),
        65..73 => dependency(dice),
        73..78 => switch(dice),
        78..88 => read(dice),
        _ => nonsense(dice),
    }
}

impl Request {
    /// The change about the group or dependency pod its path names.
    fn named(self, change: impl FnOnce(String) -> AcceptedChange) -> Self {
        let name = self.path.split("name=").nth(1).and_then(|rest| rest.split('&').next()).unwrap_or_default();
        let name = name.to_owned();
        self.change(change(name))
    }
}

fn memory(dice: &mut Dice) -> i64 {
    dice.one_of(&[8 << 20, 12 << 20, 16 << 20])
}

fn group(name: &str, count: u32, memory: i64) -> Value {
    let mut group = demo_group(name, count);
    group["Pod"]["Containers"][0]["MemoryLimit"] = memory.into();
    if GROUPS[..2].contains(&name) {
        group["Pod"]["Dependencies"] = json!([{"PodName": DEPENDENCIES[0], "Policy": 0}]);
    }
    group
}

fn create(dice: &mut Dice) -> Request {
    let (name, count, memory) = (dice.one_of(&GROUPS), dice.one_of(&[0, 1, 1, 2, 3]), memory(dice));
    let change = AcceptedChange::Create { name: name.to_owned(), count, memory };
    Request::new("POST", "/api/podgroups").body(group(name, count, memory)).change(change)
}

fn replica(dice: &mut Dice) -> Request {
    let count = dice.one_of(&[0, 1, 2, 2, 3]);
    let policy = dice.one_of(&["", "&restart_policy=always", "&restart_policy=onfail"]);
    let name = dice.one_of(&GROUPS);
    Request::new("PATCH", format!("/api/podgroups?name={name}&cmd=replica&num_instances={count}{policy}"))
        .named(|name| AcceptedChange::Scale { name, count })
}

fn spec(dice: &mut Dice) -> Request {
    let name = dice.one_of(&GROUPS);
    let memory = if dice.below(4) == 0 { 0 } else { memory(dice) };
    Request::new("PATCH", format!("/api/podgroups?cmd=spec&name={name}"))
        .body(&group(name, 0, memory)["Pod"])
        .named(|name| AcceptedChange::Upgrade { name, memory })
}

fn operation(dice: &mut Dice) -> Request {
    let (act, instance) =
        (dice.one_of(&["start", "stop", "stop", "restart", "noop"]), dice.one_of(&[0, 1, 1, 2, 3, 7]));
    let name = dice.one_of(&GROUPS);
    let path = format!("/api/podgroups?cmd=operation&name={name}&optype={act}&instance={instance}");
    let stopped = match act {
        "start" | "restart" => Some(false),
        "stop" => Some(true),
        _ => None,
    };
    Request::new("PATCH", path).named(|name| AcceptedChange::Target { name, instance, stopped })
}

fn drift(dice: &mut Dice) -> Request {
    let from = dice.one_of(&NODES);
    if dice.below(5) == 0 {
        return Request::new("DELETE", format!("/api/nodes?node={from}"));
    }
    let more = match dice.below(4) {
        0 => String::new(),
        1 => format!("&pg={}", dice.one_of(&GROUPS)),
        2 => format!("&pg={}&pg_instance={}", dice.one_of(&GROUPS), dice.one_of(&[1, 2, 5, 0])),
        _ => format!("&pg={}&force=true&to={}", dice.one_of(&GROUPS), dice.one_of(&NODES)),
    };
    Request::new("PATCH", format!("/api/nodes?cmd=drift&from={from}{more}"))
}

fn dependency(dice: &mut Dice) -> Request {
    let (name, memory) = (dice.one_of(&DEPENDENCIES), memory(dice));
    let pod = || group(name, 0, memory)["Pod"].take();
    let wanted = |name: &str| AcceptedChange::CreateDependency { name: name.to_owned(), memory };
    match dice.below(6) {
        0..3 => Request::new("POST", "/api/depends").body(pod()).change(wanted(name)),
        3 => Request::new("PUT", "/api/depends").body(pod()).change(wanted(name)),
        4 => Request::new("DELETE", format!("/api/depends?name={name}")).named(AcceptedChange::RemoveUnusedDependency),
        _ => Request::new("DELETE", format!("/api/depends?name={name}&force=true"))
            .named(AcceptedChange::RemoveDependency),
    }
}

fn switch(dice: &mut Dice) -> Request {
    let on = dice.below(3) == 0;
    match dice.below(6) {
        0 => Request::new("PATCH", "/api/status").body(json!({"status": if on { "stop" } else { "start" }})),
        1 => Request::new("PATCH", "/api/engine/config").body(json!({"readonly": on})),
        2 => Request::new("PATCH", format!("/api/engine/maintenance?on={on}")),
        3 => Request::new("POST", format!("/api/guard?work={}", !on)),
        4 => Request::new("PATCH", format!("/api/constraints?type=node&value={}&soft={}", dice.one_of(&NODES), !on)),
        _ => Request::new("DELETE", "/api/constraints"),
    }
}

/// Puts the switches back; sent often enough that the cluster works most of the time.
pub(super) fn relief() -> [Request; 5] {
    [
        Request::new("PATCH", "/api/engine/config").body(json!({"readonly": false, "maintenance": false})),
        Request::new("PATCH", "/api/status").body(json!({"status": "start"})),
        Request::new("POST", "/api/guard?work=true"),
        Request::new("PATCH", "/api/constraints?type=node&value=nowhere"),
        Request::new("DELETE", "/api/constraints"),
    ]
}

fn read(dice: &mut Dice) -> Request {
    let group = dice.one_of(&GROUPS);
    let dependency = dice.one_of(&DEPENDENCIES);
    let path = match dice.below(8) {
        0..3 => format!("/api/podgroups?name={group}"),
        3 => format!("/api/podgroups?name={group}&force_update=true"),
        4 => format!("/api/depends?name={dependency}"),
        5 => format!("/api/cntstatushistory?name={group}&instance=1"),
        6 => "/api/nodes".to_owned(),
        _ => dice.one_of(&["/api/status", "/api/ports", "/api/guard", "/api/notifies", "/debug/vars"]).to_owned(),
    };
    Request::new("GET", path)
}

/// Any method on any path with any parameters and any body that cannot be meant.
fn nonsense(dice: &mut Dice) -> Request {
    let (path, parameters) = (dice.one_of(&PATHS), dice.one_of(&ODD_PARAMETERS));
    let method = dice.one_of(&METHODS);
    // These make sense without parameters or body.
    let meant = matches!((method, path), ("POST", "/api/guard") | ("PATCH", "/api/engine/maintenance"))
        || (method == "DELETE" && path == "/api/constraints");
    let method = if meant { "GET" } else { method };
    Request::new(method, format!("{path}?{parameters}")).body(dice.one_of(&ODD_BODIES))
}
