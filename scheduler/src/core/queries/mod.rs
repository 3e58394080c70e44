//! Queries: answers from memory, the same way on the leader and on a standby.
//!
//! Owns nothing: [`Queries`] borrows the state and the report cache. `Core::query` calls [`Queries::answer`] with a query and
//! sends the answer; on the leader the answer leaves after the commits that it depends on.
//!
//! Example: `Query::Group { name: "web" }` returns the spec of `web`, its state, and one pod for each desired instance.

mod dependencies;
pub mod dry_run;
mod groups;
mod nodes;
mod revisions;
mod rollout;
mod rollout_message;

use contract::fence::Term;
use contract::query::{Answer, ClusterView, Liveness, Query};
use contract::time::Timestamp;

use crate::core::commands;
use crate::core::io::Settings;
use crate::core::observe::reports::ReportCache;
use crate::core::state::State;

use self::dry_run::DryRun;

/// The state that queries read.
pub(in crate::core) struct Queries<'a> {
    pub(in crate::core) settings: &'a Settings,
    pub(in crate::core) term: Option<Term>,
    pub(in crate::core) state: &'a State,
    pub(in crate::core) reports: &'a ReportCache,
    pub(in crate::core) now: Timestamp,
}

/// The result of a query.
pub(in crate::core) enum Answered {
    Now(Answer),
    /// A plan that a worker thread computes.
    Later(Box<DryRun>),
}

impl Queries<'_> {
    /// Answers one query, or returns the dry run to compute for it.
    pub(in crate::core) fn answer(&self, query: Query) -> Answered {
        Answered::Now(match query {
            Query::Group { name, refresh: _ } => Answer::Group(self.group(&name).map(Box::new)),
            Query::Groups { namespace, after, limit } => {
                Answer::Groups(self.groups(namespace.as_deref(), after, limit))
            }
            Query::Rollout { name } => Answer::Rollout(self.rollout(&name).map(Box::new)),
            Query::Revisions { name } => self.revisions(&name),
            Query::Plan { spec, within_millis: _ } => match self.dry_run(*spec) {
                Ok(dry_run) => return Answered::Later(Box::new(dry_run)),
                Err(refusal) => Answer::Plan(Err(refusal)),
            },
            Query::Dependency { name } => Answer::Dependency(self.dependency(&name).map(Box::new)),
            Query::Nodes => Answer::Nodes(self.nodes()),
            Query::Node { name } => Answer::Node(self.node_page(&name).map(Box::new)),
            Query::Cluster => Answer::Cluster(self.cluster()),
            Query::Operation { id } => Answer::Operation(self.state.outcomes.get(&id).cloned()),
            Query::Engine => Answer::Engine(self.state.cluster.switches()),
            Query::Constraints => Answer::Constraints(self.state.cluster.constraints().values().cloned().collect()),
            Query::Callbacks => Answer::Callbacks(self.state.cluster.callbacks().iter().cloned().collect()),
            Query::Policies => Answer::Policies(self.state.policies.rows()),
            Query::Access { known } => {
                let cursor = self.state.store.cursor();
                Answer::Access(self.state.access.table(known.as_deref(), self.settings, cursor))
            }
            Query::JoinTokens => Answer::JoinTokens(self.state.joins.tokens().cloned().collect()),
            Query::Joined { node } => {
                Answer::Joined(commands::join::joined(self.state, self.settings, &node).map(Box::new))
            }
            Query::Ports => Answer::Ports(self.state.port_claims()),
            // What is stored is read from the store, by the shell.
            Query::Backup { .. } => Answer::Backup(Err("only a store can be backed up".to_owned())),
            Query::Audit { .. } => Answer::Audit(Err("only a store has an audit log".to_owned())),
            Query::History { name, instance } => Answer::History(self.state.histories.of(&name, instance)),
        })
    }

    fn cluster(&self) -> ClusterView {
        let groups = self.state.groups.values().filter(|group| group.is_present());
        let (count, instances) = groups.fold((0, 0), |(count, sum), group| {
            (count + 1, sum + u64::try_from(group.record.spec.num_instances).unwrap_or(0))
        });
        let hosts = self.state.nodes.iter();
        let heard = hosts.clone().filter(|(_, host)| host.liveness != Liveness::Lost);
        let running =
            heard.filter_map(|(name, _)| self.reports.get(name)).map(|observed| u64::from(observed.running)).sum();
        ClusterView {
            scheduler: self.settings.name.clone(),
            term: self.term,
            groups: count,
            instances,
            running,
            nodes_alive: hosts.clone().filter(|(_, host)| host.liveness == Liveness::Alive).count() as u64,
            nodes: hosts.len() as u64,
            foreign_store: self.state.nodes.foreign_count() as u64,
            restored: self.state.store.identity().restored.clone(),
            quarantined: self.state.quarantine.views(),
            warnings: self.state.warnings().cloned().collect(),
        }
    }
}
