//! The scheduler's hands: one loop that owns the core, fed by tasks that own nothing.
//!
//! The loop never waits for a lane: it hands work over with `try_send`, and what a full lane cannot take comes back to
//! the core as not done. Everything that only a leader does lives in `Leadership` and ends the moment it is dropped.

mod absence;
mod answers;
mod backups;
mod claim;
mod commands;
mod commits;
mod ears;
mod janitor;
mod leadership;
mod naming;
mod orders;
mod plans;
mod post;
mod ready;
pub mod schema;
mod size;
pub(crate) mod streams;

use std::collections::VecDeque;

use contract::fence::Term;
use contract::keys;
use contract::progress::Progress;
use contract::query::QuarantinedKind;
use contract::report::ReportMessage;
use fabric::admin::Readiness;
use fabric::clock::Clock;
use fabric::election::{Election, Guard, Role};
use fabric::etcd::{Change, Size, Store};
use fabric::nats::Bus;
use fabric::shutdown::Shutdown;
use fabric::tasks::{Scoped, spawn_scoped};
use tokio::sync::{mpsc, watch};

use self::ears::{Asked, Questions};
use self::leadership::Leadership;
use self::plans::{Plans, Taken};
use crate::core::Core;
use crate::core::io::{Effect, Input, Mirror};
use crate::metrics::{Metrics, QuarantinedLabels};

/// Reports and questions the loop may be behind. When full, the subscriptions keep up to 65,536 more; what is dropped
/// beyond that is repaired by the next heartbeat, or asked again.
const EARS: usize = 1024;

/// Inputs that are taken in one go when they wait: whatever follows from them, plans, commits, orders, is done once.
const AT_ONCE: usize = 256;

/// The running scheduler.
pub(crate) struct Shell<'a> {
    core: Core,
    hands: Hands,
    election: &'a Election,
    role: watch::Receiver<Role>,
    duty: Duty,
    mirror: mpsc::Receiver<Change>,
    mirrored: watch::Sender<bool>,
    reports: mpsc::Receiver<ReportMessage>,
    questions: mpsc::Receiver<Asked>,
    bus: watch::Receiver<bool>,
    size: watch::Receiver<Option<Size>>,
    progress: watch::Receiver<Progress>,
    question_sender: Questions,
    answers: answers::Lane,
    backups: backups::Lane,
    plans: Plans,
    post: post::Lane,
    /// Inputs that follow from an effect which could not be handed over.
    undone: VecDeque<Input>,
    readiness: Readiness,
    _tasks: Vec<Scoped>,
}

/// What this process does besides listening.
enum Duty {
    /// Answers as a standby.
    Standby { _questions: Scoped },
    /// Won the election and reads what is stored; still answers as a standby.
    TakingOver { guard: Guard, loaded: mpsc::Receiver<leadership::Loaded>, _tasks: [Scoped; 2] },
    /// Leads.
    Leading(Box<Leadership>),
}

/// What the loop woke up for.
enum Event {
    Input(Box<Input>),
    Role(Role),
    Loaded(leadership::Loaded),
}

impl Event {
    fn input(input: Input) -> Self {
        Self::Input(Box::new(input))
    }
}

/// What everybody here works with.
#[derive(Clone)]
pub(crate) struct Hands {
    /// Name of this scheduler.
    pub(crate) name: String,
    pub(crate) bus: Bus,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
}

