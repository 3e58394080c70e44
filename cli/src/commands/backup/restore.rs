//! `deployctl restore`: puts a backup in the place of everything the cluster stores.
//!
//! The whole file is checked before anything is sent. Its parts are kept aside by the cluster and change nothing; only the
//! last step does, and the cluster checks the file once more before it. So what is cut off on the way has changed nothing and
//! is simply run again.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::path::Path;
use std::time::Duration;

use contract::api::ClusterStatus;
use contract::backup::{self, Backup, MOST_PARTS, Step};
use contract::name::CommandId;

use super::contents::Contents;
use super::{DASH, Error, now};
use crate::api::{self, Api, Deadline, Patience};
use crate::args;
use crate::commands::wait;
use crate::output::progress::Progress;

/// Agents report within seconds what runs; nobody waits longer than this to be told how much it is.
const UNTIL_COUNTED: Duration = Duration::from_secs(15);

/// Restores a backup, or forgets one that was begun.
pub async fn restore(api: &Api, asked: &args::Restore) -> Result<(), Error> {
    if asked.abort {
        let deadline = Deadline::after(asked.timeout);
        api.until(deadline).restore(&Step::Abort, &mut Patience::until(deadline, |_| {})).await?;
        println!("what was kept aside of a restore is forgotten; nothing else changed");
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
    if !asked.yes && !is_confirmed() {
        return Err(Error::Unconfirmed);
    }
    let progress = Progress::start("sending the backup");
    let deadline = Deadline::after(asked.timeout);
    let mut patience = wait::patience(&progress, deadline);
    let restored = put_in_place(&api.until(deadline), &parts, asked.replace, (&progress, &mut patience)).await;
    let status = wait::finish(&progress, restored, "the backup is in place")?;
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

/// Says what the backup holds and what it would replace.
fn describe(backup: &Backup, present: &ClusterStatus) -> Contents {
    let mut contents = Contents::default();
    backup.entries.iter().for_each(|entry| contents.count(entry));
    let header = &backup.header;
    eprintln!("the backup of {} (deployd {}, revision {}):", header.taken_at, header.version, header.revision);
    eprintln!("  holds     {contents}");
    eprintln!("  replaces  {} PodGroups with {} instances", present.groups, present.instances);
    contents
}

fn is_confirmed() -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    eprint!("Put it in place? Only `yes` does: ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).is_ok() && answer.trim() == "yes"
}

/// Sends every part and then that they are all there; what the cluster is once it is led again.
async fn put_in_place(
    api: &Api,
    parts: &[&str],
    replace: bool,
    (progress, patience): (&Progress, &mut Patience),
) -> Result<ClusterStatus, api::Error> {
    let restore: CommandId = format!("restore-{:x}-{:x}", now().as_millis(), std::process::id())
        .parse()
        .expect("letters, digits and dashes");
    for (index, text) in (0u32..).zip(parts) {
        progress.update(&format!("sending part {} of {}", index + 1, parts.len()));
        let step = Step::Stage { restore: restore.clone(), part: index, text: (*text).to_owned() };
        api.restore(&step, patience).await?;
    }
    progress.update("the cluster checks the backup and puts it in place");
    let parts = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    api.restore(&Step::Finish { restore: restore.clone(), parts, replace }, patience).await?;
    loop {
        let status = wait::patiently(api.cluster().await, patience).await?;
        match status {
            Some(status) if status.restored == restore.as_str() && !status.leader.is_empty() => break,
            Some(_) => patience.pause("the cluster puts the backup in place").await?,
            None => {}
        }
    }
    counted(api, patience).await
}

/// The cluster once everything runs that is wanted, or as it is after a while.
async fn counted(api: &Api, patience: &mut Patience) -> Result<ClusterStatus, api::Error> {
    let mut short = Patience::for_span(UNTIL_COUNTED, |_| {});
    loop {
        match wait::patiently(api.cluster().await, patience).await? {
            Some(status) if status.running >= status.instances || short.is_over() => return Ok(status),
            // The time may be over just now: then the next look is the last.
            Some(_) => drop(short.pause("instances are counted").await),
            None => {}
        }
    }
}
