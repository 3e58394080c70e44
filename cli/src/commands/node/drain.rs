//! `node drain`: cordons a node, moves what runs there, and waits until it is empty.
//!
//! An instance that finds no place stays where it is, and room may appear later: so the drain is asked for again from time to
//! time. Asking twice changes nothing.

use std::time::Duration;

use fabric::shutdown::Shutdown;
use tokio::time::Instant;

use super::Error;
use super::leaving::{Left, left, names, unheard};
use crate::api::{self, Api, Deadline, Patience};
use crate::args::Drain;
use crate::commands::wait::{patience, read};
use crate::output::progress::Progress;

/// Between two requests for what has not moved.
const AGAIN_AFTER: Duration = Duration::from_secs(15);

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
        let status = read(patience, async || api.node(&asked.node).await).await?;
        let Left { bound, moving } = left(&status, asked.force, |_| true);
        let unheard = unheard(&status);
        if moving.is_empty() && bound.is_empty() && unheard.is_none() {
            return Ok(Some(()));
        }
        if moving.is_empty() && !bound.is_empty() {
            let why = format!(
                "bound to their data: {}; `deployctl node drain {} --force` moves them without it",
                names(&bound),
                asked.node
            );
            return Err(Error::Stays { node: asked.node.clone(), why });
        }
        let why = unheard.unwrap_or_else(|| {
            format!("{} of {} instances are still there: {}", moving.len(), status.pods.len(), names(&moving))
        });
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