impl<'a> Shell<'a> {
    pub(crate) fn start(core: Core, hands: Hands, election: &'a Election, readiness: Readiness) -> Self {
        let (bus, store) = (&hands.bus, &hands.store);
        let (report_sender, reports) = mpsc::channel(EARS);
        let (question_sender, questions) = mpsc::channel(EARS);
        let (mirrored, mirrored_seen) = watch::channel(false);
        let (answers, answers_task) = answers::start(bus.clone());
        let (backups, backups_task) = backups::start(bus.clone(), store.clone());
        let (post, post_tasks) = post::start(bus.clone());
        let question_sender = Questions { out: question_sender, post: post.clone(), clock: hands.clock };
        let (size_sender, size) = watch::channel(None);
        let (progress_sender, progress) = watch::channel(Progress::default());
        let hear = ears::reports(bus.clone(), hands.clock, post.clone(), report_sender);
        let mut tasks = vec![
            answers_task,
            backups_task,
            spawn_scoped("reports", hear),
            spawn_scoped("absence of etcd", absence::tell(hands.clone())),
            spawn_scoped("size of etcd", size::sample(hands.clone(), size_sender, progress_sender)),
            spawn_scoped("readiness", ready::watch(bus.clone(), store.clone(), mirrored_seen, readiness.clone())),
        ];
        tasks.extend(post_tasks);
        Self {
            core,
            role: election.role(),
            election,
            duty: Duty::Standby { _questions: stand_by(bus, &question_sender) },
            // The whole of what is ours, in one watch: two would each reset what the other told.
            mirror: store.watch(keys::ROOT),
            mirrored,
            reports,
            questions,
            bus: ears::bus(bus),
            size,
            progress,
            question_sender,
            answers,
            backups,
            plans: Plans::new(hands.metrics.clone()),
            post,
            undone: VecDeque::new(),
            readiness,
            _tasks: tasks,
            hands,
        }
    }

    /// Runs until shutdown, or until it was to lead over what a newer scheduler has stored.
    pub(crate) async fn run(mut self, shutdown: Shutdown) -> Result<(), schema::Error> {
        let readiness = self.readiness.clone();
        // The role may have changed before the first look at it.
        self.role.mark_changed();
        loop {
            let event = tokio::select! {
                () = shutdown.wait() => return Ok(()),
                () = readiness.asked() => continue,
                event = self.next() => event,
            };
            match event {
                Event::Input(input) => self.take(*input),
                Event::Role(role) => self.take_role(role),
                // Another scheduler may have credentials that etcd takes.
                Event::Loaded(Err(schema::Error::Store(error))) => {
                    self.perform(Effect::StepDown { reason: format!("cannot read what is stored: {error}") });
                }
                Event::Loaded(stored) => self.lead(stored?),
            }
        }
    }

    async fn next(&mut self) -> Event {
        if let Some(input) = self.undone.pop_front() {
            return Event::input(input);
        }
        let wake = self.core.wake_at().map(|time| self.hands.clock.until(time));
        loop {
            tokio::select! {
                Ok(()) = self.role.changed() => return Event::Role(self.role.borrow_and_update().clone()),
                event = self.duty.next() => return event,
                Some(change) = self.mirror.recv() => {
                    if let Some(mirror) = ours(change) {
                        self.mirrored.send_if_modified(|seen| !std::mem::replace(seen, true));
                        return Event::input(Input::Mirror(mirror));
                    }
                }
                Some(report) = self.reports.recv() => return Event::input(Input::Report(report)),
                Some(asked) = self.questions.recv() => match backups::pages(asked) {
                    Ok(page) => self.count_dropped(self.backups.hand_over(page)),
                    Err(asked) if plans::is_plan(&asked) => match self.plans.take(asked) {
                        Taken::Waits => {}
                        Taken::Busy(inbox, reply) => self.count_dropped(self.answers.answer(inbox, reply)),
                    },
                    Err(Asked { query, reply, .. }) => return Event::input(Input::Query { query, reply }),
                },
                Asked { query, reply, .. } = self.plans.next() => return Event::input(Input::Query { query, reply }),
                Ok(()) = self.bus.changed() => {
                    return Event::input(Input::Bus { connected: *self.bus.borrow_and_update() });
                }
                Ok(()) = self.size.changed() => {
                    if let Some(Size { in_use, allocated }) = *self.size.borrow_and_update() {
                        return Event::input(Input::StoreSize { in_use, allocated });
                    }
                }
                Ok(()) = self.progress.changed() => {
                    return Event::input(Input::StoredProgress(self.progress.borrow_and_update().clone()));
                }
                () = sleep(wake) => return Event::input(Input::Tick),
            }
        }
    }

