//! Callbacks on internal addresses, in every notation: listeners on this machine count connections, and none may arrive.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use contract::notice::Notice;
use notifier::resolve::SystemResolver;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::receiver::{Manner, Receiver};
use crate::world::{World, eventually, notice};

/// Accepts, counts and closes connections.
struct Trap {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Trap {
    fn everywhere() -> Self {
        let first = TcpListener::bind("0.0.0.0:0").unwrap();
        let mut trap = Self::on(first);
        // A machine without IPv6 has only the first listener.
        if let Ok(second) = TcpListener::bind(("::1", trap.port)) {
            trap.listen(second);
        }
        trap
    }

    fn on(listener: TcpListener) -> Self {
        let port = listener.local_addr().unwrap().port();
        let mut trap = Self { port, connections: Arc::default() };
        trap.listen(listener);
        trap
    }

    fn listen(&mut self, listener: TcpListener) {
        let connections = self.connections.clone();
        std::thread::spawn(move || {
            for _ in listener.incoming() {
                connections.fetch_add(1, Ordering::SeqCst);
            }
        });
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// The ways to write one IPv4 address that `inet_aton`, browsers or IPv6 sockets accept.
fn notations(address: Ipv4Addr) -> Vec<String> {
    let ([a, b, c, d], number) = (address.octets(), u32::from(address));
    let (low, last) = (number & 0xff_ffff, number & 0xffff);
    vec![
        format!("{address}"),
        format!("{address}."),
        format!("{number}"),
        format!("{number:#x}"),
        format!("0X{number:X}"),
        format!("{number:#x}."),
        format!("0{number:o}"),
        format!("{a}.{low}"),
        format!("{a}.{b}.{last}"),
        format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("{a:#x}.{low}"),
        format!("0{a:o}.{b}.{last:#x}"),
        format!("00{a:o}.{b}.{c}.{d}"),
        percent_encoded(&address.to_string()),
        full_width(&address.to_string()),
        format!("user:password@{address}"),
        format!("example.com@{address}"),
        format!("example.com%2F@{address}"),
        format!("[::ffff:{address}]"),
        format!("[::ffff:{:x}:{:x}]", number >> 16, last),
        format!("[0:0:0:0:0:ffff:{address}]"),
    ]
}

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Digits and dots of East Asian scripts, which the rules for names turn into ASCII.
fn full_width(text: &str) -> String {
    text.chars()
        .map(|c| c.to_digit(10).and_then(|digit| char::from_u32(0xff10 + digit)).unwrap_or('\u{3002}'))
        .collect()
}

/// The address of this machine that packets to other machines would carry; no packet is sent.
fn own_address() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("10.255.255.254:9").ok()?;
    match socket.local_addr().ok()?.ip() {
        std::net::IpAddr::V4(own) if own.is_private() => Some(own),
        _ => None,
    }
}

/// Hosts that lead to a listener of this machine.
fn reachable() -> BTreeSet<String> {
    let loopback =
        [[127, 0, 0, 1], [127, 0, 0, 2], [127, 1, 2, 3], [127, 45, 67, 89], [127, 255, 255, 254], [0, 0, 0, 0]];
    let addresses = loopback.map(Ipv4Addr::from).into_iter().chain(own_address());
    let words =
        ["localhost", "LOCALHOST", "localhost.", "127.1", "0", "[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "user@[::1]"];
    addresses.flat_map(notations).chain(words.map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_callback_on_an_internal_address_gets_a_connection_in_any_notation() {
    let world = World::start().await;
    let trap = Trap::everywhere();
    let notifier =
        world.strict_notifier(&["--timeout", "1s", "--retry-delays", "100ms"], Rebinding::new(&[&["127.0.0.1"]])).await;
    let hosts = reachable();
    assert!(hosts.len() >= 120, "{} hosts lead to a listener", hosts.len());
    for host in &hosts {
        world.publish(&notice(&format!("http://{host}:{}/hook", trap.port), 1)).await;
    }
    eventually("every notice is settled", async || (world.unsettled().await == 0).then_some(())).await;
    assert_eq!(trap.connections(), 0, "of {} callbacks", hosts.len());
    for number in 1..=hosts.len() as u64 {
        let letter = world.dead_letter(number).await;
        let explains = letter.reason.contains("--callback-allow") || letter.reason.contains("cannot be posted to");
        assert!(explains, "{}", letter.reason);
    }
    notifier.stop().await;
}

/// The same hosts must lead to the listeners once they are allowed; otherwise the test above proves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_callbacks_arrive_when_the_operator_allows_all_addresses() {
    let world = World::start().await;
    let trap = Trap::everywhere();
    let flags = ["--timeout", "1s", "--retry-delays", "10m", "--callback-allow", "0.0.0.0/0,::/0"];
    let notifier = world.strict_notifier(&flags, Rebinding::new(&[&["127.0.0.1"]])).await;
    let hosts = reachable();
    for host in &hosts {
        world.publish(&notice(&format!("http://{host}:{}/hook", trap.port), 1)).await;
    }
    // Some notations are no URL for our parser; the others reach the listeners.
    eventually("connections", async || (trap.connections() >= 120).then_some(())).await;
    notifier.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_of_an_open_cluster_keeps_its_internal_address_and_a_denied_one_does_not() {
    let world = World::start().await;
    let trap = Trap::everywhere();
    let denied = format!("127.0.0.9:{}", trap.port);
    let flags = ["--timeout", "1s", "--retry-delays", "10m", "--callback-deny", &denied];
    let notifier = world.strict_notifier(&flags, Rebinding::new(&[&["127.0.0.1"]])).await;
    let hook = |host: &str| format!("http://{host}:{}/hook", trap.port);
    for (callback, is_former) in [(hook("127.0.0.2"), false), (hook("hooks.test"), false), (hook("127.0.0.9"), true)] {
        world.publish(&Notice { is_former, ..notice(&callback, 1) }).await;
    }
    eventually("every notice is refused", async || (world.unsettled().await == 0).then_some(())).await;
    assert_eq!(trap.connections(), 0);
    for callback in [hook("127.0.0.2"), hook("hooks.test")] {
        world.publish(&Notice { is_former: true, ..notice(&callback, 2) }).await;
    }
    eventually("connections", async || (trap.connections() >= 2).then_some(())).await;
    notifier.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_that_was_queued_before_access_was_enforced_reaches_no_internal_address() {
    let world = World::start().await;
    let trap = Trap::everywhere();
    let resolver = Rebinding::new(&[&["127.0.0.1"]]);
    let notifier = world.strict_notifier(&["--timeout", "1s", "--retry-delays", "10m"], resolver).await;
    let [kept, closed] = ["127.0.0.2", "127.0.0.3"].map(|host| format!("http://{host}:{}/hook", trap.port));
    let leader = world.leader(&[&kept, &closed]).await;
    leader.allow_internal(&[&kept]);
    world.publish(&Notice { is_former: true, ..notice(&closed, 1) }).await;
    eventually("the notice is refused", async || (world.unsettled().await == 0).then_some(())).await;
    assert_eq!(trap.connections(), 0);
    world.publish(&Notice { is_former: true, ..notice(&kept, 2) }).await;
    eventually("a connection", async || (trap.connections() >= 1).then_some(())).await;
    notifier.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_a_former_callback_opened_serves_no_other_callback() {
    let world = World::start().await;
    let receiver = Receiver::start(Manner::Takes).await;
    let resolver = Rebinding::new(&[&["127.0.0.1"]]);
    let notifier = world.strict_notifier(&["--timeout", "1s", "--retry-delays", "10m"], resolver).await;
    let url = receiver.url().replace("127.0.0.1", "hooks.test");
    world.publish(&Notice { is_former: true, ..notice(&url, 1) }).await;
    receiver.wait_for(1).await;
    world.publish(&notice(&url, 2)).await;
    eventually("the second notice is refused", async || (world.unsettled().await == 0).then_some(())).await;
    assert_eq!(receiver.posted().len(), 1);
    notifier.stop().await;
}

/// Answers with the next list of addresses at each question, as a name server of an attacker does.
struct Rebinding {
    answers: Vec<Vec<&'static str>>,
    asked: AtomicUsize,
}

impl Rebinding {
    fn new(answers: &[&[&'static str]]) -> Arc<Self> {
        Arc::new(Self { answers: answers.iter().map(|answer| answer.to_vec()).collect(), asked: AtomicUsize::new(0) })
    }
}

impl Resolve for Rebinding {
    fn resolve(&self, _: Name) -> Resolving {
        let answer = self.answers[self.asked.fetch_add(1, Ordering::SeqCst) % self.answers.len()].clone();
        let addresses = answer.into_iter().map(|ip| std::net::SocketAddr::new(ip.parse().unwrap(), 0));
        Box::pin(async move { Ok(Box::new(addresses) as Addrs) })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_resolve_to_internal_addresses_get_no_connection() {
    let world = World::start().await;
    let trap = Trap::everywhere();
    let addresses: [&[&str]; 6] =
        [&["127.0.0.1"], &["::1"], &["0.0.0.0"], &["::ffff:127.0.0.1"], &["127.0.0.1", "::1"], &["127.9.9.9"]];
    let flags = ["--timeout", "1s", "--retry-delays", "100ms"];
    let notifier = world.strict_notifier(&flags, Rebinding::new(&addresses)).await;
    for number in 0..30 {
        world.publish(&notice(&format!("http://name-{number}.example:{}/hook", trap.port), 1)).await;
    }
    for number in 1..=30 {
        let reason = world.dead_letter(number).await.reason;
        assert!(reason.contains("--callback-allow"), "{reason}");
    }
    assert_eq!(trap.connections(), 0);
    notifier.stop().await;
}

/// A name leads to a permitted address at one question and to a closed one at the next, or to both together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_changes_its_address_reaches_only_permitted_addresses() {
    let world = World::start().await;
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    let open = TcpListener::bind(("127.0.0.2", port)).unwrap();
    let (closed, open) = (Trap::on(closed), Trap::on(open));
    let answers: [&[&str]; 3] = [&["127.0.0.2"], &["127.0.0.1"], &["127.0.0.1", "127.0.0.2"]];
    let flags = ["--timeout", "1s", "--retry-delays", "50ms,50ms,50ms,50ms,50ms", "--callback-allow", "127.0.0.2"];
    let notifier = world.strict_notifier(&flags, Rebinding::new(&answers)).await;
    for number in 0..20 {
        world.publish(&notice(&format!("http://rebinding.example:{port}/{number}"), number)).await;
    }
    eventually("every notice is settled", async || (world.unsettled().await == 0).then_some(())).await;
    assert!(open.connections() > 0, "the permitted address is used");
    assert_eq!(closed.connections(), 0);
    notifier.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_listener_and_the_bus_of_the_notifier_stay_closed_and_denied_ports_too() {
    let world = World::start().await;
    let (trap, listen) = (Trap::everywhere(), format!("127.0.0.1:{}", fabric::local::free_port()));
    let nats = world.nats.url().rsplit(':').next().unwrap().to_owned();
    let denied = format!("127.0.0.0/8:{}", trap.port);
    let flags =
        ["--retry-delays", "100ms", "--callback-allow", "127.0.0.0/8,::1,localhost", "--callback-deny", &denied];
    let notifier =
        world.strict_notifier(&[&flags[..], &["--listen", &listen]].concat(), Arc::new(SystemResolver)).await;
    let own = listen.rsplit(':').next().unwrap();
    let hosts =
        [format!("127.0.0.1:{own}"), format!("localhost:{own}"), format!("127.0.0.3:{nats}"), format!("[::1]:{nats}")];
    let callbacks: Vec<String> = hosts.into_iter().chain([format!("127.0.0.1:{}", trap.port)]).collect();
    for host in &callbacks {
        world.publish(&notice(&format!("http://{host}/hook"), 1)).await;
    }
    for number in 1..=callbacks.len() as u64 {
        let reason = world.dead_letter(number).await.reason;
        assert!(reason.contains("closed to callbacks"), "{reason}");
    }
    assert_eq!(trap.connections(), 0);
    notifier.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notifier_that_only_reports_delivers_to_stored_callbacks_during_an_upgrade() {
    let world = World::start().await;
    let receiver = Receiver::start(Manner::Takes).await;
    let notifier = world.strict_notifier(&["--callback-filter", "report"], Arc::new(SystemResolver)).await;
    world.publish(&notice(&receiver.url(), 1)).await;
    world.publish(&notice(&receiver.url().replace("127.0.0.1", "localhost"), 2)).await;
    receiver.wait_for(2).await;
    notifier.stop().await;
}
