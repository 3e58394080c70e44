//! Leadership of the simulated schedulers, their commits, their etcd watch and their position in the command stream.
//!
//! The same rules as the election in fabric: a lease of 5 s renewed each second, step-down by the own clock after 3.5 s, term =
//! create revision of the leader key. Only etcd's guard on each transaction is trusted.

use std::time::Duration;

use contract::fence::Term;
use contract::keys;
use contract::record::Cursor;
use scheduler::core::Core;
use scheduler::core::io::{Commit, CommitResult, Delivery, Input, Mirror, Write};
use testkit::store::{Arrived, Candidate, Change, RENEW, STEP_DOWN};

use crate::world::event::{AtScheduler, Event};
use crate::world::scheduler_process::{self, Belief, InFlightCommit, StreamReader};
use crate::world::{GroundTruth, World};

const COMMIT_DEADLINE: Duration = Duration::from_secs(2);

pub fn change(write: &Write) -> Change<'_> {
    match write {
        Write::Put { key, value, .. } => (key, Some(value)),
        Write::Delete { key } => (key, None),
    }
}

impl World {
    pub fn start_scheduler(&mut self, scheduler: usize) {
        if self.schedulers[scheduler].core.is_some() {
            return;
        }
        let now = self.queue.now();
        let process = &mut self.schedulers[scheduler];
        let (store_cut, bus_cut, watch) = (process.store_cut, process.bus_cut, process.watch + 1);
        let (life, lease) = (process.life + 1, process.lease + 1);
        let most = i64::try_from(self.scenario.scheduler_skew).unwrap_or(0);
        let skew = i64::try_from(self.random.below(2 * self.scenario.scheduler_skew + 1)).unwrap_or(0) - most;
        *process = scheduler_process::SchedulerProcess {
            life,
            lease,
            store_cut,
            bus_cut,
            skew,
            watch,
            ..scheduler_process::SchedulerProcess::new(now)
        };
        process.core = Some(Core::new(scheduler_process::settings(
            scheduler,
            self.mutant.and_then(crate::mutant::Mutant::of_scheduler),
        )));
        self.trace.line(now, &format!("s{scheduler}"), "starts");
        if bus_cut {
            self.feed_scheduler(scheduler, Input::Bus { connected: false });
        }
        self.queue.after(Duration::ZERO, Event::Scheduler { scheduler, life, what: AtScheduler::MirrorReset });
        let first = self.random.span(1, 1_000);
        self.queue.after(first, Event::Scheduler { scheduler, life, what: AtScheduler::Campaign });
    }

    pub fn kill_scheduler(&mut self, scheduler: usize) {
        let now = self.queue.now();
        self.trace.line(now, &format!("s{scheduler}"), "is killed");
        self.schedulers[scheduler].core = None;
        self.schedulers[scheduler].belief = Belief::Follower;
    }

    /// Renews the lease or campaigns, once a second.
    pub fn campaign(&mut self, scheduler: usize) {
        let now = self.queue.now();
        let (candidate, life) = (self.schedulers[scheduler].candidate(scheduler), self.schedulers[scheduler].life);
        let reachable = self.reaches_store(scheduler);
        let mut next = now + RENEW;
        match self.schedulers[scheduler].belief {
            Belief::Follower if reachable => self.try_to_lead(scheduler, candidate),
            Belief::Follower => {}
            Belief::Loading { term, renewed } | Belief::Leading { term, renewed } => {
                if now.since(renewed) >= STEP_DOWN {
                    self.depose(scheduler);
                } else if !reachable {
                    next = next.min(renewed + STEP_DOWN);
                } else if self.store.renew(candidate, term, now) {
                    self.renewed(scheduler);
                } else {
                    self.depose(scheduler);
                }
            }
        }
        self.queue.at(next, Event::Scheduler { scheduler, life, what: AtScheduler::Campaign });
    }

    fn renewed(&mut self, scheduler: usize) {
        let now = self.queue.now();
        match &mut self.schedulers[scheduler].belief {
            Belief::Follower => {}
            Belief::Loading { renewed, .. } | Belief::Leading { renewed, .. } => *renewed = now,
        }
    }

