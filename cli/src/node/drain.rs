//! `node drain`: cordons a node, moves what runs there, and waits until it is empty.
//!
//! An instance that finds no place stays where it is, and room may appear later: so the drain is asked for again from time to
//! time. Asking twice changes nothing.

use std::time::Duration;

use contract::node_view::{NodeStatus, PodOnNode};
use fabric::shutdown::Shutdown;
use tokio::time::Instant;

use super::Error;
use crate::api::{self, Api, Deadline, Patience};
use crate::args::Drain;
use crate::progress::Progress;
use crate::table::cut;
use crate::waiting::{patience, patiently};

/// Between two requests for what has not moved.
const AGAIN_AFTER: Duration = Duration::from_secs(15);
/// Longest reason of one instance, in characters.
const LONGEST_REASON: usize = 160;
/// Instances named in one sentence.
const MOST_NAMED: usize = 5;

/// `deployctl node drain`
pub(super) async fn drain(api: &Api, asked: &Drain) -> Result<(), Error> {
    let node = &asked.node;
    let progress = Progress::start(&format!("{node}: draining"));
    let deadline = Deadline::after(asked.timeout);
    let api = &api.until(deadline);
    let mut patience = patience(&progress, deadline);
    let interrupted = Shutdown::on_signals();
    let ended = tokio::select! {
        ended = leave(api, asked, &mut patience) => ended,
        () = interrupted.wait() => Err(Error::Interrupted { node: node.clone() }),
    };
    match &ended {
        Ok(Some(())) => progress.done(&format!("{node} is empty and stays cordoned")),
        Ok(None) => {
            progress.done(&format!("{node} is cordoned; what runs there moves. `deployctl node show {node}` tells"))
        }
        Err(_) => progress.abandon(),
    }
    ended?;
    eprintln!("`deployctl node uncordon {node}` lets new work in again");
    Ok(())
}

/// None when nobody waits.
async fn leave(api: &Api, asked: &Drain, patience: &mut Patience) -> Result<Option<()>, Error> {
    ask(api, asked, patience).await?;
    if asked.no_wait {
        return Ok(None);
    }
    let mut asked_at = Instant::now();
    loop {
        let Some(status) = patiently(api.node(&asked.node).await, patience).await? else { continue };
        let Left { bound, moving } = left(&status, asked.force);
        if moving.is_empty() && bound.is_empty() {
            return Ok(Some(()));
        }
        if moving.is_empty() {
            let why = format!(
                "bound to their data: {}; `deployctl node drain {} --force` moves them without it",
                names(&bound),
                asked.node
            );
            return Err(Error::Stays { node: asked.node.clone(), why });
        }
        let why = format!("{} of {} instances are still there: {}", moving.len(), status.pods.len(), names(&moving));
        patience.pause(&why).await.map_err(|error| given_up(error, asked, &why))?;
        if asked_at.elapsed() >= AGAIN_AFTER {
            ask(api, asked, patience).await?;
            asked_at = Instant::now();
        }
    }
}

async fn ask(api: &Api, asked: &Drain, patience: &mut Patience) -> Result<(), api::Error> {
    let mut with: Vec<(&'static str, &str)> = asked.why.iter().map(|why| ("why", why.as_str())).collect();
    with.extend(asked.force.then_some(("force", "true")));
    api.change_node(&asked.node, "drain", &with, patience).await
}

fn given_up(error: api::Error, asked: &Drain, why: &str) -> api::Error {
    match error {
        api::Error::Deadline { after, .. } => api::Error::Deadline {
            after,
            waiting_for: format!("{}; the node stays cordoned (`deployctl node uncordon {}`)", why, asked.node),
        },
        other => other,
    }
}

/// Who has not left.
struct Left<'a> {
    /// Bound to their data, and not forced.
    bound: Vec<&'a PodOnNode>,
    /// On their way, or waiting for a place.
    moving: Vec<&'a PodOnNode>,
}

fn left(status: &NodeStatus, force: bool) -> Left<'_> {
    let (bound, moving) = status.pods.iter().partition(|pod| pod.bound && !pod.leaving && !force);
    Left { bound, moving }
}

fn names(pods: &[&PodOnNode]) -> String {
    let name = |pod: &&PodOnNode| match pod.why.as_str() {
        "" => pod.name.clone(),
        why => format!("{} ({})", pod.name, cut(why, LONGEST_REASON)),
    };
    let named: Vec<String> = pods.iter().take(MOST_NAMED).map(name).collect();
    let more = pods.len().saturating_sub(MOST_NAMED);
    if more > 0 { format!("{} and {more} more", named.join(", ")) } else { named.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_bound_is_told_apart_from_who_is_on_its_way() {
        let pod =
            |name: &str, bound, leaving| PodOnNode { name: name.to_owned(), bound, leaving, ..PodOnNode::default() };
        let pods = vec![pod("a", false, false), pod("b", true, false), pod("c", true, true), pod("d", false, true)];
        let status = NodeStatus { pods, ..NodeStatus::default() };
        let found = left(&status, false);
        assert_eq!((names(&found.bound), names(&found.moving)), ("b".to_owned(), "a, c, d".to_owned()));
        assert!(left(&status, true).bound.is_empty());
    }

    #[test]
    fn many_names_are_cut_short_and_reasons_are_told() {
        let pod = |number: usize| PodOnNode { name: format!("p{number}"), ..PodOnNode::default() };
        let many: Vec<PodOnNode> = (1..=7).map(pod).collect();
        assert_eq!(names(&many.iter().collect::<Vec<_>>()), "p1, p2, p3, p4, p5 and 2 more");
        let stuck = PodOnNode { why: "no node fits".to_owned(), ..pod(1) };
        assert_eq!(names(&[&stuck]), "p1 (no node fits)");
    }
}
