//! The lists of groups and instances, and the other lists of the API. Pure.

use contract::api::{Letter, Pod, PodGroupLine, PodGroupWithSpec};
use contract::policy::NamespacePolicy;
use serde::Serialize;

use crate::commands::policy;
use crate::output::list::Column::{Usual, Wide};
use crate::output::list::{Column, List};
use crate::output::table::{self, address, age, age_of, container_of, dash, node_of, now, one_line, problem, ready};

const GROUPS: [Column; 9] = [
    Usual("podgroup"),
    Usual("namespace"),
    Usual("ready"),
    Usual("state"),
    Wide("operation"),
    Wide("version"),
    Usual("image"),
    Usual("age"),
    Usual("error"),
];

/// PodGroups.
pub(crate) fn groups(lines: &[PodGroupLine]) -> List {
    let (mut list, now) = (List::new(&GROUPS, "no PodGroups"), now());
    for line in lines {
        let cells = [
            line.name.clone(),
            line.namespace.clone(),
            format!("{}/{}", ready(line), line.num_instances),
            state(line),
            dash(&line.operation.to_lowercase()),
            line.version.to_string(),
            dash(&line.images.join(",")),
            age(line.created_at, now),
            one_line(&line.last_error),
        ];
        list.add(&line.name, line, cells);
    }
    list
}

/// The state of a group; one that is being removed is not pending.
fn state(line: &PodGroupLine) -> String {
    let is_removed = line.operation == "Removing";
    if is_removed { "removing".to_owned() } else { table::word(line.state).to_owned() }
}

const INSTANCES: [Column; 10] = [
    Usual("instance"),
    Wide("namespace"),
    Usual("state"),
    Usual("node"),
    Wide("container"),
    Usual("address"),
    Usual("restarts"),
    Usual("age"),
    Wide("image"),
    Usual("error"),
];

/// An instance as JSON and YAML show it in a list.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ListedInstance<'a> {
    pod_group: &'a str,
    namespace: &'a str,
    #[serde(flatten)]
    pod: &'a Pod,
}

/// The instances of groups; with a node only those on it.
pub(crate) fn instances<'a>(groups: impl Iterator<Item = &'a PodGroupWithSpec>, node: Option<&str>) -> List {
    let (mut list, now) = (List::new(&INSTANCES, "no instances"), now());
    for (group, pod) in groups.flat_map(|group| group.pods.iter().map(move |pod| (group, pod))) {
        if node.is_some_and(|node| node != node_of(pod)) {
            continue;
        }
        let name = format!("{}#{}", group.spec.name, pod.instance_no);
        let images: Vec<&str> = group.spec.pod.containers.iter().map(|container| container.image.as_str()).collect();
        let cells = [
            name.clone(),
            group.spec.namespace.clone(),
            table::state_of(pod),
            dash(node_of(pod)),
            dash(&container_of(pod)),
            dash(&address(pod)),
            pod.restart_count.to_string(),
            age_of(pod, now),
            dash(&images.join(",")),
            problem(pod, now),
        ];
        list.add(&name, &ListedInstance { pod_group: &group.spec.name, namespace: &group.spec.namespace, pod }, cells);
    }
    list
}

/// One group in a line, and the error of its last operation.
pub(crate) fn head(group: &PodGroupWithSpec) -> String {
    let spec = &group.spec;
    let state = table::word(group.state);
    let head = format!("{}: {state}, version {}, {} instances wanted", spec.name, spec.version, spec.num_instances);
    if group.last_error.is_empty() { head } else { format!("{head}\nlast error: {}", group.last_error) }
}

const POLICIES: [Column; 3] = [Usual("namespace"), Usual("level"), Usual("exceptions")];

/// Policies of namespaces.
pub(crate) fn policies(rows: &[NamespacePolicy]) -> List {
    let mut list = List::new(&POLICIES, "no policies");
    for row in rows {
        let exceptions = policy::exceptions(&row.policy).join(" ");
        list.add(&row.namespace, row, [row.namespace.clone(), row.policy.level.to_string(), exceptions]);
    }
    list
}

const LETTERS: [Column; 4] = [Usual("at"), Usual("subject"), Usual("reason"), Usual("payload")];

/// Messages that could not be delivered.
pub(crate) fn dead_letters(letters: &[Letter]) -> List {
    let mut list = List::new(&LETTERS, "no dead letters");
    for letter in letters {
        let (reason, payload) = (one_line(&letter.reason), one_line(&letter.payload));
        let at = letter.at.to_string();
        list.add(&format!("{} {at}", letter.subject), letter, [at.clone(), letter.subject.clone(), reason, payload]);
    }
    list
}

const CALLBACKS: [Column; 1] = [Usual("webhook")];

/// Webhooks.
pub(crate) fn callbacks(urls: &[String]) -> List {
    let mut list = List::new(&CALLBACKS, "no webhooks");
    urls.iter().for_each(|url| list.add(url, url, [url.clone()]));
    list
}
