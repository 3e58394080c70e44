//! Handles a failed rollout: it is paused with a text that names the remedies, or rolled back.

use contract::record::Instance;
use contract::report::PodFacts;

use super::super::last_error::{PAUSED, is_about_pause, is_about_stuck};
use super::super::{Planning, index_of};
use super::settings::drain_policy;
use crate::rollout::controller::{Cause, Failure, RolloutState};

impl Planning<'_> {
    /// Adds the details to a failure now, because they may be gone later.
    pub(super) fn explain(&self, release: &mut RolloutState) {
        if let Some(failure) = release.failure.as_mut().filter(|failure| failure.why.is_empty()) {
            failure.why = self.failure_detail(failure).unwrap_or_default();
        }
    }

    /// Details about the first failed instance.
    fn failure_detail(&self, failure: &Failure) -> Option<String> {
        let first = failure.instances.first()?;
        let index = index_of(*first)?;
        let instance = self.plan.instances.get(index)?;
        let surge = instance.next.as_deref().map(|next| (next, self.observed_surge.get(index).copied().flatten()));
        let pods = || surge.into_iter().chain([(instance, self.observed(index))]);
        let failure_detail = match failure.cause {
            Cause::Unschedulable => {
                pods().find(|(pod, _)| pod.unplaced_since.happened()).map(|(pod, _)| self.unschedulable_reason(pod))
            }
            Cause::GateOverdue => {
                pods().find(|(pod, observed)| self.gates_limit(pod, *observed).is_some()).map(|(pod, _)| {
                    let gates = self.closed_gates(pod);
                    format!("{} {}", if gates.len() == 1 { "gate" } else { "gates" }, gates.join(", "))
                })
            }
            Cause::HookOverdue => drain_policy(&self.record.spec)
                .map(|it| format!("no cmd=drained&instance={first} within {} s", it.timeout.as_secs())),
            Cause::Crashing | Cause::ImageHopeless => {
                let exit = |(_, observed): (&Instance, Option<&PodFacts>)| observed?.last_exit();
                let exit = (failure.cause == Cause::Crashing).then(|| pods().find_map(exit)).flatten();
                let error = |(_, observed): (&Instance, Option<&PodFacts>)| {
                    observed.map(|observed| self.image_error(observed).to_owned())
                };
                let error = || pods().filter_map(error).find(|error| !error.is_empty());
                exit.map(|exit| exit.summary()).or_else(error)
            }
            Cause::DeadlineExceeded => None,
        };
        let failure_detail = failure_detail.filter(|failure_detail| !failure_detail.is_empty())?;
        Some(if failure.instances.len() == 1 { failure_detail } else { format!("instance {first}: {failure_detail}") })
    }

    /// Why the pod is unschedulable. A new leader has no reasons yet and uses the group's last error.
    fn unschedulable_reason(&self, pod: &Instance) -> String {
        let stuck = Some(self.record.last_error.as_str()).filter(|text| is_about_stuck(text));
        if pod.why.is_empty() { stuck.unwrap_or_default().to_owned() } else { pod.why.clone() }
    }

    /// The failure and what the user can do.
    pub(super) fn set_paused_error(&mut self, release: &RolloutState) {
        let Some(failure) = &release.failure else { return };
        let mut remedies = vec!["resume continues with it"];
        if failure.batch > 0 {
            remedies.push("skip continues without it");
        }
        if self.record.proven.is_some_and(|proven| proven != self.record.spec.version) {
            remedies.push("undo goes back");
        }
        let text = format!("{PAUSED}revision {}: {}; {}", release.target, failure.message(), remedies.join(", "));
        if self.record.last_error != text {
            self.record.to_mut().last_error = text;
        }
    }

    pub(super) fn clear_paused_error(&mut self) {
        if is_about_pause(&self.record.last_error) {
            self.record.to_mut().last_error.clear();
        }
    }

    /// Returns to the last completed revision. The rollout towards it starts with the next plan.
    pub(super) fn start_rollback(&mut self, release: &RolloutState) {
        let (Some(proven), Some(failure)) = (self.completed_version(), &release.failure) else { return };
        let instance = failure.instances.first().copied().unwrap_or(1);
        let why = format!("rolled back from revision {} to revision {proven}: {}", release.target, failure.message());
        self.restore_version(proven, why, instance);
        let now = self.now;
        self.wake(now);
    }
}
