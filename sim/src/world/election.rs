//! Leadership of the simulated schedulers, their commits, their watch and their reading of the command stream.
//!
//! The same rules as fabric's election: a lease of 5 s renewed each second, step-down by the own clock after 3.5 s,
//! term = create revision. Only the store's guard is trusted.

use std::time::Duration;

use contract::fence::Term;
use contract::keys;
use contract::record::Cursor;
use scheduler::core::Core;
use scheduler::core::io::{Commit, CommitResult, Delivery, Input, Mirror, Write};

use crate::world::event::{AtScheduler, Event};
use crate::world::scheduler_process::{self, Belief, Feed, Lane};
use crate::world::store::{Arrived, Candidate, RENEW, STEP_DOWN};
use crate::world::{Nodes, World};

/// The shell gives up on a commit after so long.
const COMMIT_DEADLINE: Duration = Duration::from_secs(2);

impl World {
    /// A scheduler process starts.
    pub fn start_scheduler(&mut self, seat: usize) {
        if self.seats[seat].core.is_some() {
            return;
        }
        let now = self.queue.now();
        let process = &mut self.seats[seat];
        let (store_cut, bus_cut, watch) = (process.store_cut, process.bus_cut, process.watch + 1);
        let (life, lease) = (process.life + 1, process.lease + 1);
        let most = i64::try_from(self.plan.scheduler_skew).unwrap_or(0);
        let skew = i64::try_from(self.random.below(2 * self.plan.scheduler_skew + 1)).unwrap_or(0) - most;
        *process = scheduler_process::Seat {
            life,
            lease,
            store_cut,
            bus_cut,
            skew,
            watch,
            ..scheduler_process::Seat::new(now)
        };
        process.core = Some(Core::new(scheduler_process::settings(
            seat,
            self.mutant.and_then(crate::mutant::Mutant::of_scheduler),
        )));
        self.trace.line(now, &format!("s{seat}"), "starts");
        if bus_cut {
            self.feed_scheduler(seat, Input::Bus { connected: false });
        }
        self.queue.after(Duration::ZERO, Event::Scheduler { seat, life, what: AtScheduler::MirrorReset });
        let first = self.random.span(1, 1_000);
        self.queue.after(first, Event::Scheduler { seat, life, what: AtScheduler::Campaign });
    }

    /// A scheduler process is killed.
    pub fn kill_scheduler(&mut self, seat: usize) {
        let now = self.queue.now();
        self.trace.line(now, &format!("s{seat}"), "is killed");
        self.seats[seat].core = None;
        self.seats[seat].belief = Belief::Follower;
    }

    /// The election's look at the lease, once a second.
    pub fn campaign(&mut self, seat: usize) {
        let now = self.queue.now();
        let (candidate, life) = (self.seats[seat].candidate(seat), self.seats[seat].life);
        let reachable = self.reaches_store(seat);
        let mut next = now + RENEW;
        match self.seats[seat].belief {
            Belief::Follower if reachable => self.try_to_lead(seat, candidate),
            Belief::Follower => {}
            Belief::Loading { term, renewed } | Belief::Leading { term, renewed } => {
                if now.since(renewed) >= STEP_DOWN {
                    self.depose(seat);
                } else if !reachable {
                    next = next.min(renewed + STEP_DOWN);
                } else if self.store.renew(candidate, term, now) {
                    self.renewed(seat);
                } else {
                    self.depose(seat);
                }
            }
        }
        self.queue.at(next, Event::Scheduler { seat, life, what: AtScheduler::Campaign });
    }

    fn renewed(&mut self, seat: usize) {
        let now = self.queue.now();
        match &mut self.seats[seat].belief {
            Belief::Follower => {}
            Belief::Loading { renewed, .. } | Belief::Leading { renewed, .. } => *renewed = now,
        }
    }

