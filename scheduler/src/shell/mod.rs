//! The I/O of the scheduler: one loop owns the core; tasks talk to NATS and etcd for it and own no state.
//!
//! The loop never waits for a task: it passes work on with `try_send`. When a queue is full, the core receives the work back as
//! failed. Tasks that only a leader runs belong to `Leadership` and end when it is dropped.

mod answers;
mod audit;
mod backups;
pub(crate) mod bus_agents;
mod claims;
mod commands;
mod commits;
mod leadership;
mod letter_limit;
mod orders;
mod plans;
mod publish;
mod purge;
mod readiness;
pub mod schema;
mod store_name;
mod store_outage;
mod store_size;
mod stream_claim;
pub(crate) mod streams;
mod subscriptions;

use std::collections::VecDeque;
use std::sync::Arc;

use contract::fence::Term;
use contract::keys;
use contract::notice::Notice;
use contract::progress::Progress;
use contract::query::QuarantinedKind;
use contract::report::ReportMessage;
use fabric::admin::Readiness;
use fabric::clock::Clock;
use fabric::election::{Election, ElectionRole, Guard};
use fabric::etcd::{Change, Size, Store};
use fabric::nats::Bus;
use fabric::shutdown::Shutdown;
use fabric::signing::{OrderKeys, OrderSigner};
use fabric::tasks::{Scoped, spawn_scoped};
use tokio::sync::{mpsc, watch};

use self::answers::AnswerQueue;
use self::backups::BackupQueue;
use self::leadership::Leadership;
use self::plans::{Admission, Plans};
use self::publish::Publisher;
use self::subscriptions::{QueryRequest, QuerySender};
use crate::core::Core;
use crate::core::io::{Effect, Input, Mirror};
use crate::metrics::{Metrics, QuarantinedLabels};

/// Reports, and queries, that wait for the loop. When full, the NATS client keeps up to 65,536 more per subscription and drops the
/// rest: the next heartbeat reveals a lost report, and the apiserver repeats a lost query.
const INPUT_QUEUE: usize = 1024;

/// Inputs that the core takes in one batch, so that it reconciles, commits and sends orders once for all of them.
const MAX_BATCH: usize = 256;

pub(crate) struct Shell<'a> {
    core: Core,
    context: Context,
    election: &'a Election,
    role: watch::Receiver<ElectionRole>,
    role_tasks: RoleTasks,
    mirror: mpsc::Receiver<Change>,
    mirrored: watch::Sender<bool>,
    reports: mpsc::Receiver<ReportMessage>,
    queries: mpsc::Receiver<QueryRequest>,
    bus: watch::Receiver<bool>,
    size: watch::Receiver<Option<Size>>,
    progress: watch::Receiver<Progress>,
    query_sender: QuerySender,
    answers: AnswerQueue,
    backups: BackupQueue,
    plans: Plans,
    publisher: Publisher,
    /// What the core is informed of because a queue was full or this process does not lead: a failed commit, an unanswered order.
    failed_effects: VecDeque<Input>,
    readiness: Readiness,
    _tasks: Vec<Scoped>,
}

/// The tasks that depend on the role of this process.
enum RoleTasks {
    /// Answers queries as a standby.
    Standby {
        _queries: Scoped,
    },
    /// Won the election and loads the stored state; still answers queries as a standby.
    TakingOver {
        guard: Guard,
        loaded: mpsc::Receiver<leadership::Loaded>,
        _tasks: [Scoped; 2],
    },
    Leading(Box<Leadership>),
}

/// What the loop woke up for.
enum Wake {
    Input(Box<Input>),
    Role(ElectionRole),
    Loaded(leadership::Loaded),
}

impl Wake {
    fn input(input: Input) -> Self {
        Self::Input(Box::new(input))
    }
}

/// What the loop and its tasks share.
#[derive(Clone)]
pub(crate) struct Context {
    /// Name of this scheduler.
    pub(crate) name: String,
    pub(crate) bus: Bus,
    pub(crate) store: Store,
    /// Signs orders; none sends them unsigned.
    pub(crate) signer: Option<Arc<OrderSigner>>,
    /// With which claims of nodes about the store are checked.
    pub(crate) order_keys: Option<Arc<OrderKeys>>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
}

