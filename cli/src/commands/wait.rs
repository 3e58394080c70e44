//! Waits until what was accepted is true, and says meanwhile what is missing.
//!
//! An accepted operation holds the group's lock until it is over, whatever became of it; so first the lock is waited for,
//! then the instances. A failover or a restarted apiserver meanwhile is only one more reason to wait, and an answer of a standby,
//! which may be behind, ends no wait.

use contract::api::{Pod, PodGroupLine, PodGroupWithSpec};
use contract::state::RunState;

use crate::api::{self, Api, Deadline, Patience};
use crate::output::progress::Progress;
use crate::output::table;

/// Patience that shows on `progress` what it is for.
pub fn patience(progress: &Progress, deadline: Deadline) -> Patience {
    let progress = progress.clone();
    Patience::until(deadline, move |why| progress.update(why))
}

/// Ends `progress`, with `text` if all went well.
pub fn finish<T, E>(progress: &Progress, result: Result<T, E>, text: &str) -> Result<T, E> {
    match &result {
        Ok(_) => progress.done(text),
        Err(_) => progress.abandon(),
    }
    result
}

/// Waits until a group has `instances` instances and all are ready, and shows them.
pub async fn until_running(api: &Api, name: &str, instances: i64, deadline: Deadline) -> Result<(), api::Error> {
    let progress = Progress::start(&format!("PodGroup {name}: waiting until its instances are ready"));
    let mut patience = patience(&progress, deadline);
    let group = running(api, name, instances, &mut patience).await;
    let group = finish(&progress, group, &format!("PodGroup {name} is ready"))?;
    println!("{}", table::instances(&group));
    Ok(())
}

/// The group once all its instances are ready.
pub async fn running(
    api: &Api,
    name: &str,
    instances: i64,
    patience: &mut Patience,
) -> Result<PodGroupWithSpec, api::Error> {
    loop {
        match read(patience, async || api.group(name).await).await? {
            Some(group) if runs(&group, instances) => return Ok(group),
            Some(group) => patience.pause(&why_not(&group, instances)).await?,
            None => patience.pause("it is not there yet").await?,
        }
    }
}

/// The group once no operation holds it any more.
pub async fn settled(
    api: &Api,
    namespace: &str,
    name: &str,
    patience: &mut Patience,
) -> Result<PodGroupWithSpec, api::Error> {
    loop {
        match read(patience, async || api.line(namespace, name).await).await? {
            Some(line) if line.operation.is_empty() => break,
            Some(line) => patience.pause(&progress_of(&line)).await?,
            None => return Err(api::Error::no_group(name)),
        }
    }
    read(patience, async || api.group(name).await).await?.ok_or_else(|| api::Error::no_group(name))
}

/// Waits until `lacks` misses nothing of any addressed instance; it returns what an instance lacks.
pub async fn until_instances(
    api: &Api,
    name: &str,
    only: Option<u32>,
    lacks: impl Fn(&Pod) -> Option<String>,
    patience: &mut Patience,
) -> Result<PodGroupWithSpec, api::Error> {
    loop {
        let group = read(patience, async || api.group(name).await).await?;
        let group = group.ok_or_else(|| api::Error::no_group(name))?;
        let addressed: Vec<&Pod> =
            group.pods.iter().filter(|pod| only.is_none_or(|number| pod.instance_no == number)).collect();
        let lacking = match only {
            Some(number) if addressed.is_empty() => {
                return Err(api::Error::NotFound(format!("PodGroup {name} has no instance {number} any more")));
            }
            None if addressed.is_empty() && group.spec.num_instances > 0 => Some("it has no instances yet".to_owned()),
            _ => addressed.into_iter().find_map(&lacks),
        };
        let Some(lacking) = lacking else { return Ok(group) };
        let error = &group.last_error;
        let known = error.is_empty() || lacking.contains(error.as_str());
        patience.pause(&if known { lacking } else { format!("{lacking}; {error}") }).await?;
    }
}