    fn try_to_lead(&mut self, seat: usize, candidate: Candidate) {
        let now = self.queue.now();
        if let Some(term) = self.store.campaign(candidate, now) {
            self.trace.line(now, &format!("s{seat}"), &format!("wins term {term}"));
            self.seats[seat].belief = Belief::Loading { term, renewed: now };
            let (life, read) = (self.seats[seat].life, self.random.span(2, 60));
            self.queue.after(read, Event::Scheduler { seat, life, what: AtScheduler::Loaded(term) });
        }
    }

    /// The state is read; the core leads from here.
    pub fn loaded(&mut self, seat: usize, term: Term) {
        let Belief::Loading { renewed, .. } = self.seats[seat].belief else { return };
        if !self.reaches_store(seat) {
            let (life, again) = (self.seats[seat].life, Duration::from_millis(200));
            return self.queue.after(again, Event::Scheduler { seat, life, what: AtScheduler::Loaded(term) });
        }
        let cursor: Cursor = self.store.read(keys::CURSOR).unwrap_or_default();
        let known = cursor.stream == self.bus.identity();
        let next = if known { cursor.sequence + 1 } else { 1 };
        let life = self.seats[seat].life;
        self.seats[seat].belief = Belief::Leading { term, renewed };
        self.seats[seat].commit = None;
        self.seats[seat].feed = Some(Feed { creation: self.bus.creation, next, busy: true });
        let stored = self.store.all();
        self.feed_scheduler(seat, Input::Elected { term, stored });
        let delay = self.random.span(1, 20);
        self.queue.after(delay, Event::Scheduler { seat, life, what: AtScheduler::Feed });
    }

    fn depose(&mut self, seat: usize) {
        self.seats[seat].belief = Belief::Follower;
        self.seats[seat].lease += 1;
        self.seats[seat].feed = None;
        self.seats[seat].commit = None;
        self.feed_scheduler(seat, Input::Deposed);
        let life = self.seats[seat].life;
        self.queue.after(Duration::from_millis(30), Event::Scheduler { seat, life, what: AtScheduler::MirrorReset });
    }

    /// The core gives up leadership.
    pub fn step_down(&mut self, seat: usize) {
        let now = self.queue.now();
        if self.reaches_store(seat) {
            let candidate = self.seats[seat].candidate(seat);
            self.store.resign(candidate, now);
        }
        if self.seats[seat].belief != Belief::Follower {
            self.depose(seat);
        }
    }

    /// A commit leaves a scheduler. Its answer is waited for only so long, and only by the leadership that sent it.
    pub fn send_commit(&mut self, seat: usize, commit: Commit) {
        let life = self.seats[seat].life;
        self.watch.committing(seat, self.seats[seat].commit, &commit, self.queue.now());
        self.attempts += 1;
        let attempt = self.attempts;
        self.seats[seat].commit = Some(Lane { id: commit.id, attempt });
        // A straggler is given up by its sender and arrives all the same.
        let straggles = self.random.chance(self.store.unknown);
        let (fastest, slowest) = if straggles { (2_100, 7_000) } else { (1, self.store.slowest) };
        let delay = self.random.span(fastest, slowest);
        self.queue.after(COMMIT_DEADLINE, Event::Scheduler { seat, life, what: AtScheduler::CommitDeadline(attempt) });
        self.queue.after(delay, Event::Commit { seat, attempt, commit });
    }

    /// A commit reaches etcd.
    pub fn commit_arrives(&mut self, seat: usize, attempt: u64, commit: &Commit) {
        let now = self.queue.now();
        let lost = self.random.chance(self.store.unknown);
        if !self.reaches_store(seat) || (lost && self.random.chance(50)) {
            return;
        }
        let led = self.store.leader(now).map(|key| key.term);
        let arrived = self.store.commit(commit, now);
        self.trace.line(now, "etcd", &format!("{arrived:?}: commit {} of s{seat} term {}", commit.id, commit.term));
        let result = match arrived {
            Arrived::Stored => {
                self.watch.stored(commit, led, &self.store, now);
                self.watch.decided(&Nodes { engines: &self.engines, machines: &self.machines }, now);
                self.mirror(commit);
                CommitResult::Stored
            }
            Arrived::Again => CommitResult::Stored,
            Arrived::Fenced => CommitResult::Fenced,
            Arrived::Refused => CommitResult::Unknown,
        };
        if !lost {
            let (life, delay) = (self.seats[seat].life, self.random.span(1, 10));
            let what = AtScheduler::CommitAnswered(attempt, result);
            self.queue.after(delay, Event::Scheduler { seat, life, what });
        }
    }