impl<'a> Shell<'a> {
    pub(crate) fn start(core: Core, context: Context, election: &'a Election, readiness: Readiness) -> Self {
        let (bus, store) = (&context.bus, &context.store);
        let (report_sender, reports) = mpsc::channel(INPUT_QUEUE);
        let (query_sender, queries) = mpsc::channel(INPUT_QUEUE);
        let (mirrored, mirrored_seen) = watch::channel(false);
        let (answers, answers_task) = answers::start(bus.clone());
        let (backups, backups_task) = backups::start(bus.clone(), store.clone());
        let (publisher, publisher_tasks) = publish::start(bus.clone());
        let query_sender = QuerySender { out: query_sender, publisher: publisher.clone(), clock: context.clock };
        let (size_sender, size) = watch::channel(None);
        let (progress_sender, progress) = watch::channel(Progress::default());
        let read_reports = subscriptions::reports(context.clone(), publisher.clone(), report_sender);
        let mut tasks = vec![
            answers_task,
            backups_task,
            spawn_scoped("reports", read_reports),
            spawn_scoped("store outage", store_outage::announce(context.clone())),
            spawn_scoped("store size", store_size::sample(context.clone(), size_sender, progress_sender)),
            spawn_scoped("readiness", readiness::watch(bus.clone(), store.clone(), mirrored_seen, readiness.clone())),
        ];
        tasks.extend(publisher_tasks);
        Self {
            core,
            role: election.role(),
            election,
            role_tasks: RoleTasks::Standby { _queries: answer_as_standby(bus, &query_sender) },
            // One watch for all keys: with two, a `Change::Reset` of one would discard the keys of the other.
            mirror: store.watch(keys::ROOT),
            mirrored,
            reports,
            queries,
            bus: subscriptions::bus(bus),
            size,
            progress,
            query_sender,
            answers,
            backups,
            plans: Plans::new(context.metrics.clone()),
            publisher,
            failed_effects: VecDeque::new(),
            readiness,
            _tasks: tasks,
            context,
        }
    }

    /// Runs until shutdown. Fails when this process wins the election and a newer scheduler has written the stored state.
    pub(crate) async fn run(mut self, shutdown: Shutdown) -> Result<(), schema::Error> {
        let readiness = self.readiness.clone();
        // The election may have decided before this loop reads the role for the first time.
        self.role.mark_changed();
        loop {
            let event = tokio::select! {
                () = shutdown.wait() => return Ok(()),
                () = readiness.asked() => continue,
                event = self.next() => event,
            };
            match event {
                Wake::Input(input) => self.process(*input),
                Wake::Role(role) => self.change_role(role),
                // Another scheduler may have credentials that etcd accepts.
                Wake::Loaded(Err(schema::Error::Store(error))) => {
                    self.perform(Effect::StepDown { reason: format!("cannot read the stored state: {error}") });
                }
                Wake::Loaded(stored) => self.lead(stored?),
            }
        }
    }

    async fn next(&mut self) -> Wake {
        if let Some(input) = self.failed_effects.pop_front() {
            return Wake::input(input);
        }
        let wake = self.core.wake_at().map(|time| self.context.clock.until(time));
        loop {
            tokio::select! {
                Ok(()) = self.role.changed() => return Wake::Role(self.role.borrow_and_update().clone()),
                event = self.role_tasks.next() => return event,
                Some(change) = self.mirror.recv() => {
                    if let Some(mirror) = mirrored(change) {
                        self.mirrored.send_if_modified(|seen| !std::mem::replace(seen, true));
                        return Wake::input(Input::Mirror(mirror));
                    }
                }
                Some(report) = self.reports.recv() => return Wake::input(Input::Report(report)),
                Some(request) = self.queries.recv() => match backups::page_request(request) {
                    Ok(page) => self.count_dropped(self.backups.try_send(page)),
                    Err(request) if plans::is_plan(&request) => match self.plans.admit(request) {
                        Admission::Queued => {}
                        Admission::Busy(inbox, reply) => self.count_dropped(self.answers.answer(inbox, reply)),
                    },
                    Err(QueryRequest { query, reply, .. }) => return Wake::input(Input::Query { query, reply }),
                },
                QueryRequest { query, reply, .. } = self.plans.next() => return Wake::input(Input::Query { query, reply }),
                Ok(()) = self.bus.changed() => {
                    return Wake::input(Input::Bus { connected: *self.bus.borrow_and_update() });
                }
                Ok(()) = self.size.changed() => {
                    if let Some(Size { in_use, allocated }) = *self.size.borrow_and_update() {
                        return Wake::input(Input::StoreSize { in_use, allocated });
                    }
                }
                Ok(()) = self.progress.changed() => {
                    return Wake::input(Input::StoredProgress(self.progress.borrow_and_update().clone()));
                }
                () = sleep(wake) => return Wake::input(Input::Tick),
            }
        }
    }