/// Reads until an answer comes: a failover, a restarted apiserver or a rate limit is one more reason to wait.
pub async fn read<T>(
    patience: &mut Patience,
    mut ask: impl AsyncFnMut() -> Result<T, api::Error>,
) -> Result<T, api::Error> {
    loop {
        if let Some(answer) = patiently(ask().await, patience).await? {
            return Ok(answer);
        }
    }
}

/// The same for the first request of a command: an API that cannot be reached is reported at once.
pub async fn first_read<T>(
    patience: &mut Patience,
    mut ask: impl AsyncFnMut() -> Result<T, api::Error>,
) -> Result<T, api::Error> {
    loop {
        match ask().await {
            Err(error @ api::Error::Unreachable { .. }) => return Err(error),
            answer => {
                if let Some(answer) = patiently(answer, patience).await? {
                    return Ok(answer);
                }
            }
        }
    }
}

/// The answer; none after a wait when the failure is temporary. The patience bounds the waits.
pub async fn patiently<T>(result: Result<T, api::Error>, patience: &mut Patience) -> Result<Option<T>, api::Error> {
    match result {
        Err(error) if error.is_temporary() => patience.retry(error).await.map(|()| None),
        other => other.map(Some),
    }
}

fn progress_of(line: &PodGroupLine) -> String {
    let (ready, wanted) = (table::ready(line), line.num_instances);
    let text = format!("{}, {ready} of {wanted} instances are ready", line.operation.to_lowercase());
    if line.last_error.is_empty() { text } else { format!("{text}; {}", line.last_error) }
}

fn runs(group: &PodGroupWithSpec, instances: i64) -> bool {
    let all = i64::try_from(group.pods.len()).is_ok_and(|count| count == instances);
    all && group.pods.iter().all(table::is_ready)
}

fn why_not(group: &PodGroupWithSpec, instances: i64) -> String {
    let mut parts = vec![format!(
        "{} of {instances} instances are ready",
        group.pods.iter().filter(|pod| table::is_ready(pod)).count()
    )];
    // An instance that is down or unhealthy explains more than one that is only pending.
    let unready = group.pods.iter().filter(|pod| !table::is_ready(pod));
    let first =
        unready.max_by_key(|pod| (pod.exit.is_some(), !pod.last_error.is_empty(), pod.state != RunState::Pending));
    parts.extend(first.map(|pod| table::unready(pod, table::now())));
    parts.extend(
        Some(group.last_error.clone())
            .filter(|error| !error.is_empty() && !parts.iter().any(|part| part.contains(error))),
    );
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(states: &[RunState]) -> PodGroupWithSpec {
        let pod = |state: &RunState| Pod { state: *state, ..Pod::default() };
        PodGroupWithSpec { pods: states.iter().map(pod).collect(), ..Default::default() }
    }

    #[test]
    fn a_group_runs_when_every_wanted_instance_does() {
        assert!(runs(&group(&[RunState::Success, RunState::Success]), 2));
        assert!(!runs(&group(&[RunState::Success]), 2), "one is not there yet");
        assert!(!runs(&group(&[RunState::Success, RunState::Exit]), 2));
        assert!(!runs(&group(&[RunState::Success, RunState::Success, RunState::Success]), 2), "one is still going");
        assert!(runs(&group(&[]), 0));
    }

    #[test]
    fn waiting_says_what_went_wrong() {
        let mut group = group(&[RunState::Success, RunState::Pending]);
        group.pods[1].instance_no = 2;
        assert_eq!(why_not(&group, 2), "1 of 2 instances are ready; instance 2 is pending");
        group.pods[1].last_error = "no such image".to_owned();
        group.last_error = "no such image".to_owned();
        assert_eq!(why_not(&group, 2), "1 of 2 instances are ready; instance 2 is pending: no such image");
        group.last_error = "the upgrade was rolled back".to_owned();
        let expected = "1 of 2 instances are ready; instance 2 is pending: no such image; the upgrade was rolled back";
        assert_eq!(why_not(&group, 2), expected);
    }
}
