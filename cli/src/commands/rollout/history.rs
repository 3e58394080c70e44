//! `rollout history`: the revisions of a group, and one of them in full.

use contract::record::RevisionOutcome;
use contract::rollout_view::{RevisionView, RevisionsView};

use super::Error;
use crate::api::{self, Api};
use crate::args::{self, ListOutput};
use crate::output::list::Column::{Usual, Wide};
use crate::output::list::{self, Column, List};
use crate::output::table::{dash, one_line};
use crate::output::{print_json, print_yaml};

/// `deployctl rollout history`
pub async fn history(api: &Api, asked: &args::History) -> Result<(), Error> {
    let Some(number) = asked.revision else {
        let read = async || Ok(shown(&api.revisions(&asked.name).await?));
        return Ok(list::show(asked.listing, read).await?);
    };
    let view = api.revisions(&asked.name).await?;
    let Some(revision) = view.revisions.iter().find(|revision| revision.revision == number) else {
        return Err(api::Error::NotFound(unknown(&view, number)).into());
    };
    match asked.listing.output {
        ListOutput::Table | ListOutput::Wide => println!("{}", one(revision)),
        ListOutput::Yaml => print_yaml(revision),
        ListOutput::Json => print_json(revision),
        ListOutput::Name => println!("{number}"),
    }
    Ok(())
}

const COLUMNS: [Column; 8] = [
    Usual("revision"),
    Usual("at"),
    Usual("by"),
    Usual("outcome"),
    Wide("ended"),
    Usual("instances"),
    Usual("images"),
    Usual("cause"),
];

/// All revisions, the newest last; a star marks the target of the group.
fn shown(view: &RevisionsView) -> List {
    let mut list = List::new(&COLUMNS, "no revisions yet");
    for revision in &view.revisions {
        let star = if revision.revision == view.current { "*" } else { "" };
        let ended = if revision.ended_at.happened() { revision.ended_at.to_string() } else { "-".to_owned() };
        let cells = [
            format!("{}{star}", revision.revision),
            revision.at.to_string(),
            user(revision),
            outcome(revision),
            ended,
            revision.instances.to_string(),
            dash(&images(revision)),
            one_line(&revision.cause),
        ];
        list.add(&revision.revision.to_string(), revision, cells);
    }
    list.within(view)
}

fn one(revision: &RevisionView) -> String {
    let mut head = format!("revision {}: {}", revision.revision, outcome(revision));
    if revision.ended_at.happened() {
        head = format!("{head} at {}", revision.ended_at);
    }
    let instances = revision.instances;
    let mut lines =
        vec![head, format!("created at {} by {}; {instances} instances run it", revision.at, user(revision))];
    if !revision.cause.is_empty() {
        lines.push(format!("cause: {}", revision.cause));
    }
    lines.push(serde_json::to_string_pretty(&revision.pod).expect("a spec has string keys only"));
    lines.join("\n")
}

/// The API's own word, except for `Open`.
fn outcome(revision: &RevisionView) -> String {
    let word = match revision.outcome {
        RevisionOutcome::Open => "InProgress",
        RevisionOutcome::Completed => "Completed",
        RevisionOutcome::Superseded => "Superseded",
        RevisionOutcome::RolledBack => "RolledBack",
        RevisionOutcome::Aborted => "Aborted",
    };
    revision.copies.map_or_else(|| word.to_owned(), |copied| format!("{word}, a copy of {copied}"))
}

/// The user of a revision; an automatic rollback has none.
fn user(revision: &RevisionView) -> String {
    if revision.by.is_empty() { "automatic rollback".to_owned() } else { revision.by.clone() }
}

fn images(revision: &RevisionView) -> String {
    revision.pod.containers.iter().map(|container| container.image.as_str()).collect::<Vec<_>>().join(",")
}

fn unknown(view: &RevisionsView, number: u32) -> String {
    let kept = view.revisions.iter().map(|revision| revision.revision.to_string()).collect::<Vec<_>>().join(", ");
    format!("PodGroup {} has no revision {number} in its history; it has {kept}", view.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::rollout::tests::revision;
    use crate::output::table;

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
    fn the_history_shows_time_user_cause_and_outcome() {
        let rows: Vec<String> = table::text(&shown(&view()).table(false))
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(rows[1], "1 1970-01-01T00:00:00Z alice RolledBack 1 deployd/demo:1 a ticket");
        assert_eq!(rows[2], "2* 1970-01-01T00:00:00Z automatic rollback InProgress, a copy of 0 2 deployd/demo:2");
    }

    #[test]
    fn one_revision_is_shown_with_its_pod_spec_and_an_unknown_one_is_an_error() {
        let text = one(&view().revisions[0]);
        assert!(text.contains("revision 1: RolledBack") && text.contains("\"Image\": \"deployd/demo:1\""), "{text}");
        assert!(text.contains("cause: a\nticket"), "{text}");
        assert!(unknown(&view(), 7).ends_with("it has 1, 2"));
    }
}
