//! 50,000 generated HTTP requests against real processes: no answer is an error of the server, and no process panics.
//!
//! The requests are a function of the seed. Groups among them have no node that fits, so that no container is started.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use contract::access::routes::ROUTES;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::random::Random;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::cluster::{Cluster, demo_group};

const REQUESTS: u64 = 50_000;
const TASKS: u64 = 8;
/// Another one: `GENERATED_SEED=7`.
const SEED: u64 = 18;
/// An answer that takes longer is a failure: clients give up after 10 s.
const SLOWEST: Duration = Duration::from_secs(10);
/// The original's text and status for a name whose group is being removed.
const REMOVING: &str = "PodGroup is removing, need to wait for that";

/// Values that parsers trip over.
const HOSTILE: [&str; 34] = [
    "",
    "0",
    "-1",
    "1",
    "2",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e309",
    "NaN",
    "0x10",
    "true",
    "false",
    "null",
    "*",
    "..",
    "../../etc/passwd",
    "a/b",
    "%00",
    "%ff%fe",
    "%E4%BD%A0",
    "%",
    "%zz",
    "+",
    "a..b",
    "generated.web.1",
    "generated.web.2",
    "node-1",
    "node-9",
    "spec",
    "start",
    "http://127.0.0.1:1/",
    "\u{feff}\u{202e}",
];
const PARAMETERS: [&str; 30] = [
    "name",
    "cmd",
    "num_instances",
    "instance",
    "optype",
    "from",
    "to",
    "pg",
    "pg_instance",
    "force",
    "force_update",
    "all",
    "namespace",
    "after",
    "limit",
    "mode",
    "strict",
    "action",
    "release",
    "group",
    "revision",
    "gate",
    "value",
    "type",
    "equal",
    "callback",
    "id",
    "kind",
    "since",
    "cause",
];
/// Each command of a PATCH, with the parameters that make it complete.
const COMMANDS: [&str; 18] = [
    "cmd=replica&num_instances=3",
    "cmd=replica&num_instances=0&restart_policy=onfail",
    "cmd=operation&optype=stop&instance=1",
    "cmd=operation&optype=start",
    "cmd=operation&optype=restart&instance=4294967295",
    "cmd=spec",
    "cmd=strategy",
    "cmd=gate&instance=1&gate=g&value=true&version=0",
    "cmd=drained&instance=1",
    "cmd=rollout&action=pause",
    "cmd=rollout&action=abort&release=0",
    "cmd=rollout&action=undo&revision=0",
    "cmd=rollout&action=confirm&group=1",
    "cmd=drift&from=node-1&pg=generated.web.1&pg_instance=1&to=node-9",
    "cmd=cordon&why=generated",
    "cmd=drain&force=true",
    "cmd=label",
    "cmd=approve",
];
const METHODS: [&str; 12] =
    ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "get", "G", "M-SEARCH"];
const TYPES: [&str; 8] = [
    "application/json",
    "application/json; charset=utf-8",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=b",
    "multipart/form-data",
    "nonsense",
    "application/octet-stream",
];

/// A request as the bytes of one HTTP/1.1 message.
struct Generated {
    /// What a failure message shows.
    line: String,
    bytes: Vec<u8>,
}

struct Generator {
    random: Random,
    host: String,
}