    /// Takes an input together with what waits behind it.
    fn take(&mut self, mut input: Input) {
        for turn in 1..AT_ONCE {
            let Some(next) = self.waiting(turn) else { break };
            self.note(&input);
            let effects = self.core.on_one_of_many(input, self.hands.clock.now());
            effects.into_iter().for_each(|effect| self.perform(effect));
            input = next;
        }
        self.feed(input);
    }

    /// What is at hand: reports and what only a leader hears, by turns, so that a flood of one does not hold up the other.
    fn waiting(&mut self, turn: usize) -> Option<Input> {
        let report = |shell: &mut Self| shell.reports.try_recv().ok().map(Input::Report);
        if turn.is_multiple_of(2) {
            report(self).or_else(|| self.duty.waiting(turn / 2))
        } else {
            self.duty.waiting(turn / 2).or_else(|| report(self))
        }
    }

    fn feed(&mut self, input: Input) {
        self.note(&input);
        for effect in self.core.on(input, self.hands.clock.now()) {
            self.perform(effect);
        }
        self.hands.metrics.disagreements.set(i64::try_from(self.core.disagreements()).unwrap_or(i64::MAX));
        self.hands.metrics.foreign_store.set(i64::try_from(self.core.foreign_store()).unwrap_or(i64::MAX));
        self.hands.metrics.store_behind.set(i64::from(self.core.is_behind()));
        self.hands.metrics.ignored_reports.set(i64::try_from(self.core.ignored_reports()).unwrap_or(i64::MAX));
        self.hands.metrics.unreadable.set(i64::try_from(self.core.unreadable()).unwrap_or(i64::MAX));
        self.hands.metrics.failed_queries.set(i64::try_from(self.core.failed_queries()).unwrap_or(i64::MAX));
        for kind in QuarantinedKind::ALL {
            let count = i64::try_from(self.core.quarantined(kind)).unwrap_or(i64::MAX);
            self.hands.metrics.quarantined.get_or_create(&QuarantinedLabels { kind: kind.word() }).set(count);
        }
    }

    fn note(&self, input: &Input) {
        match input {
            Input::Command(_) => drop(self.hands.metrics.commands.inc()),
            Input::Report(_) => drop(self.hands.metrics.reports.inc()),
            Input::Query { .. } => drop(self.hands.metrics.queries.inc()),
            Input::Mirror(_)
            | Input::Elected { .. }
            | Input::Deposed
            | Input::Committed { .. }
            | Input::OrderReplied { .. }
            | Input::Bus { .. }
            | Input::Clock { .. }
            | Input::StoreSize { .. }
            | Input::StoredProgress(_)
            | Input::Tick => {}
        }
    }

    fn take_role(&mut self, role: Role) {
        // A leader that hears of another term was deposed in between, even if it did not hear that.
        self.stand_down();
        match role {
            Role::Follower => {}
            Role::Leader(guard) => {
                let (sender, loaded) = mpsc::channel(1);
                let load = leadership::load(self.hands.clone(), guard.clone(), sender);
                let questions = stand_by(&self.hands.bus, &self.question_sender);
                let tasks = [spawn_scoped("take over", load), questions];
                self.duty = Duty::TakingOver { guard, loaded, _tasks: tasks };
            }
        }
    }

    fn stand_down(&mut self) {
        match self.duty {
            Duty::Standby { .. } => return,
            Duty::TakingOver { .. } | Duty::Leading(_) => {}
        }
        // Dropping what led ends its tasks; then the core is told.
        self.duty = Duty::Standby { _questions: stand_by(&self.hands.bus, &self.question_sender) };
        self.hands.metrics.leader.set(0);
        self.hands.metrics.term.set(0);
        self.feed(Input::Deposed);
    }

