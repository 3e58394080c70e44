//! One run from the first server to the last figure.
//!
//! Whatever ends it, the limit, a signal or an error, the figures so far are told: a size this machine cannot carry says how
//! far it came.

use std::sync::atomic::Ordering;
use std::time::Duration;

use contract::command::Verb;
use contract::query::ClusterView;
use fabric::shutdown::Shutdown;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::load::client::Client;
use crate::load::figures::{self, Figure};
use crate::load::fleet::Fleet;
use crate::load::process::{processor_time, resident_bytes};
use crate::load::servers::Servers;
use crate::load::settings::Agents;
use crate::load::workload;

/// Between two looks at the whole.
const LOOK: Duration = Duration::from_millis(100);
/// Between two looks for one thing.
const CLOSE_LOOK: Duration = Duration::from_millis(2);
/// Between two connections of progress.
const TELL: Duration = Duration::from_secs(2);
/// The store is quiet when nothing was written for so long: longer than history waits before it is stored. A run that hardly
/// measures steady state does not wait for it either.
const QUIET: Duration = Duration::from_secs(6);

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot start a server")]
    Server(#[from] fabric::local::Error),
    #[error("cannot start a scheduler")]
    Start(#[source] std::io::Error),
    #[error("the bus failed")]
    Bus(#[from] fabric::nats::Error),
    #[error("the store failed")]
    Store(#[from] fabric::etcd::Error),
    #[error("command {command} was refused: {why}")]
    Refused { command: String, why: String },
    #[error("the connection was closed")]
    Closed,
    #[error("there is nobody to take over")]
    Alone,
}

/// Runs within the limit; the figures as far as they came.
pub(crate) async fn bounded(settings: &Agents, connections: &Handle) -> Result<Vec<Figure>, Error> {
    let shutdown = Shutdown::on_signals();
    let mut run = Run { settings, connections, figures: Vec::new(), started: Instant::now(), reached: None };
    run.note(figures::count("nodes", "nodes", settings.nodes.into()));
    run.note(figures::count("instances", "instances", settings.instances.into()));
    run.note(figures::count("group_size", "instances of a group", settings.group_size.into()));
    let ended = tokio::select! {
        ended = run.all() => ended,
        () = tokio::time::sleep(settings.limit) => {
            eprintln!("the limit is over");
            Ok(())
        }
        () = shutdown.wait() => {
            eprintln!("stopped");
            Ok(())
        }
    };
    if let Some((placed, ordered, running)) = run.reached {
        run.note(figures::count("reached_placed", "came to: placed", placed));
        run.note(figures::count("reached_ordered", "came to: ordered", ordered));
        run.note(figures::count("reached_running", "came to: reported running", running));
    }
    run.note(figures::seconds("whole_run_seconds", "the whole run, s", run.started.elapsed()));
    match ended {
        Err(error) if run.figures.len() < 5 => Err(error),
        Err(error) => {
            eprintln!("{error}: {:?}", std::error::Error::source(&error));
            Ok(run.figures)
        }
        Ok(()) => Ok(run.figures),
    }
}

struct Run<'a> {
    settings: &'a Agents,
    /// Where the nodes' connections live.
    connections: &'a Handle,
    figures: Vec<Figure>,
    started: Instant,
    /// Placed, ordered and running so far; none once all are.
    reached: Option<(u64, u64, u64)>,
}

impl Run<'_> {
    fn note(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    fn tell(&self, what: &str) {
        eprintln!("{:7.1} s  {what}", self.started.elapsed().as_secs_f64());
    }

    async fn all(&mut self) -> Result<(), Error> {
        self.tell("servers and schedulers start");
        let mut servers = Servers::set(self.settings).await?;
        let mut client = Client::connect(&servers.nats.url()).await?;
        self.leader(&client).await;
        self.tell("nodes join");
        let began = Instant::now();
        let Agents { nodes, start_after, .. } = *self.settings;
        let fleet = Fleet::start(&servers.nats.url(), nodes, start_after, self.connections).await?;
        self.until(&client, |view| view.nodes_alive >= u64::from(self.settings.nodes)).await;
        self.note(figures::seconds("joined_seconds", "all nodes known, s", began.elapsed()));
        self.deploy(&servers, &fleet, &mut client).await?;
        self.weigh(&servers, &client).await;
        self.rest(&servers, &fleet, &client).await;
        self.change(&fleet, &mut client).await?;
        if self.settings.schedulers > 1 {
            self.take_over(&mut servers, &fleet, &mut client).await?;
        }
        Ok(())
    }

    async fn leader(&self, client: &Client) -> ClusterView {
        self.until(client, |view| view.term.is_some()).await
    }

    async fn until(&self, client: &Client, is_so: impl Fn(&ClusterView) -> bool) -> ClusterView {
        let mut told = Instant::now();
        loop {
            if let Some(view) = client.cluster().await {
                if is_so(&view) {
                    return view;
                }
                if told.elapsed() >= TELL {
                    told = Instant::now();
                    self.tell(&format!("{} nodes, {} running", view.nodes_alive, view.running));
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Everything is asked for at once; how long until it is placed, ordered and reported running.
    async fn deploy(&mut self, servers: &Servers, fleet: &Fleet, client: &mut Client) -> Result<(), Error> {
        let sizes = workload::sizes(self.settings.instances, self.settings.group_size);
        self.tell(&format!("{} groups are asked for", sizes.len()));
        let create =
            |(number, size): (u32, u32)| Verb::CreateGroup { spec: Box::new(workload::group_spec(number, size)) };
        let verbs: Vec<Verb> = (0..).zip(sizes).map(create).collect();
        let mut eye = Client::connect(&servers.nats.url()).await?;
        let (began, pids) = (Instant::now(), self.pids(servers));
        let used: Vec<Duration> = pids.iter().map(|(_, _, pid)| processor_time(*pid)).collect();
        let decided = async {
            client.all(verbs).await?;
            Ok::<Duration, Error>(began.elapsed())
        };
        let seen = async { Ok(self.follow(servers, fleet, &mut eye, began).await) };
        let (decided, [placed, ordered, running]) = tokio::try_join!(decided, seen)?;
        self.note(figures::seconds("decided_seconds", "all commands decided, s", decided));
        self.note(figures::seconds("placed_seconds", "all placed and stored, s", placed));
        self.note(figures::seconds("ordered_seconds", "all ordered, s", ordered));
        self.note(figures::seconds("running_seconds", "all reported running, s", running));
        for ((key, words, pid), before) in pids.into_iter().zip(used) {
            self.note(figures::seconds(key, words, processor_time(pid).saturating_sub(before)));
        }
        let orders = fleet.counts.orders.load(Ordering::Relaxed);
        self.note(figures::count("orders", "orders sent", orders));
        let wholes = fleet.counts.wholes.load(Ordering::Relaxed);
        self.note(figures::count("whole_orders", "orders that said everything", wholes));
        let bytes = fleet.counts.order_bytes.load(Ordering::Relaxed);
        self.note(figures::each(
            "order_bytes_per_instance",
            "bytes of orders per instance",
            bytes,
            self.settings.instances,
        ));
        self.note(figures::count("reports", "reports sent", fleet.counts.reports.load(Ordering::Relaxed)));
        self.note(figures::count(
            "failures",
            "messages nobody could read or send",
            fleet.counts.failures.load(Ordering::Relaxed),
        ));
        Ok(())
    }

    fn pids(&self, servers: &Servers) -> Vec<(&'static str, &'static str, u32)> {
        let mut pids = vec![
            ("deploy_agents_cpu_seconds", "CPU of all agents meanwhile, s", std::process::id()),
            ("deploy_nats_cpu_seconds", "CPU of nats-server meanwhile, s", servers.nats.pid()),
            ("deploy_etcd_cpu_seconds", "CPU of etcd meanwhile, s", servers.etcd.pid()),
        ];
        let schedulers = [
            ("deploy_scheduler_1_cpu_seconds", "CPU of scheduler 1 meanwhile, s"),
            ("deploy_scheduler_2_cpu_seconds", "CPU of scheduler 2 meanwhile, s"),
        ];
        pids.extend(schedulers.iter().zip(&servers.schedulers).map(|((key, words), one)| (*key, *words, one.pid())));
        pids
    }

    async fn follow(&mut self, servers: &Servers, fleet: &Fleet, eye: &mut Client, began: Instant) -> [Duration; 3] {
        let wanted = u64::from(self.settings.instances);
        let mut at: [Option<Duration>; 3] = [None; 3];
        let mut told = Instant::now();
        loop {
            let placed = servers.stored.placed.load(Ordering::Relaxed);
            let ordered = fleet.counts.begun.load(Ordering::Relaxed);
            // The leader is asked only when it may say what is hoped for: its answer costs it a look at every node.
            let made = fleet.counts.made.load(Ordering::Relaxed);
            let running = if made >= wanted { eye.cluster().await.map_or(0, |view| view.running) } else { 0 };
            for (at, reached) in at.iter_mut().zip([placed, ordered, running]) {
                if at.is_none() && reached >= wanted {
                    *at = Some(began.elapsed());
                }
            }
            self.reached = Some((placed, ordered, running));
            if let [Some(placed), Some(ordered), Some(running)] = at {
                self.reached = None;
                self.tell("all run");
                return [placed, ordered, running];
            }
            if told.elapsed() >= TELL {
                told = Instant::now();
                self.tell(&format!("of {wanted}: {placed} placed, {ordered} ordered, {made} made, {running} running"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What it takes to know all this.
    async fn weigh(&mut self, servers: &Servers, client: &Client) {
        let leader = self.leader(client).await.scheduler;
        for scheduler in &servers.schedulers {
            let (key, words) = if scheduler.name == leader {
                ("leader_bytes_per_instance", "memory of the leader per instance, bytes")
            } else {
                ("standby_bytes_per_instance", "memory of the standby per instance, bytes")
            };
            self.note(figures::each(key, words, resident_bytes(scheduler.pid()), self.settings.instances));
        }
    }

    /// Nothing happens but heartbeats.
    async fn rest(&mut self, servers: &Servers, fleet: &Fleet, client: &Client) {
        self.tell("waits for the store to be quiet");
        let (began, quiet) = (Instant::now(), QUIET.min(self.settings.steady));
        let mut last = (0, Instant::now());
        while last.1.elapsed() < quiet {
            let writes = servers.stored.writes.load(Ordering::Relaxed);
            if writes != last.0 {
                last = (writes, Instant::now());
            }
            tokio::time::sleep(LOOK).await;
        }
        self.note(figures::seconds(
            "quiet_seconds",
            "until nothing was written any more, s",
            began.elapsed().saturating_sub(quiet),
        ));
        let stored = servers.stored.bytes.load(Ordering::Relaxed);
        self.note(figures::each(
            "stored_bytes_per_instance",
            "stored in etcd per instance, bytes",
            stored,
            self.settings.instances,
        ));
        let file = servers.etcd_file_bytes().await.unwrap_or(0);
        self.note(figures::each(
            "etcd_bytes_per_instance",
            "etcd's file per instance, old revisions included, bytes",
            file,
            self.settings.instances,
        ));
        self.tell("rests");
        let leader = self.leader(client).await.scheduler;
        let mut pids = vec![("steady_nats_cpu_percent", "steady CPU of nats-server, % of a core", servers.nats.pid())];
        pids.push(("steady_etcd_cpu_percent", "steady CPU of etcd, % of a core", servers.etcd.pid()));
        pids.push(("steady_agents_cpu_percent", "steady CPU of all agents, % of a core", std::process::id()));
        for scheduler in &servers.schedulers {
            pids.push(if scheduler.name == leader {
                ("steady_leader_cpu_percent", "steady CPU of the leader, % of a core", scheduler.pid())
            } else {
                ("steady_standby_cpu_percent", "steady CPU of the standby, % of a core", scheduler.pid())
            });
        }
        let before: Vec<Duration> = pids.iter().map(|(_, _, pid)| processor_time(*pid)).collect();
        let (reports, began) = (fleet.counts.reports.load(Ordering::Relaxed), Instant::now());
        tokio::time::sleep(self.settings.steady).await;
        for ((key, words, pid), before) in pids.into_iter().zip(before) {
            self.note(figures::share(key, words, processor_time(pid).saturating_sub(before), began.elapsed()));
        }
        let heard = fleet.counts.reports.load(Ordering::Relaxed) - reports;
        let seconds = u32::try_from(self.settings.steady.as_secs()).unwrap_or(1);
        self.note(figures::each("steady_reports_per_second", "reports a second meanwhile", heard, seconds));
    }

    /// One instance more, again and again: what that takes must not depend on how many there are.
    async fn change(&mut self, fleet: &Fleet, client: &mut Client) -> Result<(), Error> {
        self.tell("single changes");
        let groups =
            u32::try_from(workload::sizes(self.settings.instances, self.settings.group_size).len()).unwrap_or(1);
        let (mut decided, mut ordered, mut running) = (Vec::new(), Vec::new(), Vec::new());
        for turn in 0..self.settings.changes.min(groups) {
            let number = u64::from(turn) * u64::from(groups) / u64::from(self.settings.changes.min(groups));
            let before = self.leader(client).await.running;
            let begun = fleet.counts.begun.load(Ordering::Relaxed);
            let began = Instant::now();
            decided.push(client.one(self.one_more(u32::try_from(number).unwrap_or(0))).await?);
            while fleet.counts.begun.load(Ordering::Relaxed) == begun {
                tokio::time::sleep(CLOSE_LOOK).await;
            }
            ordered.push(began.elapsed());
            while client.cluster().await.is_none_or(|view| view.running <= before) {
                tokio::time::sleep(CLOSE_LOOK).await;
            }
            running.push(began.elapsed());
        }
        self.note(figures::count("changes", "one instance more: number of changes", decided.len() as u64));
        self.note_spread(
            &mut decided,
            [
                ("change_decided_milliseconds", "one instance more: decided, median, ms"),
                ("change_decided_fastest_milliseconds", "one instance more: decided, fastest, ms"),
                ("change_decided_slowest_milliseconds", "one instance more: decided, slowest, ms"),
            ],
        );
        self.note_spread(
            &mut ordered,
            [
                ("change_ordered_milliseconds", "one instance more: ordered, median, ms"),
                ("change_ordered_fastest_milliseconds", "one instance more: ordered, fastest, ms"),
                ("change_ordered_slowest_milliseconds", "one instance more: ordered, slowest, ms"),
            ],
        );
        self.note_spread(
            &mut running,
            [
                ("change_running_milliseconds", "one instance more: reported running, median, ms"),
                ("change_running_fastest_milliseconds", "one instance more: reported running, fastest, ms"),
                ("change_running_slowest_milliseconds", "one instance more: reported running, slowest, ms"),
            ],
        );
        Ok(())
    }

    /// Notes median, fastest and slowest.
    fn note_spread(&mut self, times: &mut [Duration], names: [(&'static str, &'static str); 3]) {
        times.sort_unstable();
        let values = [times.get(times.len() / 2), times.first(), times.last()];
        for ((key, words), value) in names.into_iter().zip(values) {
            self.note(figures::milliseconds(key, words, value.copied().unwrap_or_default()));
        }
    }

    fn one_more(&self, number: u32) -> Verb {
        let sizes = workload::sizes(self.settings.instances, self.settings.group_size);
        let size = usize::try_from(number).ok().and_then(|index| sizes.get(index)).copied().unwrap_or(0);
        let name = workload::group_name(number).parse().expect("letters, digits and dots are a name");
        Verb::Replica { name, num_instances: size + 1, restart_policy: None }
    }

    /// The leader is killed; how long until another takes a command, and whether anything moved.
    async fn take_over(&mut self, servers: &mut Servers, fleet: &Fleet, client: &mut Client) -> Result<(), Error> {
        let view = self.leader(client).await;
        let Some(leader) = servers.schedulers.iter_mut().find(|scheduler| scheduler.name == view.scheduler) else {
            return Err(Error::Alone);
        };
        self.tell("the leader is killed");
        let begun = fleet.counts.begun.load(Ordering::Relaxed);
        let orders = fleet.counts.orders.load(Ordering::Relaxed);
        let groups = workload::sizes(self.settings.instances, self.settings.group_size).len();
        // The last group: nobody changed it so far, unless there are only a few.
        let last = u32::try_from(groups - 1).unwrap_or(0);
        let size = workload::sizes(self.settings.instances, self.settings.group_size)[groups - 1];
        let name = workload::group_name(last).parse().expect("letters, digits and dots are a name");
        let began = Instant::now();
        leader.kill();
        let verb = Verb::Replica { name, num_instances: size + 2, restart_policy: None };
        let decided = client.one(verb).await?;
        self.note(figures::seconds("takeover_seconds", "killed leader to a command in effect, s", decided));
        self.until(client, |other| other.running > view.running).await;
        self.note(figures::seconds(
            "takeover_running_seconds",
            "killed leader to that command's instance running, s",
            began.elapsed(),
        ));
        tokio::time::sleep(QUIET.min(self.settings.steady)).await;
        let made = fleet.counts.begun.load(Ordering::Relaxed) - begun;
        self.note(figures::count(
            "takeover_made",
            "containers made meanwhile (the command asked for one or two)",
            made,
        ));
        let orders = fleet.counts.orders.load(Ordering::Relaxed) - orders;
        self.note(figures::count("takeover_orders", "orders sent by the new leader", orders));
        self.note(figures::count(
            "takeover_removed",
            "containers removed in the whole run",
            fleet.counts.removed.load(Ordering::Relaxed),
        ));
        Ok(())
    }
}