    /// The answer to a commit, if it is still waited for.
    pub fn commit_answered(&mut self, seat: usize, attempt: u64, result: CommitResult) {
        if let Some(Lane { id, .. }) = self.seats[seat].commit.take_if(|lane| lane.attempt == attempt) {
            self.feed_scheduler(seat, Input::Committed { id, result });
        }
    }

    /// Everybody who watches sees the change, in order, a little later.
    fn mirror(&mut self, commit: &Commit) {
        for seat in 0..self.seats.len() {
            if self.seats[seat].core.is_none() || !self.seats[seat].watches || !self.reaches_store(seat) {
                continue;
            }
            let at = (self.queue.now() + self.random.span(1, 80)).max(self.seats[seat].mirrored);
            self.seats[seat].mirrored = at;
            let (life, watch) = (self.seats[seat].life, self.seats[seat].watch);
            for write in &commit.writes {
                let change = match write.clone() {
                    Write::Put { key, value, .. } => Mirror::Put(key, value),
                    Write::Delete { key } => Mirror::Delete(key),
                };
                self.queue.at(at, Event::Scheduler { seat, life, what: AtScheduler::Mirrored { watch, change } });
            }
        }
    }

    /// The watch of one scheduler lists everything anew.
    pub fn mirror_reset(&mut self, seat: usize) {
        if self.reaches_store(seat) {
            self.seats[seat].watches = true;
            // What the watch still had under way is older than this listing.
            let at = self.queue.now().max(self.seats[seat].mirrored);
            self.seats[seat].mirrored = at;
            let (life, all) = (self.seats[seat].life, self.store.all());
            if at == self.queue.now() {
                self.feed_scheduler(seat, Input::Mirror(Mirror::Reset(all)));
            } else {
                self.queue.at(at, Event::Scheduler { seat, life, what: AtScheduler::MirrorReset });
            }
        }
    }

    /// The reader of the command stream hands over the next message.
    pub fn feed_command(&mut self, seat: usize) {
        let creation = self.bus.creation;
        let is_cut = self.seats[seat].bus_cut;
        let Some(feed) = self.seats[seat].feed.as_mut() else { return };
        if is_cut {
            feed.busy = false;
            return;
        }
        if feed.creation != creation {
            *feed = Feed { creation, next: 1, busy: true };
        }
        let sequence = feed.next;
        let Some(message) = self.bus.message(sequence).cloned() else {
            feed.busy = false;
            return;
        };
        // Now and then a message comes twice: the reader promises order, not more.
        if !self.random.chance(3) {
            feed.next += 1;
        }
        let stream = self.bus.identity();
        let delivery =
            Delivery { stream, sequence, stored_at: None, reply: Some(message.reply), command: message.command };
        self.feed_scheduler(seat, Input::Command(delivery));
        let (life, delay) = (self.seats[seat].life, self.random.span(1, 6));
        self.queue.after(delay, Event::Scheduler { seat, life, what: AtScheduler::Feed });
    }

    /// A new message wakes every reader that waits.
    pub fn wake_readers(&mut self) {
        for seat in 0..self.seats.len() {
            let life = self.seats[seat].life;
            let is_cut = self.seats[seat].bus_cut;
            if let Some(feed) = self.seats[seat].feed.as_mut().filter(|feed| !feed.busy && !is_cut) {
                feed.busy = true;
                let delay = self.random.span(1, 10);
                self.queue.after(delay, Event::Scheduler { seat, life, what: AtScheduler::Feed });
            }
        }
    }
}
