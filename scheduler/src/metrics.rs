//! Prometheus metrics of the scheduler.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CommitLabels {
    pub(crate) result: CommitLabel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, prometheus_client::encoding::EncodeLabelValue)]
pub(crate) enum CommitLabel {
    Stored,
    Fenced,
    WentBack,
    Denied,
    Full,
    Unknown,
    Invalid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct QuarantinedLabels {
    pub(crate) kind: &'static str,
}

/// Clones share the values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics {
    pub(crate) leader: Gauge,
    pub(crate) term: Gauge,
    pub(crate) commits: Family<CommitLabels, Counter>,
    pub(crate) orders: Counter,
    pub(crate) unanswered_orders: Counter,
    pub(crate) stale_replies: Counter,
    pub(crate) commands: Counter,
    pub(crate) reports: Counter,
    pub(crate) queries: Counter,
    pub(crate) plans: Counter,
    pub(crate) plans_refused: Counter,
    pub(crate) dropped: Counter,
    pub(crate) disagreements: Gauge,
    pub(crate) ignored_reports: Gauge,
    pub(crate) unreadable: Gauge,
    pub(crate) foreign_store: Gauge,
    pub(crate) failed_queries: Gauge,
    pub(crate) quarantined: Family<QuarantinedLabels, Gauge>,
    pub(crate) stream_losses: Counter,
    pub(crate) store_behind: Gauge,
    pub(crate) clock_ahead: Gauge,
    pub(crate) store_in_use: Gauge,
    pub(crate) store_allocated: Gauge,
    pub(crate) store_quota: Gauge,
    pub(crate) access_pending: Gauge,
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let r = registry.sub_registry_with_prefix("deployd_scheduler");
        r.register(
            "quarantined_objects",
            "Objects that the leader does not reconcile because of an error",
            self.quarantined.clone(),
        );
        r.register("leader", "1 while this scheduler leads", self.leader.clone());
        r.register("term", "Term of this leader, 0 on a standby", self.term.clone());
        r.register("commits", "Transactions by result", self.commits.clone());
        r.register("orders", "Orders sent to nodes", self.orders.clone());
        r.register(
            "orders_unanswered",
            "Orders to which the node did not reply in time",
            self.unanswered_orders.clone(),
        );
        r.register(
            "stale_replies",
            "Orders that a node refused because it follows a later leader or another store",
            self.stale_replies.clone(),
        );
        r.register("commands", "Commands read from the stream", self.commands.clone());
        r.register("reports", "Reports received from nodes", self.reports.clone());
        r.register("queries", "Queries received from apiservers", self.queries.clone());
        r.register("plans", "Plans computed for clients", self.plans.clone());
        r.register("plans_refused", "Plans refused because the queue was full", self.plans_refused.clone());
        r.register("dropped", "Messages dropped because a queue was full", self.dropped.clone());
        r.register(
            "disagreements",
            "Orders that a node refused because it has another order with the same fence",
            self.disagreements.clone(),
        );
        r.register("estranged_nodes", "Nodes that belong to another store", self.foreign_store.clone());
        r.register(
            "store_behind",
            "1 while etcd lacks commits that nodes have seen: it came back with an older state",
            self.store_behind.clone(),
        );
        r.register(
            "clock_ahead_seconds",
            "Seconds by which the leader's clock is ahead of the clock of NATS; negative when it is behind",
            self.clock_ahead.clone(),
        );
        r.register(
            "command_stream_losses",
            "How many times the command stream had lost messages",
            self.stream_losses.clone(),
        );
        r.register(
            "ignored_reports",
            "Reports of a duplicate agent under the name of another node",
            self.ignored_reports.clone(),
        );
        r.register("failed_queries", "Queries whose answer panicked", self.failed_queries.clone());
        r.register("store_in_use_bytes", "Bytes of etcd's database that hold data", self.store_in_use.clone());
        r.register("store_allocated_bytes", "Bytes of etcd's database file", self.store_allocated.clone());
        r.register("store_quota_bytes", "The setting --etcd-quota-bytes", self.store_quota.clone());
        r.register(
            "access_pending",
            "1 while nodes that joined or were removed are not in effect on all NATS servers",
            self.access_pending.clone(),
        );
        r.register("unreadable_records", "Stored records that the leader cannot read", self.unreadable.clone());
    }
}