    fn try_to_lead(&mut self, scheduler: usize, candidate: Candidate) {
        let now = self.queue.now();
        if let Some(term) = self.store.campaign(candidate, now) {
            self.trace.line(now, &format!("s{scheduler}"), &format!("wins term {term}"));
            self.schedulers[scheduler].belief = Belief::Loading { term, renewed: now };
            let (life, read) = (self.schedulers[scheduler].life, self.random.span(2, 60));
            self.queue.after(read, Event::Scheduler { scheduler, life, what: AtScheduler::Loaded(term) });
        }
    }

    /// The new leader has read the store and starts to lead.
    pub fn loaded(&mut self, scheduler: usize, term: Term) {
        let Belief::Loading { renewed, .. } = self.schedulers[scheduler].belief else { return };
        if !self.reaches_store(scheduler) {
            let (life, again) = (self.schedulers[scheduler].life, Duration::from_millis(200));
            return self.queue.after(again, Event::Scheduler { scheduler, life, what: AtScheduler::Loaded(term) });
        }
        let cursor: Cursor = self.store.read(keys::CURSOR).unwrap_or_default();
        let known = cursor.stream == self.bus.identity();
        let next = if known { cursor.sequence + 1 } else { 1 };
        let life = self.schedulers[scheduler].life;
        self.schedulers[scheduler].belief = Belief::Leading { term, renewed };
        self.schedulers[scheduler].commit = None;
        self.schedulers[scheduler].reader = Some(StreamReader { creation: self.bus.creation, next, busy: true });
        let stored = self.store.loaded();
        self.feed_scheduler(scheduler, Input::Elected { term, stored });
        let delay = self.random.span(1, 20);
        self.queue.after(delay, Event::Scheduler { scheduler, life, what: AtScheduler::ReadCommand });
    }

    fn depose(&mut self, scheduler: usize) {
        self.schedulers[scheduler].belief = Belief::Follower;
        self.schedulers[scheduler].lease += 1;
        self.schedulers[scheduler].reader = None;
        self.schedulers[scheduler].commit = None;
        self.feed_scheduler(scheduler, Input::Deposed);
        let life = self.schedulers[scheduler].life;
        self.queue
            .after(Duration::from_millis(30), Event::Scheduler { scheduler, life, what: AtScheduler::MirrorReset });
    }

    pub fn step_down(&mut self, scheduler: usize) {
        let now = self.queue.now();
        if self.reaches_store(scheduler) {
            let candidate = self.schedulers[scheduler].candidate(scheduler);
            self.store.resign(candidate, now);
        }
        if self.schedulers[scheduler].belief != Belief::Follower {
            self.depose(scheduler);
        }
    }

    /// Sends a commit. The scheduler waits 2 s for the answer.
    pub fn send_commit(&mut self, scheduler: usize, commit: Commit) {
        let life = self.schedulers[scheduler].life;
        self.checker.committing(scheduler, self.schedulers[scheduler].commit, &commit, self.queue.now());
        self.attempts += 1;
        let attempt = self.attempts;
        self.schedulers[scheduler].commit = Some(InFlightCommit { id: commit.id, attempt });
        // The commit may arrive after its sender gave up.
        let straggles = self.random.chance(self.store.unknown);
        let (fastest, slowest) = if straggles { (2_100, 7_000) } else { (1, self.store.slowest) };
        let delay = self.random.span(fastest, slowest);
        self.queue
            .after(COMMIT_DEADLINE, Event::Scheduler { scheduler, life, what: AtScheduler::CommitDeadline(attempt) });
        self.queue.after(delay, Event::Commit { scheduler, attempt, commit });
    }

    pub fn commit_arrives(&mut self, scheduler: usize, attempt: u64, commit: &Commit) {
        let now = self.queue.now();
        let lost = self.random.chance(self.store.unknown);
        if !self.reaches_store(scheduler) || (lost && self.random.chance(50)) {
            return;
        }
        let led = self.store.leader(now).map(|key| key.term);
        let arrived = self.store.commit((commit.term, commit.id), commit.writes.iter().map(change), now);
        self.trace.line(
            now,
            "etcd",
            &format!("{arrived:?}: commit {} of s{scheduler} term {}", commit.id, commit.term),
        );
        let result = match arrived {
            Arrived::Stored => {
                self.checker.stored(commit, led, &self.store, now);
                self.checker.check_decisions(&GroundTruth { engines: &self.engines, nodes: &self.nodes }, now);
                self.mirror(commit);
                CommitResult::Stored
            }
            Arrived::Again => CommitResult::Stored,
            Arrived::Fenced => CommitResult::Fenced,
            Arrived::Refused => CommitResult::Unknown,
        };
        if !lost {
            let (life, delay) = (self.schedulers[scheduler].life, self.random.span(1, 10));
            let what = AtScheduler::CommitAnswered(attempt, result);
            self.queue.after(delay, Event::Scheduler { scheduler, life, what });
        }
    }