impl Generator {
    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        self.random.pick(items).copied().unwrap_or_default()
    }

    fn request(&mut self) -> Generated {
        let (method, path) = self.route();
        let query = self.query();
        let target = if query.is_empty() { path } else { format!("{path}?{query}") };
        let body = if self.random.chance(60) { self.body() } else { Vec::new() };
        let line = format!("{method} {target}");
        let mut bytes = format!("{line} HTTP/1.1\r\nHost: {}\r\n", self.host).into_bytes();
        bytes.extend(self.headers());
        bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
        bytes.extend(&body);
        Generated { line: format!("{line} {:?}", String::from_utf8_lossy(&body[..body.len().min(200)])), bytes }
    }

    /// Usually a route of the API, sometimes with another method or another path.
    fn route(&mut self) -> (String, String) {
        let route = ROUTES[self.random.index(ROUTES.len())];
        let path = route.path.replace("{name}", "node-9");
        let method = if self.random.chance(85) { route.method } else { self.pick(&METHODS) };
        let path = match self.random.below(40) {
            0 => format!("{path}/"),
            1 => path.to_uppercase(),
            2 => format!("/{path}/./..//{path}"),
            3 => format!("{path}/{}", self.pick(&HOSTILE)),
            4 => format!("{path}/{}", "x".repeat(3_000)),
            5 => format!("/api/nodes/{}", "%2e".repeat(1 + self.random.index(300))),
            _ => path,
        };
        (method.to_owned(), ascii(&path))
    }

    fn query(&mut self) -> String {
        let mut parts = Vec::new();
        if self.random.chance(50) {
            parts.push(format!("name=generated.web.{}", self.random.below(12)));
        }
        if self.random.chance(40) {
            parts.push(self.pick(&COMMANDS).to_owned());
        }
        for _ in 0..self.random.below(4) {
            let value = if self.random.chance(3) { "y".repeat(2_000) } else { self.pick(&HOSTILE).to_owned() };
            parts.push(format!("{}={value}", self.pick(&PARAMETERS)));
        }
        let parts = self.random.shuffled(parts);
        ascii(&parts.join("&"))
    }

    fn headers(&mut self) -> Vec<u8> {
        let mut headers = Vec::new();
        if self.random.chance(90) {
            headers.extend(format!("Content-Type: {}\r\n", self.pick(&TYPES)).bytes());
        }
        match self.random.below(30) {
            0 => headers.extend(b"Idempotency-Key: \xff\xfe\r\n"),
            1 => headers.extend(format!("Idempotency-Key: key-{}\r\n", self.random.below(50)).bytes()),
            2 => headers.extend(format!("X-Deployd-User: {}\r\n", "u".repeat(self.random.index(300))).bytes()),
            3 => headers.extend(b"X-Deployd-User: na\xefve\r\n"),
            4 => headers.extend(b"Accept: text/event-stream, */*;q=nonsense\r\nLast-Event-ID: -1\r\n"),
            5 => headers.extend(b"Range: bytes=0-1\r\nIf-None-Match: *\r\n"),
            6 => headers.extend(format!("X-Long: {}\r\n", "z".repeat(5_000)).bytes()),
            _ => {}
        }
        headers
    }

    fn body(&mut self) -> Vec<u8> {
        match self.random.below(20) {
            0 => Vec::new(),
            1 => b"\xff\xfe\x00{".to_vec(),
            2 => "[".repeat(1 + self.random.index(5_000)).into_bytes(),
            3 => format!("{}{}", r#"{"Pod":"#.repeat(200), "}".repeat(200)).into_bytes(),
            4 => format!("{{\"Name\":\"{}\"}}", "n".repeat(self.random.index(20_000))).into_bytes(),
            5 => self.pick(&HOSTILE).as_bytes().to_vec(),
            6 => format!("--b\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n1\r\n--b", self.pick(&PARAMETERS))
                .into_bytes(),
            7 => format!("{}={}", self.pick(&PARAMETERS), self.pick(&HOSTILE)).into_bytes(),
            8 => br#"{"status":"start"}"#.to_vec(),
            9 => br#"{"Ports":[-1,70000,1.5,"x",9500]}"#.to_vec(),
            10 => br#"{"Level":"baseline","MaxGroups":18446744073709551615}"#.to_vec(),
            11 => br#"{"Principal":"g","Bindings":["viewer@g"],"ValidSeconds":0}"#.to_vec(),
            12 => br#"{"Type":"Batch","BatchSize":-1,"MaxSurge":"999999999999%"}"#.to_vec(),
            13 => br#"{"Stage":{"id":"x","part":4294967295,"text":""}}"#.to_vec(),
            14 => self.changed(json!({"rack": "3", "old": null})).to_string().into_bytes(),
            15 | 16 => self.cut(),
            _ => self.spec().to_string().into_bytes(),
        }
    }

    /// JSON that ends too early or has a wrong byte.
    fn cut(&mut self) -> Vec<u8> {
        let mut text = self.spec().to_string().into_bytes();
        let at = self.random.index(text.len());
        match self.random.chance(50) {
            true => text.truncate(at),
            false => text[at] = u8::try_from(self.random.below(256)).unwrap_or(0),
        }
        text
    }

    /// A group, or a pod, with up to three members of wrong kinds or values.
    fn spec(&mut self) -> Value {
        let instances = self.random.pick(&[0, 1, 2, 5, 40, 200]).copied().unwrap_or_default();
        let mut group = demo_group(&format!("generated.web.{}", self.random.below(12)), instances);
        for _ in 0..self.random.below(5) {
            let (pointer, value) = self.member();
            let (parent, name) = pointer.rsplit_once('/').unwrap_or_default();
            if let Some(parent) = group.pointer_mut(parent).and_then(Value::as_object_mut) {
                parent.insert(name.to_owned(), value);
            }
        }
        for _ in 0..self.random.below(4) {
            group = self.changed(group);
        }
        // No change may make a group that has a node.
        if let Some(pod) = group.pointer_mut("/Pod").and_then(Value::as_object_mut) {
            pod.insert("Filters".to_owned(), json!(["constraint:group==nowhere"]));
        }
        let is_pod = self.random.chance(30);
        group.pointer_mut("/Pod").filter(|_| is_pod).map(Value::take).unwrap_or(group)
    }

    /// A member that makes the leader decide otherwise.
    fn member(&mut self) -> (&'static str, Value) {
        let number = self.random.pick(&[0, 1, 5, 60, 300, 86_400, i64::from(i32::MAX)]).copied().unwrap_or_default();
        match self.random.below(16) {
            0 => ("/Strategy", json!({"Type": "Beta", "BatchSize": 2, "NeedWaitingForConfirm": true})),
            1 => ("/Strategy", json!({"Type": "Batch", "BatchSize": number})),
            2 => ("/Strategy", json!({"Type": "RollingUpdate", "MaxSurge": number, "MaxUnavailable": "30%"})),
            3 => ("/Strategy", json!({"Type": "Recreate"})),
            4 => ("/Topology", json!({"UnitType": "Cell", "UnitLabel": "unit", "Values": ["cell-a", "cell-b"]})),
            5 => ("/MinReadySeconds", json!(number)),
            6 => ("/FailureAction", json!("Rollback")),
            7 => ("/ReadinessGates", json!(["g"])),
            8 => ("/RestartPolicy", json!(number)),
            9 => ("/Pod/SetupTime", json!(number)),
            10 => ("/Pod/KillTimeout", json!(number)),
            11 => ("/Pod/Stateful", json!(true)),
            12 => ("/Pod/HealthConfig", json!({"cmd": "x", "options": {"interval": number, "retries": number}})),
            13 => ("/Pod/Dependencies", json!([{"PodName": "generated.web.3", "Policy": number}])),
            14 => ("/Pod/Annotation", json!(json!({"ports": [{"srcport": number, "dstport": 1}]}).to_string())),
            _ => ("/Pod/Network", json!("none")),
        }
    }

    /// With one member, at any depth, replaced, removed or added.
    fn changed(&mut self, mut value: Value) -> Value {
        let mut at = &mut value;
        loop {
            let length = match at {
                Value::Object(members) => members.len(),
                Value::Array(items) => items.len(),
                _ => 0,
            };
            let stops = length == 0 || self.random.chance(25);
            if stops {
                break;
            }
            let index = self.random.index(length);
            at = match at {
                Value::Object(members) => members.values_mut().nth(index).expect("a member of its index"),
                Value::Array(items) => &mut items[index],
                _ => break,
            };
        }
        *at = self.value();
        value
    }

    fn value(&mut self) -> Value {
        match self.random.below(12) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(i64::MAX),
            3 => json!(i64::MIN),
            4 => json!(u64::MAX),
            5 => json!(1.5e300),
            6 => json!([]),
            7 => json!({}),
            8 => json!([[[[null]]]]),
            9 => json!("x".repeat(self.random.index(5_000))),
            10 => json!({"ports": [{"srcport": 70_000}], "Type": "Beta", "Units": ["a", "a"], "cmd": "\u{0}"}),
            _ => json!(self.pick(&HOSTILE)),
        }
    }
}

