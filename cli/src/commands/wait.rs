//! Waits until an accepted change is made, and shows meanwhile what is missing.
//!
//! An accepted operation holds the group's lock until it ends, with or without success. So a command waits for the lock first,
//! then for the instances. Failovers and apiserver restarts prolong the wait; an answer of a standby, which may be out of date,
//! never ends it.

use contract::api::{Pod, PodGroupLine, PodGroupWithSpec};
use contract::state::RunState;

use crate::api::{self, Api, Deadline, Retry};
use crate::output::progress::Progress;
use crate::output::table;

/// Retries that show on `progress` what they wait for.
pub fn retry(progress: &Progress, deadline: Deadline) -> Retry {
    let progress = progress.clone();
    Retry::until(deadline, move |why| progress.update(why))
}

/// Ends `progress`, with `text` if all went well.
pub fn finish<T, E>(progress: &Progress, result: Result<T, E>, text: &str) -> Result<T, E> {
    match &result {
        Ok(_) => progress.done(text),
        Err(_) => progress.abandon(),
    }
    result
}

/// Waits until a group has `instances` ready instances, and prints them.
pub async fn until_running(api: &Api, name: &str, instances: i64, deadline: Deadline) -> Result<(), api::Error> {
    let progress = Progress::start(&format!("PodGroup {name}: waiting until its instances are ready"));
    let mut retry = retry(&progress, deadline);
    let group = running(api, name, instances, &mut retry).await;
    let group = finish(&progress, group, &format!("PodGroup {name} is ready"))?;
    table::instances(&group).print();
    Ok(())
}

/// The group once all its instances are ready.
pub async fn running(api: &Api, name: &str, instances: i64, retry: &mut Retry) -> Result<PodGroupWithSpec, api::Error> {
    loop {
        match read(retry, async || api.group(name).await).await? {
            Some(group) if runs(&group, instances) => return Ok(group),
            Some(group) => retry.pause(&why_not(&group, instances)).await?,
            None => retry.pause("it does not exist yet").await?,
        }
    }
}

/// The group once no operation holds its lock.
pub async fn settled(
    api: &Api,
    namespace: &str,
    name: &str,
    retry: &mut Retry,
) -> Result<PodGroupWithSpec, api::Error> {
    loop {
        match read(retry, async || api.line(namespace, name).await).await? {
            Some(line) if line.operation.is_empty() => break,
            Some(line) => retry.pause(&progress_of(&line)).await?,
            None => return Err(api::Error::no_group(name)),
        }
    }
    read(retry, async || api.group(name).await).await?.ok_or_else(|| api::Error::no_group(name))
}

/// Waits until `lacks` returns none for every selected instance; it returns what an instance lacks.
pub async fn until_instances(
    api: &Api,
    name: &str,
    only: Option<u32>,
    lacks: impl Fn(&Pod) -> Option<String>,
    retry: &mut Retry,
) -> Result<PodGroupWithSpec, api::Error> {
    loop {
        let group = read(retry, async || api.group(name).await).await?;
        let group = group.ok_or_else(|| api::Error::no_group(name))?;
        let selected: Vec<&Pod> =
            group.pods.iter().filter(|pod| only.is_none_or(|number| pod.instance_no == number)).collect();
        let lacking = match only {
            Some(number) if selected.is_empty() => {
                return Err(api::Error::NotFound(format!("PodGroup {name} has no instance {number} any more")));
            }
            None if selected.is_empty() && group.spec.num_instances > 0 => Some("it has no instances yet".to_owned()),
            _ => selected.into_iter().find_map(&lacks),
        };
        let Some(lacking) = lacking else { return Ok(group) };
        let error = &group.last_error;
        let known = error.is_empty() || lacking.contains(error.as_str());
        retry.pause(&if known { lacking } else { format!("{lacking}; {error}") }).await?;
    }
}

/// Reads, and retries after a failover, an apiserver restart or a rate limit.
pub async fn read<T>(retry: &mut Retry, mut ask: impl AsyncFnMut() -> Result<T, api::Error>) -> Result<T, api::Error> {
    loop {
        if let Some(answer) = or_wait(ask().await, retry).await? {
            return Ok(answer);
        }
    }
}

/// The same for the first request of a command: an unreachable API is an immediate error.
pub async fn first_read<T>(
    retry: &mut Retry,
    mut ask: impl AsyncFnMut() -> Result<T, api::Error>,
) -> Result<T, api::Error> {
    loop {
        match ask().await {
            Err(error @ api::Error::Unreachable { .. }) => return Err(error),
            answer => {
                if let Some(answer) = or_wait(answer, retry).await? {
                    return Ok(answer);
                }
            }
        }
    }
}

/// The answer; none after a temporary failure and a wait.
pub async fn or_wait<T>(result: Result<T, api::Error>, retry: &mut Retry) -> Result<Option<T>, api::Error> {
    match result {
        Err(error) if error.is_temporary() => retry.after_error(error).await.map(|()| None),
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
    fn a_group_is_ready_when_every_wanted_instance_is() {
        assert!(runs(&group(&[RunState::Success, RunState::Success]), 2));
        assert!(!runs(&group(&[RunState::Success]), 2), "one is missing");
        assert!(!runs(&group(&[RunState::Success, RunState::Exit]), 2));
        assert!(
            !runs(&group(&[RunState::Success, RunState::Success, RunState::Success]), 2),
            "one is still being removed"
        );
        assert!(runs(&group(&[]), 0));
    }

    #[test]
    fn the_reason_of_a_wait_names_the_problem() {
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
