//! The versions of one group, replayed: each accepted patch makes one more, each rollback one more.
//!
//! Whether a patch fits, and whether a version turns out bad, depends on what the leader hears; so what is stored must be one
//! of few possibilities, and the one it is becomes the only one.

use std::collections::BTreeMap;

use contract::record::GroupRecord;
use contract::spec::PodSpec;

/// What a group may be by now.
#[derive(Debug, Clone)]
pub struct Revisions {
    possible: Vec<(u32, PodSpec)>,
    /// What a rollback may return to, as last stored.
    back: Vec<PodSpec>,
    /// Patches accepted since the last commit.
    patches: usize,
    /// Every version that was ever stored.
    known: BTreeMap<u32, PodSpec>,
}

impl Revisions {
    /// A group was created. One whose name had containers of an earlier life goes on counting after what that one may have
    /// been `before`, unless nothing of it is left.
    pub fn new(pod: &PodSpec, before: &[u32]) -> Self {
        let numbers = [0].into_iter().chain(before.iter().map(|before| before + 1));
        let possible = numbers.map(|number| (number, pod.clone())).collect();
        Self { possible, back: Vec::new(), patches: 0, known: BTreeMap::new() }
    }

    /// The instances of an orphan were adopted, and its revisions with them.
    pub fn inherit(&mut self, orphan: &Self) {
        self.known.extend(orphan.known.iter().map(|(number, pod)| (*number, pod.clone())));
        self.known.extend(orphan.possible.iter().cloned());
    }

    /// The numbers it may have by now.
    pub fn numbers(&self) -> Vec<u32> {
        self.possible.iter().map(|(number, _)| *number).collect()
    }

    /// An undo was accepted: one more version, a copy of the revision named or of any that was, unless it is that already.
    pub fn undone(&mut self, revision: Option<u32>) {
        self.note_possible();
        let known = self.known.iter().filter(|(number, _)| revision.is_none_or(|revision| revision == **number));
        let copies: Vec<PodSpec> = known.map(|(_, pod)| pod.clone()).collect();
        let before: Vec<(u32, PodSpec)> = self.possible.iter().cloned().chain(self.rolled_back()).collect();
        let next = before.iter().flat_map(|(number, _)| copies.iter().map(move |copy| (number + 1, copy.clone())));
        self.possible.extend(next);
    }

    /// A patch was accepted: it is in effect, or it did not fit.
    pub fn patched(&mut self, patch: &PodSpec) {
        self.patches += 1;
        self.note_possible();
        let before: Vec<(u32, PodSpec)> = self.possible.iter().cloned().chain(self.rolled_back()).collect();
        let next = |(number, pod): (u32, PodSpec)| (number + 1, pod.patched(patch.clone(), Default::default()));
        self.possible.extend(before.into_iter().map(next));
    }

    /// Each may become a revision without ever being stored as the present one.
    fn note_possible(&mut self) {
        for (number, pod) in &self.possible {
            self.known.entry(*number).or_insert_with(|| pod.clone());
        }
    }

    fn rolled_back(&self) -> Vec<(u32, PodSpec)> {
        let back = |(number, _): &(u32, PodSpec)| {
            self.back.iter().map({
                let next = *number + 1;
                move |pod| (next, pod.clone())
            })
        };
        self.possible.iter().flat_map(back).collect()
    }

    /// Compares with what is stored; the error says what is wrong. A patch `alone` since the last commit leaves its mark.
    pub fn settle(&mut self, record: &GroupRecord, alone: bool) -> Result<(), String> {
        let (version, pod) = (record.spec.version, &record.spec.pod);
        let is_it = |(number, possible): &&(u32, PodSpec)| *number == version && possible.asks_the_same(pod);
        let back = self.rolled_back();
        let known = self.possible.iter().rev().find(is_it);
        let found = known.or_else(|| back.iter().find(is_it).filter(|_| !record.equals.is_empty()));
        let Some(found) = found.cloned() else {
            let possible: Vec<u32> = self.possible.iter().chain(&back).map(|(number, _)| *number).collect();
            return Err(format!("version {version} with pod {pod:?}, possible were {possible:?}"));
        };
        let unchanged = self.possible.first().is_some_and(|(number, _)| *number == found.0);
        if self.patches == 1 && alone && unchanged && record.last_error.is_empty() {
            return Err(format!("version {version}: a patch was accepted and forgotten"));
        }
        if pod.version != version {
            return Err(format!("version {version} holds a pod of version {}", pod.version));
        }
        // A release returns to the version that completed last. An upgrade without a strategy returns to the version of the
        // instances that it did not replace, or to the one before it.
        let is_way_back = |earlier: &u32| record.proven == Some(*earlier) || !record.spec.has_strategy();
        let former = record.former.iter().filter(|(earlier, _)| is_way_back(earlier));
        self.back = former.map(|(_, pod)| pod.clone()).collect();
        self.known.insert(version, pod.clone());
        self.possible = vec![found];
        self.patches = 0;
        Ok(())
    }
}
