//! `rollout history`: the revisions of a group, and one of them in full.

use contract::record::RevisionOutcome;
use contract::rollout_view::{RevisionView, RevisionsView};

use super::Error;
use crate::api::{self, Api};
use crate::args;
use crate::output::show;
use crate::output::table::{self, dash, one_line};

/// `deployctl rollout history`
pub async fn history(api: &Api, asked: &args::History) -> Result<(), Error> {
    let view = api.revisions(&asked.name).await?;
    let Some(number) = asked.revision else {
        show(asked.output, &view, || shown(&view));
        return Ok(());
    };
    let Some(revision) = view.revisions.iter().find(|revision| revision.revision == number) else {
        return Err(api::Error::NotFound(unknown(&view, number)).into());
    };
    show(asked.output, revision, || one(revision));
    Ok(())
}

/// All of them, the newest last; a star marks the one the group is at or on its way to.
fn shown(view: &RevisionsView) -> String {
    if view.revisions.is_empty() {
        return format!("PodGroup {} has no revisions yet", view.name);
    }
    let mut table = table::plain(&["revision", "at", "by", "outcome", "instances", "images", "cause"]);
    for revision in &view.revisions {
        let star = if revision.revision == view.current { "*" } else { "" };
        table.add_row([
            format!("{}{star}", revision.revision),
            revision.at.to_string(),
            asker(revision),
            outcome(revision),
            revision.instances.to_string(),
            dash(&images(revision)),
            one_line(&revision.cause),
        ]);
    }
    table::text(&table)
}

fn one(revision: &RevisionView) -> String {
    let mut head = format!("revision {}: {}", revision.revision, outcome(revision));
    if revision.ended_at.happened() {
        head = format!("{head} at {}", revision.ended_at);
    }
    let instances = revision.instances;
    let mut lines =
        vec![head, format!("asked for at {} by {}; {instances} instances run it", revision.at, asker(revision))];
    if !revision.cause.is_empty() {
        lines.push(format!("cause: {}", revision.cause));
    }
    lines.push(serde_json::to_string_pretty(&revision.pod).expect("a spec has string keys only"));
    lines.join("\n")
}

/// The API's own word, so that what is read here is found there.
fn outcome(revision: &RevisionView) -> String {
    let word = match revision.outcome {
        RevisionOutcome::Open => "Open",
        RevisionOutcome::Completed => "Completed",
        RevisionOutcome::Superseded => "Superseded",
        RevisionOutcome::RolledBack => "RolledBack",
        RevisionOutcome::Aborted => "Aborted",
    };
    revision.copies.map_or_else(|| word.to_owned(), |copied| format!("{word}, a copy of {copied}"))
}

/// Nobody asks for the way back from a failure.
fn asker(revision: &RevisionView) -> String {
    if revision.by.is_empty() { "a failure".to_owned() } else { revision.by.clone() }
}

fn images(revision: &RevisionView) -> String {
    revision.pod.containers.iter().map(|container| container.image.as_str()).collect::<Vec<_>>().join(",")
}

fn unknown(view: &RevisionsView, number: u32) -> String {
    let kept = view.revisions.iter().map(|revision| revision.revision.to_string()).collect::<Vec<_>>().join(", ");
    format!("revision {number} of PodGroup {} is not kept; those are: {kept}", view.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::rollout::tests::revision;

    fn view() -> RevisionsView {
        let first = RevisionView {
            outcome: RevisionOutcome::RolledBack,
            cause: "a\nticket".to_owned(),
            instances: 1,
            ..revision(1)
        };
        let second = RevisionView { copies: Some(0), by: String::new(), instances: 2, ..revision(2) };
        RevisionsView { name: "demo.web.web".to_owned(), current: 2, revisions: vec![first, second] }
    }

    #[test]
    fn the_history_says_when_who_why_and_what_became_of_it() {
        let rows: Vec<String> =
            shown(&view()).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(rows[1], "1 1970-01-01T00:00:00Z somebody RolledBack 1 deployd/demo:1 a ticket");
        assert_eq!(rows[2], "2* 1970-01-01T00:00:00Z a failure Open, a copy of 0 2 deployd/demo:2");
    }

    #[test]
    fn one_revision_is_shown_with_its_whole_pod_and_an_unknown_one_with_those_that_are_kept() {
        let text = one(&view().revisions[0]);
        assert!(text.contains("revision 1: RolledBack") && text.contains("\"Image\": \"deployd/demo:1\""), "{text}");
        assert!(text.contains("cause: a\nticket"), "{text}");
        assert!(unknown(&view(), 7).ends_with("those are: 1, 2"));
    }
}
