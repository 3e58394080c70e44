//! `node drain`: cordons a node, moves its instances, and waits until it is empty.
//!
//! An instance that no other node fits stays, and room may appear later, so deployctl repeats the request every 15 s. The request
//! is idempotent.

use std::time::Duration;

use fabric::shutdown::Shutdown;
use tokio::time::Instant;

use super::Error;
use super::remaining::{Remaining, names, remaining, unheard};
use crate::api::{self, Api, Deadline, Retry};
use crate::args::Drain;
use crate::commands::wait::{read, retry};
use crate::output::progress::Progress;

const AGAIN_AFTER: Duration = Duration::from_secs(15);

/// `deployctl node drain`
pub(super) async fn drain(api: &Api, asked: &Drain) -> Result<(), Error> {
    let node = &asked.node;
    let progress = Progress::start(&format!("{node}: draining"));
    let deadline = Deadline::after(asked.timeout);
    let api = &api.until(deadline);
    let mut retry = retry(&progress, deadline);
    let interrupted = Shutdown::on_signals();
    let ended = tokio::select! {
        ended = leave(api, asked, &mut retry) => ended,
        () = interrupted.wait() => Err(Error::Interrupted { node: node.clone() }),
    };
    match &ended {
        Ok(Some(())) => progress.done(&format!("{node} is empty and stays cordoned")),
        Ok(None) => progress
            .done(&format!("{node} is cordoned and its instances move; `deployctl node show {node}` shows the rest")),
        Err(_) => progress.abandon(),
    }
    ended?;
    eprintln!("`deployctl node uncordon {node}` allows new instances again");
    Ok(())
}

/// Returns none with --no-wait.
async fn leave(api: &Api, asked: &Drain, retry: &mut Retry) -> Result<Option<()>, Error> {
    request(api, asked, retry).await?;
    if asked.no_wait {
        return Ok(None);
    }
    let mut requested_at = Instant::now();
    loop {
        let status = read(retry, async || api.node(&asked.node).await).await?;
        let Remaining { bound, moving } = remaining(&status, asked.force, |_| true);
        let unheard = unheard(&status);
        if moving.is_empty() && bound.is_empty() && unheard.is_none() {
            return Ok(Some(()));
        }
        if moving.is_empty() && !bound.is_empty() {
            let why = format!(
                "instances with local data stay: {}; `deployctl node drain {} --force` moves them without it",
                names(&bound),
                asked.node
            );
            return Err(Error::Stays { node: asked.node.clone(), why });
        }
        let why = unheard.unwrap_or_else(|| {
            format!("waiting for {} of {} instances: {}", moving.len(), status.pods.len(), names(&moving))
        });
        retry.pause(&why).await.map_err(|error| given_up(error, asked, &why))?;
        if requested_at.elapsed() >= AGAIN_AFTER {
            request(api, asked, retry).await?;
            requested_at = Instant::now();
        }
    }
}

async fn request(api: &Api, asked: &Drain, retry: &mut Retry) -> Result<(), api::Error> {
    let mut with: Vec<(&'static str, &str)> = asked.why.iter().map(|why| ("why", why.as_str())).collect();
    with.extend(asked.force.then_some(("force", "true")));
    api.change_node(&asked.node, "drain", &with, retry).await
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
