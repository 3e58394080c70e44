//! Faults of etcd, of the bus, and of a scheduler's connections to them.

use std::time::Duration;

use scheduler::core::io::Input;

use crate::faults::{Fault, Target};
use crate::world::World;
use crate::world::event::{AtScheduler, Event};

impl World {
    pub fn cut_store(&mut self, which: Target, span: Duration) {
        if let Some(scheduler) = self.scheduler_of(which) {
            self.schedulers[scheduler].store_cut = true;
            self.queue.after(span, Event::Fault(Fault::JoinStore(scheduler)));
        }
    }

    pub fn join_store(&mut self, scheduler: usize) {
        if std::mem::take(&mut self.schedulers[scheduler].store_cut) {
            self.list_soon(scheduler, Duration::from_millis(50));
        }
    }

    /// Cuts a scheduler off the bus. Its client notices within 10 s.
    pub fn cut_bus(&mut self, which: Target, span: Duration) {
        if let Some(scheduler) = self.scheduler_of(which) {
            self.schedulers[scheduler].bus_cut = true;
            let noticed = self.random.span(1, 10_000);
            self.notice_bus(scheduler, noticed);
            self.queue.after(span, Event::Fault(Fault::JoinBus(scheduler)));
        }
    }

    /// Reconnects a scheduler. It lost the messages published meanwhile, except commands, which the stream keeps.
    pub fn join_bus(&mut self, scheduler: usize) {
        if std::mem::take(&mut self.schedulers[scheduler].bus_cut) {
            self.notice_bus(scheduler, Duration::from_millis(1));
            self.wake_readers();
        }
    }

    fn notice_bus(&mut self, scheduler: usize, after: Duration) {
        let life = self.schedulers[scheduler].life;
        self.queue.after(after, Event::Scheduler { scheduler, life, what: AtScheduler::BusPing });
    }

    pub fn bus_ping(&mut self, scheduler: usize) {
        let connected = !self.schedulers[scheduler].bus_cut;
        self.feed_scheduler(scheduler, Input::Bus { connected });
    }

    /// Ends every watch with the changes on their way; each scheduler lists all keys when it notices.
    pub fn compact(&mut self) {
        for scheduler in 0..self.schedulers.len() {
            let now = self.queue.now();
            let process = &mut self.schedulers[scheduler];
            (process.watch, process.watches, process.mirrored) = (process.watch + 1, false, now);
            let delay = self.random.span(20, 3_000);
            self.list_soon(scheduler, delay);
        }
    }

    pub fn lose_quorum(&mut self, span: Duration) {
        self.store.is_lost = true;
        self.queue.after(span, Event::Fault(Fault::QuorumBack));
    }

    /// Restores the quorum; every scheduler lists all keys.
    pub fn regain_quorum(&mut self) {
        if self.store.is_lost {
            self.store.come_back(self.queue.now());
            (0..self.schedulers.len()).for_each(|scheduler| self.list_soon(scheduler, Duration::from_millis(50)));
        }
    }

    fn list_soon(&mut self, scheduler: usize, after: Duration) {
        let life = self.schedulers[scheduler].life;
        self.queue.after(after, Event::Scheduler { scheduler, life, what: AtScheduler::MirrorReset });
    }
}
