//! Follows a rollout until it ends.
//!
//! Without `--release` it follows the group to its newest rollout. An automatic rollback is a rollout of its own, which completes;
//! the change that it rolls back is reported as failed.

use contract::rollout_view::RolloutView;
use fabric::shutdown::Shutdown;

use super::Error;
use super::outcome::{RolloutOutcome, judge, judge_back, judge_former};
use crate::api::{self, Api, Deadline, Retry};
use crate::output::rollout as picture;
use crate::output::screen::Screen;

/// Which rollout to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// The current one and its successors.
    Current,
    /// Only the one to this revision.
    Only(u32),
}

/// A rollout that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    pub view: RolloutView,
    pub release: u32,
    pub outcome: RolloutOutcome,
}

/// Follows the rollout until it ends, the deadline or Ctrl-C. It never changes the rollout.
pub async fn follow(api: &Api, name: &str, watched: Watched, deadline: Deadline) -> Result<Followed, Error> {
    let api = &api.until(deadline);
    let interrupted = Shutdown::on_signals();
    let mut screen = Screen::start();
    let mut watch = Watch { api, name, watched, last: None, trouble: None };
    let followed = tokio::select! {
        followed = watch.until_over(&mut screen, deadline) => followed.map_err(Error::Api),
        () = interrupted.wait() => Err(Error::Interrupted { name: name.to_owned() }),
    };
    screen.clear();
    followed
}

/// The outcome of an earlier rollout; `view` shows the current one.
pub async fn former(api: &Api, view: &RolloutView, release: u32) -> Result<RolloutOutcome, api::Error> {
    let (name, current) = (&view.name, view.release);
    if release > current {
        let message = format!("PodGroup {name} has no revision {release}; the current one is {current}");
        return Err(api::Error::NotFound(message));
    }
    Ok(judge_former(&api.revisions(name).await?, release))
}

struct Watch<'a> {
    api: &'a Api,
    name: &'a str,
    watched: Watched,
    /// Revision of the rollout seen last.
    last: Option<u32>,
    /// A new pod that was not ready, and why. A rollback removes the pod, and its exit code and last log line with it.
    trouble: Option<String>,
}