fn seed() -> u64 {
    std::env::var("GENERATED_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(SEED)
}

/// What may stand in the first line of a request.
fn ascii(text: &str) -> String {
    text.chars().filter(|letter| letter.is_ascii_graphic()).collect()
}

/// What one task saw.
#[derive(Default)]
struct Seen {
    statuses: BTreeMap<u16, u64>,
    failures: Vec<String>,
    slowest: Duration,
}

/// A connection that is kept while the server keeps it.
struct Connection {
    address: String,
    stream: Option<BufReader<TcpStream>>,
}

/// The head of an answer, and its body.
struct Answer {
    status: u16,
    body: String,
    keeps_connection: bool,
}

impl Connection {
    /// Sends a request, once more on a new connection when the server has closed this one since its last answer.
    async fn send(&mut self, request: &Generated) -> std::io::Result<Answer> {
        if let Some(stream) = self.stream.take()
            && let Ok(answer) = self.exchange(stream, request).await
        {
            return Ok(answer);
        }
        let stream = BufReader::new(TcpStream::connect(&self.address).await?);
        self.exchange(stream, request).await
    }

    async fn exchange(&mut self, mut stream: BufReader<TcpStream>, request: &Generated) -> std::io::Result<Answer> {
        stream.get_mut().write_all(&request.bytes).await?;
        let answer = read_answer(&mut stream, !request.line.starts_with("HEAD ")).await?;
        self.stream = Some(stream).filter(|_| answer.keeps_connection);
        Ok(answer)
    }
}

async fn read_answer(stream: &mut BufReader<TcpStream>, has_body: bool) -> std::io::Result<Answer> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_until(b'\n', &mut head).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    let head = String::from_utf8_lossy(&head);
    let header = |name: &str| {
        let mut headers = head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_ascii_lowercase())
    };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let length = header("content-length").and_then(|length| length.parse::<usize>().ok());
    // An answer of unknown length ends with the connection, which is not used again.
    let mut body = vec![0; length.filter(|_| has_body).unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    let is_closed = header("connection").is_some_and(|value| value == "close");
    let keeps_connection = !is_closed && (length.is_some() || !has_body);
    Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned(), keeps_connection })
}

