//! What befalls etcd and the bus, and a scheduler's way to them.

use std::time::Duration;

use scheduler::core::io::Input;

use crate::faults::{Fault, Target};
use crate::world::World;
use crate::world::event::{AtScheduler, Event};

impl World {
    /// A scheduler does not reach etcd for a while.
    pub fn cut_store(&mut self, which: Target, span: Duration) {
        if let Some(scheduler) = self.scheduler_of(which) {
            self.schedulers[scheduler].store_cut = true;
            self.queue.after(span, Event::Fault(Fault::JoinStore(scheduler)));
        }
    }

    /// It does again.
    pub fn join_store(&mut self, scheduler: usize) {
        if std::mem::take(&mut self.schedulers[scheduler].store_cut) {
            self.list_soon(scheduler, Duration::from_millis(50));
        }
    }

    /// A scheduler does not reach the bus for a while. Its client finds out after some seconds.
    pub fn cut_bus(&mut self, which: Target, span: Duration) {
        if let Some(scheduler) = self.scheduler_of(which) {
            self.schedulers[scheduler].bus_cut = true;
            let noticed = self.random.span(1, 10_000);
            self.notice_bus(scheduler, noticed);
            self.queue.after(span, Event::Fault(Fault::JoinBus(scheduler)));
        }
    }

    /// It does again: what was published meanwhile is lost to it, but for the stream of commands.
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

    /// The client of a scheduler finds out whether it is connected.
    pub fn bus_ping(&mut self, scheduler: usize) {
        let connected = !self.schedulers[scheduler].bus_cut;
        self.feed_scheduler(scheduler, Input::Bus { connected });
    }

    /// Every watch ends with what it had under way, and each scheduler lists everything anew when it finds out.
    pub fn compact(&mut self) {
        for scheduler in 0..self.schedulers.len() {
            let now = self.queue.now();
            let process = &mut self.schedulers[scheduler];
            (process.watch, process.watches, process.mirrored) = (process.watch + 1, false, now);
            let delay = self.random.span(20, 3_000);
            self.list_soon(scheduler, delay);
        }
    }

    /// Nobody reads or writes for a while.
    pub fn lose_quorum(&mut self, span: Duration) {
        self.store.is_lost = true;
        self.queue.after(span, Event::Fault(Fault::QuorumBack));
    }

    /// They do again; watches went on from where they were, or begin anew.
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