    /// Feeds the core with an input and the inputs that wait behind it, as one batch.
    fn process(&mut self, mut input: Input) {
        for turn in 1..MAX_BATCH {
            let Some(next) = self.try_next(turn) else { break };
            self.count_input(&input);
            let effects = self.core.on_one_of_many(input, self.context.clock.now());
            effects.into_iter().for_each(|effect| self.perform(effect));
            input = next;
        }
        self.feed(input);
    }

    /// An input that waits already. Reports alternate with commands and order replies, so that many of one kind do not delay
    /// the others.
    fn try_next(&mut self, turn: usize) -> Option<Input> {
        let report = |shell: &mut Self| shell.reports.try_recv().ok().map(Input::Report);
        if turn.is_multiple_of(2) {
            report(self).or_else(|| self.role_tasks.try_next(turn / 2))
        } else {
            self.role_tasks.try_next(turn / 2).or_else(|| report(self))
        }
    }

    fn feed(&mut self, input: Input) {
        self.count_input(&input);
        for effect in self.core.on(input, self.context.clock.now()) {
            self.perform(effect);
        }
        self.context.metrics.disagreements.set(i64::try_from(self.core.disagreements()).unwrap_or(i64::MAX));
        self.context.metrics.foreign_store.set(i64::try_from(self.core.foreign_store()).unwrap_or(i64::MAX));
        self.context.metrics.store_behind.set(i64::from(self.core.is_behind()));
        self.context.metrics.ignored_reports.set(i64::try_from(self.core.ignored_reports()).unwrap_or(i64::MAX));
        self.context.metrics.unreadable.set(i64::try_from(self.core.unreadable()).unwrap_or(i64::MAX));
        self.context.metrics.failed_queries.set(i64::try_from(self.core.failed_queries()).unwrap_or(i64::MAX));
        for kind in QuarantinedKind::ALL {
            let count = i64::try_from(self.core.quarantined(kind)).unwrap_or(i64::MAX);
            self.context.metrics.quarantined.get_or_create(&QuarantinedLabels { kind: kind.word() }).set(count);
        }
    }

    fn count_input(&self, input: &Input) {
        match input {
            Input::Command(_) => drop(self.context.metrics.commands.inc()),
            Input::Report(_) => drop(self.context.metrics.reports.inc()),
            Input::Query { .. } => drop(self.context.metrics.queries.inc()),
            Input::Mirror(_)
            | Input::Elected { .. }
            | Input::Deposed
            | Input::Committed { .. }
            | Input::OrderReplied { .. }
            | Input::Bus { .. }
            | Input::Clock { .. }
            | Input::StoreSize { .. }
            | Input::StoredProgress(_)
            | Input::DropAudit { .. }
            | Input::Tick => {}
        }
    }

    fn change_role(&mut self, role: ElectionRole) {
        // Between two terms this process did not lead, even when the watch skipped the role in between.
        self.stop_leading();
        match role {
            ElectionRole::Follower => {}
            ElectionRole::Leader(guard) => {
                let (sender, loaded) = mpsc::channel(1);
                let load = leadership::load(self.context.clone(), guard.clone(), sender);
                let queries = answer_as_standby(&self.context.bus, &self.query_sender);
                let tasks = [spawn_scoped("take over", load), queries];
                self.role_tasks = RoleTasks::TakingOver { guard, loaded, _tasks: tasks };
            }
        }
    }

    fn stop_leading(&mut self) {
        match self.role_tasks {
            RoleTasks::Standby { .. } => return,
            RoleTasks::TakingOver { .. } | RoleTasks::Leading(_) => {}
        }
        // Dropping the leadership ends its tasks before the core learns that it was deposed.
        self.role_tasks = RoleTasks::Standby { _queries: answer_as_standby(&self.context.bus, &self.query_sender) };
        self.context.metrics.leader.set(0);
        self.context.metrics.term.set(0);
        self.feed(Input::Deposed);
    }

