//! The users: they publish commands until the stream acknowledges them, receive outcomes, and query groups.
//!
//! An answer that is not marked stale must show every change that its user knows to be accepted, or a later state.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::command::{Decision, Outcome};
use contract::name::GroupName;
use contract::query::{Answer, Query, Reply};
use contract::time::Timestamp;

use crate::checks::invariants::Invariant;
use crate::describe;
use crate::workload::{MOST_TRIES, RETRY};
use crate::world::World;
use crate::world::bus::StreamMessage;
use crate::world::event::{Arrival, AtUser, Event};

/// Later answers are ignored.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub struct Users {
    floor: BTreeMap<GroupName, usize>,
    pending: BTreeMap<u64, PendingQuery>,
    count: u64,
}

#[derive(Debug)]
struct PendingQuery {
    group: GroupName,
    floor: usize,
    at: Timestamp,
}

impl World {
    pub fn at_user(&mut self, what: &AtUser) {
        match *what {
            AtUser::Publish { index, attempt } => self.publish(index, attempt),
            AtUser::OperateRollouts => self.operate_rollouts(),
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

    pub fn outcome_arrives(&mut self, outcome: &Outcome) {
        if outcome.decision != Decision::Accepted {
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
        self.users.pending.insert(number, PendingQuery { group, floor, at: now });
        let leaders: Vec<usize> =
            (0..self.schedulers.len()).filter(|scheduler| self.believes_to_lead(*scheduler)).collect();
        let standby = self.random.index(self.schedulers.len());
        for scheduler in if leaders.is_empty() { vec![standby] } else { leaders } {
            self.deliver(|| Arrival::Query { scheduler, number, query: query.clone() });
        }
    }

    pub fn answer_arrives(&mut self, number: u64, reply: &Reply) {
        let now = self.queue.now();
        // Every scheduler that believes to lead answers, and each answer may come first: all must be right.
        let Some(query) = self.users.pending.get(&number) else { return };
        let Answer::Group(view) = &reply.answer else { return };
        if reply.stale || now.since(query.at) > PATIENCE {
            return;
        }
        let shown = view.as_ref().map(|view| view.spec.num_instances);
        let before_any = vec![None];
        let history = self.checker.model.history.get(&query.group).unwrap_or(&before_any);
        if !history[query.floor..].contains(&shown) {
            let detail =
                format!("{} was shown as {shown:?}; known to be accepted: {:?}", query.group, &history[query.floor..]);
            self.checker.broken(Invariant::ReadYourWrites, detail);
        }
    }
}
