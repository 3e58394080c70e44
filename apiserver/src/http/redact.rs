//! Replaces the values of environment variables for clients that may not see them, and refuses to store the replacement. Pure.
//!
//! Example: `PASSWORD=secret` is shown as `PASSWORD=[redacted]`. A client that writes that back would overwrite the secret, so it
//! is refused.

use contract::access::REDACTED;
use contract::api::{NamespacePodsWithSpec, Pod, PodGroupWithSpec};
use contract::rollout_view::RevisionsView;
use contract::spec::PodSpec;
use contract::validate::Flaw;

use crate::access::Client;

/// Redacts a group unless the client may see the values in its namespace.
pub fn group(client: &Client, group: &mut PodGroupWithSpec) {
    if !client.principal.sees_environment(&group.spec.namespace) {
        pod_spec(&mut group.spec.pod);
        group.pods.iter_mut().for_each(pod);
    }
}

/// The same for a dependency pod.
pub fn dependency(client: &Client, dependency: &mut NamespacePodsWithSpec) {
    if !client.principal.sees_environment(&dependency.spec.namespace) {
        pod_spec(&mut dependency.spec);
        dependency.pods.values_mut().flatten().for_each(pod);
    }
}

/// The same for the revisions of a group; each has the namespace in its spec.
pub fn revisions(client: &Client, revisions: &mut RevisionsView) {
    for revision in &mut revisions.revisions {
        if !client.principal.sees_environment(&revision.pod.namespace) {
            pod_spec(&mut revision.pod);
        }
    }
}

/// Entries of a written spec whose value is the replacement; `at` is the path of the pod in the body.
pub fn flaws(pod: &PodSpec, at: &str) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    for (container, spec) in pod.containers.iter().enumerate() {
        for (index, entry) in spec.env.iter().enumerate() {
            if let Some((name, REDACTED)) = entry.split_once('=') {
                let field = format!("{at}Containers[{container}].Env[{index}]");
                let problem = format!(
                    "{name} has the value {REDACTED}, which replaces values that you may not see; write the real one"
                );
                flaws.push(Flaw { field, problem });
            }
        }
    }
    flaws
}

fn pod_spec(spec: &mut PodSpec) {
    for container in &mut spec.containers {
        container.env.iter_mut().for_each(entry);
    }
}

/// Docker's view of the containers.
fn pod(pod: &mut Pod) {
    for container in &mut pod.containers {
        container.runtime.config.env.iter_mut().flatten().for_each(entry);
    }
}

fn entry(entry: &mut String) {
    if let Some((name, _)) = entry.split_once('=') {
        *entry = format!("{name}={REDACTED}");
    }
}

#[cfg(test)]
mod tests {
    use contract::spec::ContainerSpec;

    use super::*;

    fn spec(env: &[&str]) -> PodSpec {
        let env = env.iter().map(|text| (*text).to_owned()).collect();
        PodSpec { containers: vec![ContainerSpec { env, ..Default::default() }], ..Default::default() }
    }

    #[test]
    fn only_the_values_are_replaced() {
        let mut spec = spec(&["A=secret", "B=x=y", "C=", "D"]);
        pod_spec(&mut spec);
        assert_eq!(spec.containers[0].env, ["A=[redacted]", "B=[redacted]", "C=[redacted]", "D"]);
    }

    #[test]
    fn a_value_that_is_the_replacement_is_a_flaw_of_its_field() {
        let flaws = flaws(&spec(&["A=secret", "B=[redacted]", "C=[redacted] or not"]), "Pod.");
        let fields: Vec<&str> = flaws.iter().map(|flaw| flaw.field.as_str()).collect();
        assert_eq!(fields, ["Pod.Containers[0].Env[1]"]);
    }
}
