//! What a node claims about the store.
//!
//! A node returns the progress of its last order. If the store lacks a commit of it, the store came back with an older state, and
//! the leader decides nothing more. So the claim of a node counts only with the proof that a scheduler put into the order: an agent
//! that was taken over cannot invent a later state. Without public keys (`--order-keys-file`) every claim counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::name::NodeName;
use contract::order::{OrderMessage, OrderReply};
use contract::progress::Progress;
use contract::report::ReportMessage;
use fabric::signing::{OrderKeys, OrderSigner};

/// Progresses that are remembered as proven; when there are more nodes, signatures are checked again.
const MOST_REMEMBERED: usize = 4096;

/// Checks what nodes claim.
#[derive(Debug, Default)]
pub(super) struct Claims {
    keys: Option<Arc<OrderKeys>>,
    /// The last proven claim of each node, because most reports repeat it.
    proven: BTreeMap<NodeName, Progress>,
}

impl Claims {
    pub(super) fn new(keys: Option<Arc<OrderKeys>>) -> Self {
        Self { keys, proven: BTreeMap::new() }
    }

    /// The report, without a claim that is not proven.
    pub(super) fn checked(&mut self, mut report: ReportMessage) -> ReportMessage {
        let Some(head) = report.head_mut() else { return report };
        let node = &head.stamp.node;
        if head.progress.is_unknown() || self.proven.get(node) == Some(&head.progress) {
            return report;
        }
        if !is_proven(self.keys.as_deref(), &head.progress) {
            tracing::debug!(%node, "the claim of a node about the store has no proof");
            head.progress = Progress::default();
            return report;
        }
        if self.proven.len() >= MOST_REMEMBERED {
            self.proven.clear();
        }
        self.proven.insert(node.clone(), head.progress.clone());
        report
    }
}

/// The reply to an order, without a claim that is not proven.
pub(super) fn checked_reply(keys: Option<&OrderKeys>, reply: OrderReply) -> OrderReply {
    match reply {
        OrderReply::Foreign { have, stores, progress } if !is_proven(keys, &progress) => {
            OrderReply::Foreign { have, stores, progress: Progress::default() }
        }
        reply => reply,
    }
}

fn is_proven(keys: Option<&OrderKeys>, claim: &Progress) -> bool {
    keys.is_none_or(|keys| keys.proves(claim))
}

/// Puts the proof into orders.
#[derive(Debug, Default)]
pub(super) struct Prover {
    signer: Option<Arc<OrderSigner>>,
    /// Many orders follow one commit.
    last: Progress,
}

impl Prover {
    pub(super) fn new(signer: Option<Arc<OrderSigner>>) -> Self {
        Self { signer, last: Progress::default() }
    }

    pub(super) fn prove(&mut self, message: OrderMessage) -> OrderMessage {
        let Some(signer) = &self.signer else { return message };
        let progress = message.progress();
        if progress.signed_text() != self.last.signed_text() || self.last.proof.is_empty() {
            self.last = signer.prove(progress.clone());
        }
        message.after(self.last.clone())
    }
}

#[cfg(test)]
mod tests {
    use contract::fence::{Fence, Term};
    use contract::order::Order;
    use contract::report::Report;
    use contract::store::Stores;

    use super::*;

    /// A key, and the public keys of the cluster, which do not contain `stranger`.
    fn keys(dir: &std::path::Path, stranger: bool) -> (OrderSigner, OrderKeys) {
        let path = dir.join(if stranger { "stranger" } else { "scheduler-1" });
        std::fs::write(&path, OrderSigner::generate("scheduler-1").expect("a key")).expect("written");
        let signer = OrderSigner::load(&path).expect("a key");
        let public = dir.join("public");
        if !stranger {
            std::fs::write(&public, signer.public_line()).expect("written");
        }
        (signer, OrderKeys::load(&public).expect("public keys"))
    }

    fn progress(term: u64, number: u64) -> Progress {
        let mut progress = Progress::default().of_store(&Stores::from(["store".to_owned()]));
        progress.raise(Term(term), number);
        progress
    }

    fn report(claim: &Progress) -> ReportMessage {
        let text = serde_json::json!({ "head": {
            "stamp": { "node": "node-1", "incarnation": "a", "sequence": 1 }, "applied": { "term": 1, "generation": 1 },
            "order_digest": contract::digest::Digest::default(), "engine": "Up", "facts": {}, "progress": claim,
        }, "pods": {} });
        ReportMessage::Whole(serde_json::from_value::<Report>(text).expect("a report"))
    }

    fn claim_of(report: ReportMessage) -> Progress {
        let mut report = report;
        report.head_mut().expect("a whole report").progress.clone()
    }

    #[test]
    fn only_a_claim_that_a_scheduler_signed_counts() {
        let dir = tempfile::tempdir().expect("a folder");
        let (signer, public) = keys(dir.path(), false);
        let (stranger, _) = keys(dir.path(), true);
        let proven = signer.prove(progress(7, 120));
        let changed = Progress { proof: proven.proof.clone(), ..progress(7, u64::MAX) };
        let another_store = proven.clone().of_store(&Stores::from(["other".to_owned()]));
        let later_since = Progress { since: Term(0), stores: Stores::new(), ..proven.clone() };
        let mut claims = Claims::new(Some(Arc::new(public.clone())));
        for claim in [progress(7, u64::MAX), changed, another_store, later_since, stranger.prove(progress(9, 1))] {
            assert!(claim_of(claims.checked(report(&claim))).is_unknown(), "{claim:?}");
            let reply = OrderReply::Foreign { have: Fence::default(), stores: Stores::new(), progress: claim };
            let checked = checked_reply(Some(&public), reply);
            assert!(matches!(checked, OrderReply::Foreign { progress, .. } if progress.is_unknown()));
        }
        for _ in 0..2 {
            assert_eq!(claim_of(claims.checked(report(&proven))), proven);
        }
        let forged = report(&progress(8, 1));
        assert!(claim_of(claims.checked(forged)).is_unknown(), "a proven claim does not excuse the next");
    }

    #[test]
    fn without_public_keys_every_claim_counts() {
        let claim = progress(7, 3);
        assert_eq!(claim_of(Claims::default().checked(report(&claim))), claim);
    }

    #[test]
    fn every_order_carries_the_proof_of_its_own_progress() {
        let dir = tempfile::tempdir().expect("a folder");
        let (signer, public) = keys(dir.path(), false);
        let mut prover = Prover::new(Some(Arc::new(signer)));
        for number in [1, 1, 2] {
            let order = Order { progress: progress(7, number), ..Order::default() };
            let proven = prover.prove(OrderMessage::Whole(order));
            assert!(public.proves(proven.progress()) && proven.progress().of(Term(7)) == number);
        }
    }
}
