//! `deployctl restore`: replaces the cluster's state by a backup.
//!
//! deployctl verifies the whole file before it sends anything. The scheduler stages the parts and verifies them again before the
//! last step, which is the only one that changes the state. An interrupted restore has changed nothing and can be repeated.

use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use contract::api::ClusterStatus;
use contract::backup::{self, Backup, MOST_PARTS, Step};
use contract::name::CommandId;

use super::contents::Contents;
use super::{DASH, Error, now};
use crate::api::{self, Api, Deadline, Retry};
use crate::args;
use crate::commands::wait;
use crate::output::progress::Progress;
use crate::output::question::is_confirmed_in_full;

/// Agents report their containers within seconds; wait no longer than this to count them.
const UNTIL_COUNTED: Duration = Duration::from_secs(15);

/// Restores a backup, or discards an unfinished restore.
pub async fn restore(api: &Api, asked: &args::Restore) -> Result<(), Error> {
    if asked.abort {
        let deadline = Deadline::after(asked.timeout);
        api.until(deadline).restore(&Step::Abort, &mut Retry::until(deadline, |_| {})).await?;
        println!("the unfinished restore is discarded; nothing else changed");
        return Ok(());
    }
    let file = asked.file.as_deref().ok_or(Error::NoFile)?;
    let text = read(file)?;
    let backup = backup::read(&text).map_err(|source| Error::Unfit { path: file.to_owned(), source })?;
    let parts = backup::parts(&text);
    if parts.len() > usize::try_from(MOST_PARTS).unwrap_or(usize::MAX) {
        return Err(Error::TooLarge { path: file.to_owned(), parts: parts.len(), most: MOST_PARTS });
    }
    let present = api.cluster().await?;
    let contents = describe(&backup, &present);
    if present.groups > 0 && !asked.replace {
        return Err(Error::NotEmpty { groups: present.groups });
    }
    if !asked.yes && !is_confirmed_in_full("Restore it?") {
        return Err(Error::Unconfirmed);
    }
    let progress = Progress::start("sending the backup");
    let deadline = Deadline::after(asked.timeout);
    let mut retry = wait::retry(&progress, deadline);
    let restored = send(&api.until(deadline), &parts, asked.replace, (&progress, &mut retry)).await;
    let status = wait::finish(&progress, restored, "the backup is restored")?;
    println!(
        "restored {} of {} PodGroups; {} of {} instances run",
        status.groups, contents.groups, status.running, status.instances
    );
    match contents.groups.saturating_sub(status.groups) {
        0 => Ok(()),
        missing => Err(Error::Incomplete { missing }),
    }
}

fn read(file: &Path) -> Result<String, Error> {
    let mut text = String::new();
    let read = if file == Path::new(DASH) {
        io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(file).map(|read| text = read)
    };
    read.map_err(|source| Error::File { action: "read", path: file.to_owned(), source })?;
    Ok(text)
}

/// Prints what the backup contains and what it would replace.
fn describe(backup: &Backup, present: &ClusterStatus) -> Contents {
    let mut contents = Contents::default();
    backup.entries.iter().for_each(|entry| contents.count(entry));
    let header = &backup.header;
    eprintln!("the backup of {} (deployd {}, revision {}):", header.taken_at, header.version, header.revision);
    eprintln!("  contains  {contents}");
    eprintln!("  replaces  {} PodGroups with {} instances", present.groups, present.instances);
    contents
}

/// Sends every part and the final step; returns the cluster's status once a leader has restored it.
async fn send(
    api: &Api,
    parts: &[&str],
    replace: bool,
    (progress, retry): (&Progress, &mut Retry),
) -> Result<ClusterStatus, api::Error> {
    let restore: CommandId = format!("restore-{:x}-{:x}", now().as_millis(), std::process::id())
        .parse()
        .expect("letters, digits and dashes");
    for (index, text) in (0u32..).zip(parts) {
        progress.update(&format!("sending part {} of {}", index + 1, parts.len()));
        let step = Step::Stage { restore: restore.clone(), part: index, text: (*text).to_owned() };
        api.restore(&step, retry).await?;
    }
    progress.update("the scheduler verifies and restores the backup");
    let parts = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    api.restore(&Step::Finish { restore: restore.clone(), parts, replace }, retry).await?;
    loop {
        let status = wait::or_wait(api.cluster().await, retry).await?;
        match status {
            Some(status) if status.restored == restore.as_str() && !status.leader.is_empty() => break,
            Some(_) => retry.pause("the scheduler restores the backup").await?,
            None => {}
        }
    }
    counted(api, retry).await
}

/// The cluster's status once all instances run, or after 15 s.
async fn counted(api: &Api, retry: &mut Retry) -> Result<ClusterStatus, api::Error> {
    let mut short = Retry::for_span(UNTIL_COUNTED, |_| {});
    loop {
        match wait::or_wait(api.cluster().await, retry).await? {
            Some(status) if status.running >= status.instances || short.is_over() => return Ok(status),
            // At the deadline the next read is the last.
            Some(_) => drop(short.pause("instances are counted").await),
            None => {}
        }
    }
}
