//! `rollout`, `gate` and `drained`: shows and controls rollouts.

pub mod follow;
pub mod history;
pub mod outcome;

use std::time::Duration;

use self::follow::{Followed, Watched};
use self::outcome::{RolloutOutcome, judge};
use crate::api::{self, Api, Deadline, Retry};
use crate::args::{self, Output, RolloutWhat};
use crate::commands::wait;
use crate::output::{self, show};

/// How long to retry a command; only `status` and `undo` wait for instances, with deadlines of their own.
const RETRY_FOR: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the rollout of PodGroup {name} to revision {release} {reason}")]
    Failed { name: String, release: u32, reason: String },
    #[error(
        "interrupted; the rollout of PodGroup {name} continues in the background; `deployctl rollout status {name}` shows it"
    )]
    Interrupted { name: String },
    #[error(
        "PodGroup {name} is paused, so undo would change nothing now; run `deployctl rollout resume {name}` first, or pass \
         --force to roll back when it is resumed"
    )]
    Paused { name: String },
    #[error(
        "the rollout of PodGroup {name} to revision {release} has no current batch; `deployctl rollout status {name}` shows its progress"
    )]
    NoBatch { name: String, release: u32 },
    #[error(transparent)]
    Api(#[from] api::Error),
}

/// `deployctl rollout`
pub async fn rollout(api: &Api, what: &RolloutWhat) -> Result<(), Error> {
    match what {
        RolloutWhat::Status(asked) => status(api, asked).await,
        RolloutWhat::History(asked) => history::history(api, asked).await,
        RolloutWhat::Undo(asked) => undo(api, asked).await,
        RolloutWhat::Pause(asked) => {
            control(api, asked, "pause", "is paused; `deployctl rollout resume {}` resumes it").await
        }
        RolloutWhat::Resume(asked) => control(api, asked, "resume", "is resumed").await,
        RolloutWhat::Abort(asked) => {
            control(api, asked, "abort", "has aborted its rollout; its instances keep their revisions").await
        }
        RolloutWhat::Freeze(asked) => {
            control(api, asked, "freeze", "is frozen; `deployctl rollout unfreeze {}` allows changes again").await
        }
        RolloutWhat::Unfreeze(asked) => control(api, asked, "unfreeze", "is not frozen").await,
        RolloutWhat::Confirm(asked) => control_batch(api, asked, "confirm", "is approved").await,
        RolloutWhat::Skip(asked) => control_batch(api, asked, "skip", "is skipped").await,
    }
}

async fn status(api: &Api, asked: &args::Follow) -> Result<(), Error> {
    if !asked.no_wait {
        let watched = asked.release.map_or(Watched::Current, Watched::Only);
        let deadline = Deadline::after(asked.timeout);
        return ended(follow::follow(api, &asked.name, watched, deadline).await?, asked.output);
    }
    let view = api.rollout(&asked.name).await?;
    let release = asked.release.unwrap_or(view.release);
    let outcome = match asked.release {
        None => follow::judge_newest(api, &view).await?,
        Some(release) if release == view.release => judge(&view),
        Some(release) => follow::former(api, &view, release).await?,
    };
    ended(Followed { view, release, outcome }, asked.output)
}

/// Prints the final state; an error if the rollout failed.
pub(crate) fn ended(followed: Followed, output: Output) -> Result<(), Error> {
    let Followed { view, release, outcome } = followed;
    show(output, &view, || output::rollout::whole(&view));
    match outcome {
        RolloutOutcome::Failed(reason) => Err(Error::Failed { name: view.name, release, reason }),
        RolloutOutcome::Complete | RolloutOutcome::InProgress => Ok(()),
    }
}

async fn undo(api: &Api, asked: &args::Undo) -> Result<(), Error> {
    let name = asked.name.as_str();
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    let mut retry = Retry::until(deadline, |_| {});
    let is_paused = wait::first_read(&mut retry, async || api.rollout(name).await).await?.is_paused;
    if is_paused && !asked.force {
        return Err(Error::Paused { name: name.to_owned() });
    }
    let mut with = Vec::new();
    with.extend(asked.release.map(|release| ("release", release.to_string())));
    with.extend(asked.revision.map(|revision| ("revision", revision.to_string())));
    with.extend(asked.cause.clone().map(|cause| ("cause", cause)));
    api.control_rollout(name, "undo", &with, &mut retry).await?;
    let release = wait::read(&mut retry, async || api.rollout(name).await).await?.release;
    println!("rolling back PodGroup {name} (revision {release})");
    // The rollback of a paused group begins when a user resumes it.
    if asked.waiting.waits() && !is_paused {
        let followed = follow::follow(api, name, Watched::Only(release), deadline).await?;
        return ended(followed, Output::Table);
    }
    println!("`deployctl rollout status {name}` follows it");
    Ok(())
}

/// Sends `action` and prints its effect; `{}` stands for the group's name.
async fn control(api: &Api, asked: &args::Control, action: &str, done: &str) -> Result<(), Error> {
    let with: Vec<_> = asked.release.map(|release| ("release", release.to_string())).into_iter().collect();
    api.control_rollout(&asked.name, action, &with, &mut retry()).await?;
    println!("PodGroup {} {}", asked.name, done.replace("{}", &asked.name));
    Ok(())
}

/// Names the rollout and the batch, so that the scheduler refuses when the rollout has moved on meanwhile.
async fn control_batch(api: &Api, asked: &args::ControlBatch, action: &str, done: &str) -> Result<(), Error> {
    let name = asked.name.as_str();
    let (release, group) = match (asked.release, asked.batch) {
        (release, Some(group)) => (release, group),
        (release, None) => {
            let view = api.rollout(name).await?;
            if view.group == 0 {
                return Err(Error::NoBatch { name: name.to_owned(), release: view.release });
            }
            (Some(release.unwrap_or(view.release)), view.group)
        }
    };
    let mut with: Vec<_> = release.map(|release| ("release", release.to_string())).into_iter().collect();
    with.push(("group", group.to_string()));
    api.control_rollout(name, action, &with, &mut retry()).await?;
    println!("batch {group} of PodGroup {name} {done}; `deployctl rollout status {name}` follows the rollout");
    Ok(())
}

/// `deployctl gate`
pub async fn gate(api: &Api, asked: &args::Gate) -> Result<(), api::Error> {
    let (instance, version) = (asked.instance.to_string(), asked.version.map(|version| version.to_string()));
    let value = if asked.value { "true" } else { "false" };
    let mut params = vec![
        ("name", asked.name.as_str()),
        ("cmd", "gate"),
        ("instance", instance.as_str()),
        ("gate", asked.gate.as_str()),
        ("value", value),
    ];
    params.extend(version.as_deref().map(|version| ("version", version)));
    api.set_gate(&params, &mut retry()).await?;
    println!("gate {} of instance {instance} of PodGroup {} is {value}", asked.gate, asked.name);
    Ok(())
}

/// `deployctl drained`
pub async fn drained(api: &Api, asked: &args::Drained) -> Result<(), api::Error> {
    api.drained(&asked.name, asked.instance, &mut retry()).await?;
    println!("instance {} of PodGroup {} is drained", asked.instance, asked.name);
    Ok(())
}

fn retry() -> Retry {
    Retry::for_span(RETRY_FOR, |_| {})
}