    /// The answer to a commit; ignored after the timeout.
    pub fn commit_answered(&mut self, scheduler: usize, attempt: u64, result: CommitResult) {
        if let Some(InFlightCommit { id, .. }) =
            self.schedulers[scheduler].commit.take_if(|commit| commit.attempt == attempt)
        {
            self.feed_scheduler(scheduler, Input::Committed { id, result });
        }
    }

    /// Sends the change to every watch, in sequence.
    fn mirror(&mut self, commit: &Commit) {
        for scheduler in 0..self.schedulers.len() {
            if self.schedulers[scheduler].core.is_none()
                || !self.schedulers[scheduler].watches
                || !self.reaches_store(scheduler)
            {
                continue;
            }
            let at = (self.queue.now() + self.random.span(1, 80)).max(self.schedulers[scheduler].mirrored);
            self.schedulers[scheduler].mirrored = at;
            let (life, watch) = (self.schedulers[scheduler].life, self.schedulers[scheduler].watch);
            for write in commit.writes.iter().filter(|write| keys::is_loaded(write.key())) {
                let change = match write.clone() {
                    Write::Put { key, value, .. } => Mirror::Put(key, value),
                    Write::Delete { key } => Mirror::Delete(key),
                };
                self.queue.at(at, Event::Scheduler { scheduler, life, what: AtScheduler::Mirrored { watch, change } });
            }
        }
    }

    /// Lists all keys and starts the watch again.
    pub fn mirror_reset(&mut self, scheduler: usize) {
        if self.reaches_store(scheduler) {
            self.schedulers[scheduler].watches = true;
            // Changes still on their way are older than this list.
            let at = self.queue.now().max(self.schedulers[scheduler].mirrored);
            self.schedulers[scheduler].mirrored = at;
            let (life, all) = (self.schedulers[scheduler].life, self.store.loaded());
            if at == self.queue.now() {
                self.feed_scheduler(scheduler, Input::Mirror(Mirror::Reset(all)));
            } else {
                self.queue.at(at, Event::Scheduler { scheduler, life, what: AtScheduler::MirrorReset });
            }
        }
    }

    /// Delivers the next message of the command stream.
    pub fn read_command(&mut self, scheduler: usize) {
        let creation = self.bus.creation;
        let is_cut = self.schedulers[scheduler].bus_cut;
        let Some(reader) = self.schedulers[scheduler].reader.as_mut() else { return };
        if is_cut {
            reader.busy = false;
            return;
        }
        if reader.creation != creation {
            *reader = StreamReader { creation, next: 1, busy: true };
        }
        let sequence = reader.next;
        let Some(message) = self.bus.message(sequence).cloned() else {
            reader.busy = false;
            return;
        };
        // 3 % of the messages arrive twice: the reader guarantees sequence, not uniqueness.
        if !self.random.chance(3) {
            reader.next += 1;
        }
        let stream = self.bus.identity();
        let delivery =
            Delivery { stream, sequence, stored_at: None, reply: Some(message.reply), command: message.command };
        self.feed_scheduler(scheduler, Input::Command(delivery));
        let (life, delay) = (self.schedulers[scheduler].life, self.random.span(1, 6));
        self.queue.after(delay, Event::Scheduler { scheduler, life, what: AtScheduler::ReadCommand });
    }

    /// Wakes every reader that waits for a message.
    pub fn wake_readers(&mut self) {
        for scheduler in 0..self.schedulers.len() {
            let life = self.schedulers[scheduler].life;
            let is_cut = self.schedulers[scheduler].bus_cut;
            if let Some(reader) = self.schedulers[scheduler].reader.as_mut().filter(|reader| !reader.busy && !is_cut) {
                reader.busy = true;
                let delay = self.random.span(1, 10);
                self.queue.after(delay, Event::Scheduler { scheduler, life, what: AtScheduler::ReadCommand });
            }
        }
    }
}
