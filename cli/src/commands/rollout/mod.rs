//! `rollout`, `gate` and `drained`: shows releases and says to them what people want to say.

pub mod follow;
pub mod history;
pub mod verdict;

use std::time::Duration;

use self::follow::{Followed, Watched};
use self::verdict::{Verdict, judge};
use crate::api::{self, Api, Deadline, Patience};
use crate::args::{self, Output, RolloutWhat};
use crate::commands::wait;
use crate::output::progress::on_terminal;
use crate::output::{self, show};

/// How long to try to have something taken; nothing here but `status` and `undo` waits for instances.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a release was not watched to a good end, or not told something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It failed.
    #[error("release {release} of PodGroup {name} {reason}")]
    Failed {
        /// Of which group.
        name: String,
        /// Which.
        release: u32,
        /// How, and what would help.
        reason: String,
    },
    /// Nobody watches it any more.
    #[error("the release of PodGroup {name} goes on unwatched; `deployctl rollout status {name}` shows it again")]
    Interrupted {
        /// Of which group.
        name: String,
    },
    /// A paused release is not taken back behind the back of whoever paused it.
    #[error(
        "PodGroup {name} is paused, so nothing would go back; `deployctl rollout resume {name}` first, or --force to go back \
         once it is resumed"
    )]
    Paused {
        /// Which group.
        name: String,
    },
    /// The release is not made by groups, or its first has not begun.
    #[error(
        "release {release} of PodGroup {name} has no group under way; `deployctl rollout status {name}` shows how far it is"
    )]
    NoGroup {
        /// Of which group.
        name: String,
        /// Which.
        release: u32,
    },
    /// The API.
    #[error(transparent)]
    Api(#[from] api::Error),
}

/// `deployctl rollout`
pub async fn rollout(api: &Api, what: &RolloutWhat) -> Result<(), Error> {
    match what {
        RolloutWhat::Status(asked) => status(api, asked).await,
        RolloutWhat::History(asked) => history::history(api, asked).await,
        RolloutWhat::Undo(asked) => undo(api, asked).await,
        RolloutWhat::Pause(asked) => say(api, asked, "pause", "is paused; `deployctl rollout resume {}` goes on").await,
        RolloutWhat::Resume(asked) => say(api, asked, "resume", "goes on").await,
        RolloutWhat::Abort(asked) => say(api, asked, "abort", "has given its release up; its instances stay").await,
        RolloutWhat::Freeze(asked) => {
            say(api, asked, "freeze", "is frozen; `deployctl rollout unfreeze {}` goes on").await
        }
        RolloutWhat::Unfreeze(asked) => say(api, asked, "unfreeze", "is not frozen any more").await,
        RolloutWhat::Confirm(asked) => say_group(api, asked, "confirm", "is confirmed").await,
        RolloutWhat::Skip(asked) => say_group(api, asked, "skip", "is skipped").await,
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
    let verdict = match asked.release {
        None => follow::judge_newest(api, &view).await?,
        Some(release) if release == view.release => judge(&view),
        Some(release) => follow::former(api, &view, release).await?,
    };
    ended(Followed { view, release, verdict }, asked.output)
}

/// Shows what stands at the end, and fails if that is no good one.
pub(crate) fn ended(followed: Followed, output: Output) -> Result<(), Error> {
    let Followed { view, release, verdict } = followed;
    show(output, &view, || output::rollout::whole(&view));
    match verdict {
        Verdict::Failed(reason) => Err(Error::Failed { name: view.name, release, reason }),
        Verdict::Complete | Verdict::GoesOn => Ok(()),
    }
}

async fn undo(api: &Api, asked: &args::Undo) -> Result<(), Error> {
    let name = asked.name.as_str();
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    let mut patience = Patience::until(deadline, |_| {});
    if !asked.force && wait::first_read(&mut patience, async || api.rollout(name).await).await?.is_paused {
        return Err(Error::Paused { name: name.to_owned() });
    }
    let mut with = Vec::new();
    with.extend(asked.release.map(|release| ("release", release.to_string())));
    with.extend(asked.revision.map(|revision| ("revision", revision.to_string())));
    with.extend(asked.cause.clone().map(|cause| ("cause", cause)));
    api.say(name, "undo", &with, &mut patience).await?;
    let release = wait::read(&mut patience, async || api.rollout(name).await).await?.release;
    println!("PodGroup {name} goes back by release {release}");
    if asked.waiting.wanted(on_terminal()) {
        let followed = follow::follow(api, name, Watched::Only(release), deadline).await?;
        return ended(followed, Output::Table);
    }
    println!("`deployctl rollout status {name}` follows it");
    Ok(())
}

/// Says `action`, and then tells what is so now; `{}` stands for the group.
async fn say(api: &Api, asked: &args::Say, action: &str, done: &str) -> Result<(), Error> {
    let with: Vec<_> = asked.release.map(|release| ("release", release.to_string())).into_iter().collect();
    api.say(&asked.name, action, &with, &mut patience()).await?;
    println!("PodGroup {} {}", asked.name, done.replace("{}", &asked.name));
    Ok(())
}

/// Names both the release and the group, so that one that has moved on meanwhile refuses instead of taking it for another.
async fn say_group(api: &Api, asked: &args::SayGroup, action: &str, done: &str) -> Result<(), Error> {
    let name = asked.name.as_str();
    let (release, group) = match (asked.release, asked.group) {
        (release, Some(group)) => (release, group),
        (release, None) => {
            let view = api.rollout(name).await?;
            if view.group == 0 {
                return Err(Error::NoGroup { name: name.to_owned(), release: view.release });
            }
            (Some(release.unwrap_or(view.release)), view.group)
        }
    };
    let mut with: Vec<_> = release.map(|release| ("release", release.to_string())).into_iter().collect();
    with.push(("group", group.to_string()));
    api.say(name, action, &with, &mut patience()).await?;
    println!("group {group} of PodGroup {name} {done}; `deployctl rollout status {name}` follows it");
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
    api.set_gate(&params, &mut patience()).await?;
    println!("gate {} of instance {instance} of PodGroup {} is {value}", asked.gate, asked.name);
    Ok(())
}

/// `deployctl drained`
pub async fn drained(api: &Api, asked: &args::Drained) -> Result<(), api::Error> {
    api.drained(&asked.name, asked.instance, &mut patience()).await?;
    println!("instance {} of PodGroup {} is drained", asked.instance, asked.name);
    Ok(())
}

fn patience() -> Patience {
    Patience::for_span(PATIENCE, |_| {})
}
