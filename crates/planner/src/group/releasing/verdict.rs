//! Says what a release that failed leads to: it is held, and people are told what they can do, or it is taken back.

use crate::rollout::conduct::{Cause, Release};

use super::super::Planning;

/// How every text about a release that is held starts: by that it is known again when the failure is over.
const HELD: &str = "the release is held: ";
/// Most instances named: the text is shown to people and stored with the group.
const MOST_NAMED: usize = 5;

impl Planning<'_> {
    /// The failure, and what can be done about it.
    pub(super) fn say_held(&mut self, cause: Cause, release: &Release) {
        let (found, who) = (reason(cause), instances(release));
        let remedy = "resume goes on with it, skip leaves it behind, undo goes back";
        let text = format!("{HELD}revision {} {found} ({who}); {remedy}", release.target);
        if self.record.last_error != text {
            self.record.to_mut().last_error = text;
        }
    }

    /// The failure is over: so is what was said about it.
    pub(super) fn say_not_held(&mut self) {
        if self.record.last_error.starts_with(HELD) {
            self.record.to_mut().last_error.clear();
        }
    }

    /// The group goes back to what completed last. The release toward that starts with the next plan.
    pub(super) fn take_release_back(&mut self, cause: Cause, release: &Release) {
        let Some(proven) = self.way_back() else { return };
        let instance = release.failure.as_ref().and_then(|failure| failure.slots.first().copied()).unwrap_or(1);
        let (failed, found, who) = (release.target, reason(cause), instances(release));
        let why = format!("revision {failed} was taken back to revision {proven}: it {found} ({who})");
        self.take_back(proven, why, instance);
        let now = self.now;
        self.wake(now);
    }
}

fn reason(cause: Cause) -> &'static str {
    match cause {
        Cause::Crashing => "ends again and again",
        Cause::ImageHopeless => "has an image that cannot be had",
        Cause::Unschedulable => "finds no place",
        Cause::HookOverdue => "waits for an answer that an instance is drained, and none came in time",
        Cause::DeadlineExceeded => "made no progress for too long",
    }
}

fn instances(release: &Release) -> String {
    let slots = release.failure.as_ref().map(|failure| failure.slots.as_slice()).unwrap_or_default();
    let named: Vec<String> = slots.iter().take(MOST_NAMED).map(ToString::to_string).collect();
    let word = if slots.len() == 1 { "instance" } else { "instances" };
    let more = slots.len().saturating_sub(MOST_NAMED);
    match (slots, more) {
        ([], _) => "no instance in particular".to_owned(),
        (_, 0) => format!("{word} {}", named.join(", ")),
        (_, more) => format!("{word} {} and {more} more", named.join(", ")),
    }
}