    fn lead(&mut self, stored: Vec<(String, Vec<u8>)>) {
        let Duty::TakingOver { guard, .. } = &self.duty else { return };
        let guard = guard.clone();
        let store = naming::read(&stored);
        let term = store.base.saturating_add(guard.term);
        tracing::info!(term, records = stored.len(), "takes over");
        let leadership = Leadership::start(guard, Term(term), &stored, &self.hands, &self.question_sender);
        self.duty = Duty::Leading(Box::new(leadership));
        self.hands.metrics.leader.set(1);
        self.hands.metrics.term.set(i64::try_from(term).unwrap_or(i64::MAX));
        self.feed(Input::Elected { term: Term(term), stored });
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Commit(commit) => self.undone.extend(self.duty.commit(commit)),
            Effect::SendOrder { node, message } => self.undone.extend(self.duty.order(node, message)),
            Effect::AskWhole { node } => self.count_dropped(self.answers.ask_whole(&node)),
            Effect::Resolve { inbox, outcome } => self.count_dropped(self.answers.resolve(inbox, outcome)),
            // A leader that was stopped longer than its lease may not know yet: its asker asks again and hears another.
            Effect::Answer { reply, .. } if !reply.stale && !self.election.holds() => {
                self.hands.metrics.dropped.inc();
            }
            Effect::Answer { inbox, reply } => {
                self.plans.answered(&inbox);
                self.count_dropped(self.answers.answer(inbox, reply));
            }
            // What the plan is computed from was read while this process led, so the plan is as good as any answer then.
            Effect::Plan { stale, .. } if !stale && !self.election.holds() => drop(self.hands.metrics.dropped.inc()),
            Effect::Plan { inbox, stale, dry_run } => self.plans.compute(&self.hands.bus, inbox, stale, dry_run),
            Effect::Notify { callbacks, body } => {
                for callback in callbacks {
                    self.count_dropped(self.post.notice(callback, body.clone()));
                }
            }
            Effect::Record(event) => self.count_dropped(self.post.event(event)),
            Effect::Bury(letter) => self.count_dropped(self.post.bury(post::kind_of(&letter), letter)),
            Effect::StepDown { reason } => {
                tracing::warn!(%reason, "gives up leadership");
                self.election.resign();
                self.stand_down();
            }
        }
    }

    fn count_dropped(&self, handed: Result<(), post::Full>) {
        if handed.is_err() {
            self.hands.metrics.dropped.inc();
        }
    }
}

impl Duty {
    async fn next(&mut self) -> Event {
        match self {
            Self::Standby { .. } => std::future::pending().await,
            Self::TakingOver { loaded, .. } => match loaded.recv().await {
                Some(stored) => Event::Loaded(stored),
                None => std::future::pending().await,
            },
            Self::Leading(leadership) => Event::input(leadership.next().await),
        }
    }

    /// A command or an answer to an order that is at hand.
    fn waiting(&mut self, turn: usize) -> Option<Input> {
        match self {
            Self::Leading(leadership) => leadership.waiting(turn),
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

fn stand_by(bus: &Bus, questions: &Questions) -> Scoped {
    spawn_scoped("standby questions", ears::standby_questions(bus.clone(), questions.clone()))
}

async fn sleep(wait: Option<std::time::Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

/// The election and the schema are ours too, but not the core's.
fn is_state(key: &str) -> bool {
    key.starts_with(keys::STATE) || key.starts_with(keys::OUTCOMES)
}

fn ours(change: Change) -> Option<Mirror> {
    match change {
        Change::Reset(mut pairs) => {
            pairs.retain(|(key, _)| is_state(key));
            Some(Mirror::Reset(pairs))
        }
        Change::Put(key, value) => is_state(&key).then_some(Mirror::Put(key, value)),
        Change::Delete(key) => is_state(&key).then_some(Mirror::Delete(key)),
    }
}
