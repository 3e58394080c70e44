//! One group in full. Pure.

use contract::api::PodGroupWithSpec;
use contract::check::CheckKind;
use contract::event::Event;
use contract::rollout_view::RolloutView;
use contract::spec::{ContainerSpec, PodGroupSpec, PodSpec};
use contract::time::Timestamp;

use crate::output::rollout::{line, strategy};
use crate::output::table::{self, age, bytes, is_ready};
use crate::output::{event, lists};

/// The page of a group without its instances, and the lines below them.
pub(crate) fn group(group: &PodGroupWithSpec, rollout: Option<&RolloutView>, now: Timestamp) -> String {
    let spec = &group.spec;
    let ready = group.pods.iter().filter(|pod| is_ready(pod)).count();
    let mut lines = vec![lists::head(group)];
    let mut say = |title: &str, text: String| {
        lines.extend((!text.is_empty()).then(|| format!("  {title:<10} {text}")));
    };
    say("namespace", spec.namespace.clone());
    say("ready", format!("{ready} of {}", spec.num_instances));
    say("created", format!("{} ({} ago)", spec.created_at, age(spec.created_at, now)));
    for container in &spec.pod.containers {
        say("image", container.image.clone());
        say(
            "command",
            [container.entrypoint.clone().unwrap_or_default(), container.command.clone()].concat().join(" "),
        );
        say("limits", limits(container));
        say("port", if container.expose > 0 { container.expose.to_string() } else { String::new() });
        say("env", names(container));
        say("volumes", [container.volumes.clone(), container.system_volumes.clone()].concat().join(", "));
    }
    say("health", health(&spec.pod));
    say("restart", spec.restart_policy.word().to_owned());
    say("strategy", how(spec));
    say("labels", spec.pod.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", "));
    say("filters", spec.pod.filters.join(", "));
    say("gates", spec.readiness_gates.join(", "));
    say("rollout", rollout.map(line).unwrap_or_default());
    lines.join("\n")
}

/// The last events, or nothing.
pub(crate) fn events(events: &[Event]) -> String {
    let lines = events.iter().map(|event| format!("  {}", event::text(event)));
    std::iter::once("last events".to_owned()).chain(lines).collect::<Vec<_>>().join("\n")
}

/// Why instances are down or not ready, in full: the table cuts it.
pub(crate) fn problems(group: &PodGroupWithSpec, now: Timestamp) -> Vec<String> {
    let unready = group.pods.iter().filter(|pod| !is_ready(pod));
    unready.map(|pod| format!("  {}", table::unready(pod, now))).collect()
}

fn limits(container: &ContainerSpec) -> String {
    let memory = match u64::try_from(container.memory_limit) {
        Ok(limit) if limit > 0 => format!("{} memory", bytes(limit)),
        Ok(_) | Err(_) => "no memory limit".to_owned(),
    };
    if container.cpu_limit > 0 { format!("{memory}, CPU level {} of 8", container.cpu_limit) } else { memory }
}

/// The names of the environment variables; `get podgroup NAME -o json` shows the values to those who may see them.
fn names(container: &ContainerSpec) -> String {
    let name = |entry: &String| entry.split_once('=').map_or(entry.as_str(), |(name, _)| name).to_owned();
    container.env.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn health(pod: &PodSpec) -> String {
    let of_agent = CheckKind::ALL.into_iter().filter_map(|kind| {
        let check = pod.check(kind)?;
        Some(format!("{} {} every {} s", kind.word(), check.probe()?, check.every().as_secs()))
    });
    [of_docker(pod)]
        .into_iter()
        .flatten()
        .chain(of_agent)
        .reduce(|all, check| format!("{all}; {check}"))
        .unwrap_or_else(|| "the check of the image, if it has one".to_owned())
}

/// The check that Docker runs.
fn of_docker(pod: &PodSpec) -> Option<String> {
    let check = &pod.health_config;
    if check.cmd.is_empty() {
        return None;
    }
    let options = &check.options;
    let timing = (options.interval > 0)
        .then(|| format!(" every {} s, timeout {} s, {} retries", options.interval, options.timeout, options.retries));
    Some(format!("`{}`{}", check.cmd, timing.unwrap_or_default()))
}

fn how(spec: &PodGroupSpec) -> String {
    let name = strategy(spec.strategy_type());
    if !spec.has_strategy() {
        return format!("{name}: one instance after another");
    }
    format!("{name}, ready for {} s, on failure {:?}", spec.min_ready().as_secs(), spec.on_failure())
}

#[cfg(test)]
mod tests {
    use contract::api::Pod;
    use contract::exit::Exit;
    use contract::state::RunState;

    use super::*;

    #[test]
    fn a_group_is_described_with_its_spec_and_without_values_of_its_environment() {
        let json = r#"{"Name":"a.web.web","Namespace":"a","NumInstances":2,"RestartPolicy":1,"CreatedAt":"2026-01-01T00:00:00Z",
            "Strategy":{"Type":"RollingUpdate"},"Pod":{"Labels":{"tier":"web"},"HealthConfig":{"cmd":"check"},
            "Containers":[{"Image":"box:1","Env":["TOKEN=secret"],"MemoryLimit":268435456,"Expose":8080}]}}"#;
        let spec: PodGroupSpec = serde_json::from_str(json).unwrap();
        let exit = Exit { code: 3, last_line: "no such file".to_owned(), ..Exit::default() };
        let pods = vec![Pod { instance_no: 1, state: RunState::Exit, exit: Some(exit), ..Pod::default() }];
        let of = PodGroupWithSpec { spec, pods, ..PodGroupWithSpec::default() };
        let now = Timestamp::from_millis(1_767_225_605_000);
        let expected = "\
a.web.web: pending, version 0, 2 instances wanted
  namespace  a
  ready      0 of 2
  created    2026-01-01T00:00:00Z (5s ago)
  image      box:1
  limits     256MiB memory
  port       8080
  env        TOKEN
  health     `check`
  restart    always
  strategy   RollingUpdate, ready for 10 s, on failure Rollback
  labels     tier=web";
        assert_eq!(group(&of, None, now), expected);
        assert!(problems(&of, now)[0].starts_with("  instance 1 exited (3) "), "{:?}", problems(&of, now));
        assert!(problems(&of, now)[0].ends_with(": no such file"));
    }
}