    fn lead(&mut self, stored: Vec<(String, Vec<u8>)>) {
        let RoleTasks::TakingOver { guard, .. } = &self.role_tasks else { return };
        let guard = guard.clone();
        let store = store_name::read(&stored);
        let term = store.base.saturating_add(guard.term);
        tracing::info!(term, records = stored.len(), "took over as the leader");
        let leadership = Leadership::start(guard, Term(term), &stored, &self.context, &self.query_sender);
        self.role_tasks = RoleTasks::Leading(Box::new(leadership));
        self.context.metrics.leader.set(1);
        self.context.metrics.term.set(i64::try_from(term).unwrap_or(i64::MAX));
        self.feed(Input::Elected { term: Term(term), stored });
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Commit(commit) => self.failed_effects.extend(self.role_tasks.commit(commit)),
            Effect::SendOrder { node, message } => self.failed_effects.extend(self.role_tasks.order(node, message)),
            Effect::AskWhole { node } => self.count_dropped(self.answers.ask_whole(&node)),
            Effect::Resolve { inbox, outcome } => self.count_dropped(self.answers.resolve(inbox, outcome)),
            // A process that was suspended for longer than its lease may not know yet that another one leads. The apiserver
            // repeats the query, and the present leader answers.
            Effect::Answer { reply, .. } if !reply.stale && !self.election.holds() => {
                self.context.metrics.dropped.inc();
            }
            Effect::Answer { inbox, reply } => {
                self.plans.answered(&inbox);
                self.count_dropped(self.answers.answer(inbox, reply));
            }
            // The inputs of the plan date from this process's leadership, so the check happens here and not after the computation.
            Effect::Plan { stale, .. } if !stale && !self.election.holds() => drop(self.context.metrics.dropped.inc()),
            Effect::Plan { inbox, stale, dry_run } => self.plans.compute(&self.context.bus, inbox, stale, dry_run),
            Effect::Notify { callbacks, former, body } => {
                for callback in callbacks {
                    let is_former = former.contains(&callback);
                    self.count_dropped(self.publisher.notice(Notice { callback, is_former, body: body.clone() }));
                }
            }
            Effect::Record(event) => self.count_dropped(self.publisher.event(event)),
            Effect::Bury(letter) => self.count_dropped(self.publisher.dead_letter(publish::kind_of(&letter), letter)),
            Effect::StepDown { reason } => {
                tracing::warn!(%reason, "stepping down");
                self.election.resign();
                self.stop_leading();
            }
        }
    }

    fn count_dropped(&self, sent: Result<(), publish::QueueFull>) {
        if sent.is_err() {
            self.context.metrics.dropped.inc();
        }
    }
}

impl RoleTasks {
    async fn next(&mut self) -> Wake {
        match self {
            Self::Standby { .. } => std::future::pending().await,
            Self::TakingOver { loaded, .. } => match loaded.recv().await {
                Some(stored) => Wake::Loaded(stored),
                None => std::future::pending().await,
            },
            Self::Leading(leadership) => Wake::input(leadership.next().await),
        }
    }

    fn try_next(&mut self, turn: usize) -> Option<Input> {
        match self {
            Self::Leading(leadership) => leadership.try_next(turn),
            Self::Standby { .. } | Self::TakingOver { .. } => None,
        }
    }

    fn commit(&self, commit: crate::core::io::Commit) -> Option<Input> {
        match self {
            Self::Leading(leadership) => leadership.commit(commit),
            Self::Standby { .. } | Self::TakingOver { .. } => Some(commits::fenced(&commit)),
        }
    }

    fn order(&self, node: contract::name::NodeName, message: contract::order::OrderMessage) -> Option<Input> {
        match self {
            Self::Leading(leadership) => leadership.order(node, message),
            Self::Standby { .. } | Self::TakingOver { .. } => Some(orders::unanswered(node, &message)),
        }
    }
}

fn answer_as_standby(bus: &Bus, queries: &QuerySender) -> Scoped {
    spawn_scoped("standby queries", subscriptions::standby_queries(bus.clone(), queries.clone()))
}

async fn sleep(wait: Option<std::time::Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

/// The change for the core, which does not mirror the keys of the election, of the schema and of the audit log.
fn mirrored(change: Change) -> Option<Mirror> {
    match change {
        Change::Reset(mut pairs) => {
            pairs.retain(|(key, _)| keys::is_loaded(key));
            Some(Mirror::Reset(pairs))
        }
        Change::Put(key, value) => keys::is_loaded(&key).then_some(Mirror::Put(key, value)),
        Change::Delete(key) => keys::is_loaded(&key).then_some(Mirror::Delete(key)),
    }
}
