//! What befalls etcd and the bus, and a scheduler's way to them.

use std::time::Duration;

use scheduler::core::io::Input;

use crate::faults::{Fault, Which};
use crate::world::World;
use crate::world::event::{AtScheduler, Event};

impl World {
    /// A scheduler does not reach etcd for a while.
    pub fn cut_store(&mut self, which: Which, span: Duration) {
        if let Some(seat) = self.seat_of(which) {
            self.seats[seat].store_cut = true;
            self.queue.after(span, Event::Fault(Fault::JoinStore(seat)));
        }
    }

    /// It does again.
    pub fn join_store(&mut self, seat: usize) {
        if std::mem::take(&mut self.seats[seat].store_cut) {
            self.list_soon(seat, Duration::from_millis(50));
        }
    }

    /// A scheduler does not reach the bus for a while. Its client finds out after some seconds.
    pub fn cut_bus(&mut self, which: Which, span: Duration) {
        if let Some(seat) = self.seat_of(which) {
            self.seats[seat].bus_cut = true;
            let noticed = self.random.span(1, 10_000);
            self.notice_bus(seat, noticed);
            self.queue.after(span, Event::Fault(Fault::JoinBus(seat)));
        }
    }

    /// It does again: what was published meanwhile is lost to it, but for the stream of commands.
    pub fn join_bus(&mut self, seat: usize) {
        if std::mem::take(&mut self.seats[seat].bus_cut) {
            self.notice_bus(seat, Duration::from_millis(1));
            self.wake_readers();
        }
    }

    fn notice_bus(&mut self, seat: usize, after: Duration) {
        let life = self.seats[seat].life;
        self.queue.after(after, Event::Scheduler { seat, life, what: AtScheduler::BusPing });
    }

    /// The client of a scheduler finds out whether it is connected.
    pub fn bus_ping(&mut self, seat: usize) {
        let connected = !self.seats[seat].bus_cut;
        self.feed_scheduler(seat, Input::Bus { connected });
    }

    /// Every watch ends with what it had under way, and each scheduler lists everything anew when it finds out.
    pub fn compact(&mut self) {
        for seat in 0..self.seats.len() {
            let now = self.queue.now();
            let process = &mut self.seats[seat];
            (process.watch, process.watches, process.mirrored) = (process.watch + 1, false, now);
            let delay = self.random.span(20, 3_000);
            self.list_soon(seat, delay);
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
            (0..self.seats.len()).for_each(|seat| self.list_soon(seat, Duration::from_millis(50)));
        }
    }

    fn list_soon(&mut self, seat: usize, after: Duration) {
        let life = self.seats[seat].life;
        self.queue.after(after, Event::Scheduler { seat, life, what: AtScheduler::MirrorReset });
    }
}
