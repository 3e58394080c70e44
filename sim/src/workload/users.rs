//! The users: they publish commands until the stream acknowledges them, hear outcomes, and ask.
//!
//! What a user knows to be accepted is the floor of every later answer that is not marked stale.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::command::{Outcome, Verdict};
use contract::name::GroupName;
use contract::query::{Answer, Query, Reply};
use contract::time::Timestamp;

use crate::checks::invariants::Invariant;
use crate::describe;
use crate::workload::{MOST_TRIES, RETRY};
use crate::world::World;
use crate::world::bus::StreamMessage;
use crate::world::event::{Arrival, AtUser, Event};

/// An answer that takes longer is not waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// What all users know.
#[derive(Debug, Default)]
pub struct Users {
    floor: BTreeMap<GroupName, usize>,
    asked: BTreeMap<u64, PendingQuery>,
    count: u64,
}

#[derive(Debug)]
struct PendingQuery {
    group: GroupName,
    floor: usize,
    at: Timestamp,
}

impl World {
    /// A user does something.
    pub fn at_user(&mut self, what: &AtUser) {
        match *what {
            AtUser::Publish { index, attempt } => self.publish(index, attempt),
            AtUser::Tend => self.tend(),
            AtUser::Ask { group } => {
                if let Some(group) = self.group_name(group) {
                    self.ask(group);
                }
            }
        }
    }

    fn publish(&mut self, index: usize, attempt: u32) {
        let now = self.queue.now();
        let loss = self.bus.conditions.loss;
        let (request_lost, ack_lost) = (self.random.chance(loss), self.random.chance(loss));
        if !request_lost {
            self.store_message(index);
        }
        if (request_lost || ack_lost) && attempt < MOST_TRIES && now < self.scenario.calm_at {
            self.queue.after(RETRY, Event::User(AtUser::Publish { index, attempt: attempt + 1 }));
        }
    }

    fn store_message(&mut self, index: usize) {
        let now = self.queue.now();
        let command = self.workload.commands[index].command.clone();
        let line = command.as_ref().map_or_else(|letter| letter.payload.clone(), describe::command);
        let known = command.as_ref().ok().cloned();
        let message = StreamMessage { command, reply: format!("user-{index}") };
        if let Some(sequence) = self.bus.publish(message, now) {
            self.trace.line(now, "user", &format!("publishes #{sequence} {line}"));
            self.checker.model.published(self.bus.identity(), sequence, known);
            self.wake_readers();
        }
    }

    /// A user hears what became of a command.
    pub fn outcome_arrives(&mut self, outcome: &Outcome) {
        if outcome.verdict != Verdict::Accepted {
            return;
        }
        if let Some((group, position)) = self.checker.model.position.get(&outcome.id).cloned() {
            let floor = self.users.floor.entry(group.clone()).or_default();
            *floor = position.max(*floor);
            let index = self.workload.groups.iter().position(|name| *name == group);
            self.ask(group);
            for index in index.into_iter().flat_map(|index| [index; 4]) {
                let later = self.random.span(10, 20_000);
                self.queue.after(later, Event::User(AtUser::Ask { group: index }));
            }
        }
    }

    fn ask(&mut self, group: GroupName) {
        let now = self.queue.now();
        self.users.count += 1;
        let number = self.users.count;
        let floor = self.users.floor.get(&group).copied().unwrap_or(0);
        let query = Query::Group { name: group.clone(), refresh: false };
        self.users.asked.insert(number, PendingQuery { group, floor, at: now });
        let leaders: Vec<usize> =
            (0..self.schedulers.len()).filter(|scheduler| self.believes_to_lead(*scheduler)).collect();
        let standby = self.random.index(self.schedulers.len());
        for scheduler in if leaders.is_empty() { vec![standby] } else { leaders } {
            self.deliver(|| Arrival::Query { scheduler, number, query: query.clone() });
        }
    }

    /// An answer arrives at whoever asked.
    pub fn answer_arrives(&mut self, number: u64, reply: &Reply) {
        let now = self.queue.now();
        // Whoever believes to lead answers, and any of the answers may come first: all must be right.
        let Some(asked) = self.users.asked.get(&number) else { return };
        let Answer::Group(view) = &reply.answer else { return };
        if reply.stale || now.since(asked.at) > PATIENCE {
            return;
        }
        let shown = view.as_ref().map(|view| view.spec.num_instances);
        let before_any = vec![None];
        let history = self.checker.model.history.get(&asked.group).unwrap_or(&before_any);
        if !history[asked.floor..].contains(&shown) {
            let detail =
                format!("{} was shown as {shown:?}; known to be accepted: {:?}", asked.group, &history[asked.floor..]);
            self.checker.broken(Invariant::ReadYourWrites, detail);
        }
    }
}