impl Watch<'_> {
    async fn until_over(&mut self, screen: &mut Screen, deadline: Deadline) -> Result<Followed, api::Error> {
        let mut retry = Retry::until(deadline, |_| {});
        loop {
            match self.look().await {
                Ok(Followed { view, outcome: RolloutOutcome::InProgress, .. }) => {
                    let line = picture::line(&view);
                    screen.show(&picture::live(&view), &line);
                    retry.pause(&line).await?;
                }
                Ok(over) => return Ok(over),
                Err(error) if error.is_temporary() => {
                    screen.say(&format!("waiting for the API: {error}"));
                    retry.after_error(error).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the rollout; a failure also names the last unready pod that was seen.
    async fn look(&mut self) -> Result<Followed, api::Error> {
        let mut followed = self.judged().await?;
        self.trouble = trouble(&followed.view, followed.release).or_else(|| self.trouble.take());
        // A superseded rollout did not fail because of its pods.
        let is_superseded = followed.release != followed.view.release && !followed.view.is_rollback;
        if let (RolloutOutcome::Failed(reason), Some(trouble), false) =
            (&mut followed.outcome, &self.trouble, is_superseded)
            && !reason.contains(trouble.as_str())
        {
            *reason = format!("{reason}; last seen: {trouble}");
        }
        Ok(followed)
    }

    async fn judged(&mut self) -> Result<Followed, api::Error> {
        let view = self.api.rollout(self.name).await?;
        let seen = match self.watched {
            Watched::Only(release) => Some(release),
            Watched::Current => self.last,
        };
        if let Some(release) = seen.filter(|release| *release != view.release) {
            let outcome = former(self.api, &view, release).await?;
            // A follower of the newest change continues with this one, unless it is an automatic rollback.
            let is_failure = matches!(outcome, RolloutOutcome::Failed(_)) && view.is_rollback;
            if is_failure || matches!(self.watched, Watched::Only(_)) {
                return Ok(Followed { view, release, outcome });
            }
        }
        self.last = Some(view.release);
        let outcome = match self.watched {
            Watched::Only(_) => judge(&view),
            Watched::Current => judge_newest(self.api, &view).await?,
        };
        Ok(Followed { release: view.release, view, outcome })
    }
}

/// The first new pod that is not ready and has a reason.
fn trouble(view: &RolloutView, release: u32) -> Option<String> {
    let pods = view.instances.iter().flat_map(|instance| instance.pods.iter().map(move |pod| (instance.instance, pod)));
    let mut troubled = pods.filter(|(_, pod)| pod.revision == release && !pod.ready && !pod.why.is_empty());
    troubled.next().map(|(instance, pod)| format!("instance {instance}: {}", pod.why))
}

/// The outcome of the newest rollout. Only the history shows whether a rollback was requested or automatic.
pub async fn judge_newest(api: &Api, view: &RolloutView) -> Result<RolloutOutcome, api::Error> {
    match judge(view) {
        RolloutOutcome::Complete if view.is_rollback => Ok(judge_back(&api.revisions(&view.name).await?, view.release)),
        outcome => Ok(outcome),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use contract::record::RevisionOutcome;
    use contract::rollout_view::{RevisionView, RevisionsView, RolloutPhase, RolloutStatus};

    use super::*;
    use crate::api::tests::server;
    use crate::output::rollout::tests::{revision, view};

    fn at(release: u32, status: RolloutStatus) -> String {
        let phase = if status == RolloutStatus::Complete { RolloutPhase::Completed } else { RolloutPhase::Running };
        serde_json::to_string(&RolloutView { release, status, phase, ..view() }).unwrap()
    }
    fn rollback(release: u32) -> String {
        let view = RolloutView { release, status: RolloutStatus::Complete, is_rollback: true, ..view() };
        serde_json::to_string(&view).unwrap()
    }
    fn revisions(revisions: Vec<RevisionView>) -> String {
        let current = revisions.last().map_or(0, |last| last.revision);
        serde_json::to_string(&RevisionsView { name: "demo.web.web".to_owned(), current, revisions }).unwrap()
    }

    async fn followed(watched: Watched, answers: &[(u16, &str)]) -> Result<(u32, RolloutOutcome), Error> {
        let (url, _served) = server(answers).await;
        let api = Api::new(&[url]).unwrap();
        let followed = follow(&api, "demo.web.web", watched, Deadline::after(Duration::from_secs(5))).await?;
        Ok((followed.release, followed.outcome))
    }

    #[tokio::test]
    async fn a_rollout_is_followed_through_outages_until_it_is_complete() {
        let (open, done) = (at(5, RolloutStatus::Progressing), at(5, RolloutStatus::Complete));
        let answers = [(200, open.as_str()), (503, "no leader"), (200, open.as_str()), (200, done.as_str())];
        assert_eq!(followed(Watched::Current, &answers).await.unwrap(), (5, RolloutOutcome::Complete));
    }

    #[tokio::test]
    async fn a_rollout_that_waits_for_approval_is_followed_until_the_deadline() {
        let waiting = at(5, RolloutStatus::WaitingForConfirm);
        let (url, _served) = server(&[(200, waiting.as_str()); 10]).await;
        let api = Api::new(&[url]).unwrap();
        let deadline = Deadline::after(Duration::from_millis(900));
        let error = follow(&api, "demo.web.web", Watched::Current, deadline).await.unwrap_err().to_string();
        assert!(error.contains("rollout confirm demo.web.web --batch 1"), "{error}");
    }

    #[tokio::test]
    async fn following_a_group_continues_with_the_next_change_and_following_a_revision_does_not() {
        let superseded = RevisionView { outcome: RevisionOutcome::Superseded, ..revision(5) };
        let history = revisions(vec![superseded, revision(6)]);
        let (open, next) = (at(5, RolloutStatus::Progressing), at(6, RolloutStatus::Complete));
        let answers = [(200, open.as_str()), (200, next.as_str()), (200, history.as_str())];
        assert_eq!(followed(Watched::Current, &answers).await.unwrap(), (6, RolloutOutcome::Complete));
        let (release, outcome) = followed(Watched::Only(5), &answers).await.unwrap();
        assert_eq!((release, outcome), (5, RolloutOutcome::Failed("was superseded by revision 6".to_owned())));
    }

    #[tokio::test]
    async fn a_change_that_was_rolled_back_has_failed_whenever_following_starts() {
        let failed = RevisionView { outcome: RevisionOutcome::RolledBack, ..revision(5) };
        let back = RevisionView { copies: Some(4), by: String::new(), ..revision(6) };
        let history = revisions(vec![failed, back]);
        let (open, back) = (at(5, RolloutStatus::Progressing), rollback(6));
        let early = [(200, open.as_str()), (200, back.as_str()), (200, history.as_str())];
        let (release, outcome) = followed(Watched::Current, &early).await.unwrap();
        assert_eq!(
            (release, outcome),
            (
                5,
                RolloutOutcome::Failed(
                    "failed and was rolled back by revision 6; last seen: instance 1: starting".to_owned()
                )
            )
        );
        let late = [(200, back.as_str()), (200, history.as_str())];
        let (release, outcome) = followed(Watched::Current, &late).await.unwrap();
        assert_eq!(release, 6);
        assert!(
            matches!(&outcome, RolloutOutcome::Failed(reason) if reason.contains("rolled back a change that failed")),
            "{outcome:?}"
        );
        assert_eq!(followed(Watched::Only(6), &late[..1]).await.unwrap(), (6, RolloutOutcome::Complete));
    }

    #[tokio::test]
    async fn a_revision_that_does_not_exist_is_an_error() {
        let open = at(5, RolloutStatus::Progressing);
        let error = followed(Watched::Only(9), &[(200, open.as_str())]).await.unwrap_err();
        assert!(matches!(&error, Error::Api(api::Error::NotFound(why)) if why.contains("no revision 9")), "{error}");
    }
}
