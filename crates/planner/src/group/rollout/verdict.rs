//! Says what a release that failed leads to: it is held, and people are told what they can do, or it is taken back.

use contract::record::Slot;
use contract::report::PodFacts;

use super::super::Planning;
use super::super::saying::{HELD, is_about_held, is_about_stuck};
use super::settings::farewell;
use crate::rollout::controller::{Cause, Failure, RolloutState};

impl Planning<'_> {
    /// Adds to a failure what is known of it now: later it may not be known any more.
    pub(super) fn explain(&self, release: &mut RolloutState) {
        if let Some(failure) = release.failure.as_mut().filter(|failure| failure.why.is_empty()) {
            failure.why = self.known(failure).unwrap_or_default();
        }
    }

    /// What is known of the first instance that failed.
    fn known(&self, failure: &Failure) -> Option<String> {
        let first = failure.slots.first()?;
        let index = usize::try_from(first.saturating_sub(1)).ok()?;
        let slot = self.plan.slots.get(index)?;
        let beside = slot.next.as_deref().map(|next| (next, self.beside.get(index).copied().flatten()));
        let pods = || beside.into_iter().chain([(slot, self.seen(index))]);
        let known = match failure.cause {
            Cause::Unschedulable => {
                pods().find(|(pod, _)| pod.unplaced_since.happened()).map(|(pod, _)| self.homeless_words(pod))
            }
            Cause::GateOverdue => pods().find(|(pod, seen)| self.gates_limit(pod, *seen).is_some()).map(|(pod, _)| {
                let gates = self.closed_gates(pod);
                format!("{} {}", if gates.len() == 1 { "gate" } else { "gates" }, gates.join(", "))
            }),
            Cause::HookOverdue => farewell(&self.record.spec)
                .map(|it| format!("no cmd=drained&instance={first} within {} s", it.timeout.as_secs())),
            Cause::Crashing | Cause::ImageHopeless => {
                let exit = |(_, seen): (&Slot, Option<&PodFacts>)| seen?.last_exit();
                let exit = (failure.cause == Cause::Crashing).then(|| pods().find_map(exit)).flatten();
                let said = |(_, seen): (&Slot, Option<&PodFacts>)| seen.map(|seen| self.said_of_image(seen).to_owned());
                let said = || pods().filter_map(said).find(|error| !error.is_empty());
                exit.map(|exit| exit.summary()).or_else(said)
            }
            Cause::DeadlineExceeded => None,
        };
        let known = known.filter(|known| !known.is_empty())?;
        Some(if failure.slots.len() == 1 { known } else { format!("instance {first}: {known}") })
    }

    /// Why it finds no place; a leader that has made no plan yet knows what the group says of who is not upgraded.
    fn homeless_words(&self, pod: &Slot) -> String {
        let stuck = Some(self.record.last_error.as_str()).filter(|said| is_about_stuck(said));
        if pod.why.is_empty() { stuck.unwrap_or_default().to_owned() } else { pod.why.clone() }
    }

    /// The failure, and what can be done about it.
    pub(super) fn say_held(&mut self, release: &RolloutState) {
        let Some(failure) = &release.failure else { return };
        let mut remedies = vec!["resume goes on with it"];
        if failure.batch > 0 {
            remedies.push("skip leaves it behind");
        }
        if self.record.proven.is_some_and(|proven| proven != self.record.spec.version) {
            remedies.push("undo goes back");
        }
        let text = format!("{HELD}revision {}: {}; {}", release.target, failure.message(), remedies.join(", "));
        if self.record.last_error != text {
            self.record.to_mut().last_error = text;
        }
    }

    /// The failure is over: so is what was said about it.
    pub(super) fn say_not_held(&mut self) {
        if is_about_held(&self.record.last_error) {
            self.record.to_mut().last_error.clear();
        }
    }

    /// The group goes back to what completed last. The release toward that starts with the next plan.
    pub(super) fn take_release_back(&mut self, release: &RolloutState) {
        let (Some(proven), Some(failure)) = (self.way_back(), &release.failure) else { return };
        let instance = failure.slots.first().copied().unwrap_or(1);
        let why = format!("revision {} was taken back to revision {proven}: {}", release.target, failure.message());
        self.take_back(proven, why, instance);
        let now = self.now;
        self.wake(now);
    }
}