/// Sends the requests of one task, one after the other.
async fn send_all(address: String, part: u64) -> Seen {
    let mut generator = Generator { random: Random::new(seed()).fork(part), host: address.clone() };
    let (mut seen, mut connection) = (Seen::default(), Connection { address, stream: None });
    for _ in 0..REQUESTS / TASKS {
        let request = generator.request();
        let started = Instant::now();
        let answer = tokio::time::timeout(SLOWEST, connection.send(&request)).await;
        seen.slowest = seen.slowest.max(started.elapsed());
        let failure = match answer {
            Ok(Ok(answer)) => {
                *seen.statuses.entry(answer.status).or_default() += 1;
                let is_removing = answer.body.contains(REMOVING);
                (answer.status >= 500 && !is_removing).then(|| format!("{} {}", answer.status, answer.body))
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {SLOWEST:?}")),
        };
        seen.failures.extend(failure.map(|failure| format!("{failure}: {}", request.line)));
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_thousand_generated_requests_cause_no_error_of_the_server_and_no_panic() {
    let cluster = Cluster::start(&["--nodes", "1"]).await;
    let address = cluster.api(0).strip_prefix("http://").expect("a URL").to_owned();
    let before = cluster.processes();
    let (started, mut tasks) = (Instant::now(), JoinSet::new());
    for part in 0..TASKS {
        tasks.spawn(send_all(address.clone(), part));
    }
    let (mut statuses, mut failures, mut slowest) = (BTreeMap::<u16, u64>::new(), Vec::new(), Duration::ZERO);
    while let Some(seen) = tasks.join_next().await {
        let seen = seen.expect("the task ends");
        seen.statuses.into_iter().for_each(|(status, count)| *statuses.entry(status).or_default() += count);
        failures.extend(seen.failures);
        slowest = slowest.max(seen.slowest);
    }
    let took = started.elapsed();
    println!("seed {}: {REQUESTS} requests in {took:.1?}, slowest {slowest:.1?}, by status: {statuses:?}", seed());
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures[..failures.len().min(40)].join("\n"));
    assert_eq!(statuses.values().sum::<u64>(), REQUESTS);
    let count = |status| statuses.get(&status).copied().unwrap_or_default();
    assert!(count(200) > 1_000 && count(202) > 100, "too few requests reach a handler: {statuses:?}");
    assert_eq!(count(401) + count(429), 0, "{statuses:?}");
    for (path, log) in cluster.logs() {
        let panics: Vec<&str> = log.lines().filter(|line| line.contains("panicked")).collect();
        assert!(panics.is_empty(), "{path}:\n{}", panics.join("\n"));
    }
    assert_eq!(cluster.processes(), before, "no process was restarted");
    let (status, text) = cluster.call(0, Method::GET, "/api/cluster", None).await;
    assert!(status.is_success(), "{text}");
}
