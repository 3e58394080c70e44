//! `start`, `stop` and `restart` of instances.
//!
//! The API accepts names that do not exist and does nothing, as the original did; `deployctl` refuses them.

use std::collections::{BTreeMap, BTreeSet};

use contract::api::{Pod, PodGroupWithSpec};
use contract::state::RunState;
use contract::time::Timestamp;

use crate::api::{self, Api, Deadline, Retry};
use crate::args;
use crate::commands::wait::{self, finish, first_read, retry};
use crate::output::progress::Progress;
use crate::output::table;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceOperation {
    Start,
    Stop,
    Restart,
}

impl InstanceOperation {
    /// The word of the API, and the words for progress and result.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Start => ("start", "starting", "started"),
            Self::Stop => ("stop", "stopping", "stopped"),
            Self::Restart => ("restart", "restarting", "restarted"),
        }
    }

    /// What an instance lacks. The lock of a restart also ends when a node could not restart a container or did not answer in
    /// time, so only a new start time of its containers proves the restart.
    fn lacks(self, pod: &Pod, before: &Starts) -> Option<String> {
        let is_done = match self {
            Self::Start | Self::Restart => table::is_ready(pod),
            Self::Stop => pod.state != RunState::Success,
        };
        if !is_done {
            return Some(table::unready(pod, table::now()));
        }
        let now = starts(pod);
        let has_restarted = !now.is_empty() && now.iter().all(|start| start.1.happened() && !before.contains(start));
        (self == Self::Restart && !has_restarted)
            .then(|| format!("instance {} has not been restarted", pod.instance_no))
    }
}

/// The containers of a pod and their start times; the zero time when the node does not answer.
type Starts = BTreeSet<(String, Timestamp)>;

fn starts(pod: &Pod) -> Starts {
    pod.containers.iter().map(|container| (container.id.clone(), container.runtime.state.started_at)).collect()
}

/// `deployctl start`, `stop` and `restart`
pub async fn operate(api: &Api, act: InstanceOperation, asked: &args::Operate) -> Result<(), api::Error> {
    let name = asked.name.as_str();
    let (word, doing, done) = act.words();
    let what = match asked.instance {
        Some(number) => format!("instance {number} of PodGroup {name}"),
        None => format!("PodGroup {name}"),
    };
    let progress = Progress::start(&format!("{what}: {doing}"));
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    let mut retry = retry(&progress, deadline);
    let work = async {
        let group = known_group(api, name, asked.instance, &mut retry).await?;
        api.operate(name, word, asked.instance.unwrap_or(0), &mut retry).await?;
        if !asked.waiting.waits() {
            return Ok(None);
        }
        wait::settled(api, &group.spec.namespace, name, &mut retry).await?;
        let before: BTreeMap<u32, Starts> = group.pods.iter().map(|pod| (pod.instance_no, starts(pod))).collect();
        let none = Starts::default();
        let lacks = |pod: &Pod| act.lacks(pod, before.get(&pod.instance_no).unwrap_or(&none));
        wait::until_instances(api, name, asked.instance, lacks, &mut retry).await.map(Some)
    };
    let result = work.await;
    let accepted = matches!(result, Ok(None));
    let text = if accepted { format!("{what} will be {done}") } else { format!("{what} {done}") };
    if let Some(group) = finish(&progress, result, &text)? {
        table::instances(&group).print();
    }
    Ok(())
}

/// The group, if it exists and has the instance.
pub(super) async fn known_group(
    api: &Api,
    name: &str,
    instance: Option<u32>,
    retry: &mut Retry,
) -> Result<PodGroupWithSpec, api::Error> {
    let group = first_read(retry, async || api.group(name).await).await?;
    let group = group.ok_or_else(|| api::Error::no_group(name))?;
    match instance.filter(|number| i64::from(*number) > group.spec.num_instances) {
        Some(number) => {
            let message = format!("PodGroup {name} has no instance {number}, only {}", group.spec.num_instances);
            Err(api::Error::NotFound(message))
        }
        None => Ok(group),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::api::tests::server;
    use crate::commands::drift::{drift, evacuate};
    use crate::commands::node;

    const GROUP: &str = r#"{"Spec":{"Name":"a.web.web","Namespace":"a","NumInstances":2},
        "Pods":[{"InstanceNo":1,"State":2},{"InstanceNo":2,"State":3}]}"#;
    const RESTARTED: &str = r#"{"Spec":{"Name":"a.web.web","Namespace":"a","NumInstances":2},"Pods":[{"InstanceNo":1,"State":2,
        "Containers":[{"Runtime":{"State":{"StartedAt":"2026-01-01T00:00:00Z"}}}]},{"InstanceNo":2,"State":3}]}"#;
    const NODES: &str = r#"[{"Name":"n1","Containers":0},{"Name":"n2"}]"#;

    fn waiting(wait: bool) -> args::Waiting {
        args::Waiting { wait, detach: !wait, timeout: Duration::from_secs(5) }
    }
    fn first_words(asked: Vec<String>) -> Vec<String> {
        asked.into_iter().map(|request| request.split(" HTTP").next().unwrap_or_default().to_owned()).collect()
    }

    #[tokio::test]
    async fn an_operation_waits_for_the_lock_and_then_for_its_instances() {
        let busy = r#"{"PodGroups":[{"Name":"a.web.web","NumInstances":2,"Running":1,"Operation":"Restarting"}]}"#;
        let free = r#"{"PodGroups":[{"Name":"a.web.web","NumInstances":2,"Running":2}]}"#;
        let ok = "{\"message\":\"ok\"}";
        let answers = [(200, GROUP), (202, ok), (200, busy), (200, free), (200, GROUP), (200, RESTARTED)];
        let (url, served) = server(&answers).await;
        let asked = args::Operate { name: "a.web.web".to_owned(), instance: Some(1), waiting: waiting(true) };
        operate(&Api::new(&[url]).unwrap(), InstanceOperation::Restart, &asked).await.unwrap();
        let asked = first_words(served.await.unwrap());
        assert_eq!(asked[1], "PATCH /api/podgroups?name=a.web.web&cmd=operation&optype=restart&instance=1");
        assert_eq!(asked.len(), 6, "{asked:?}");
    }

    #[tokio::test]
    async fn unknown_instances_and_nodes_are_errors_before_any_change_is_sent() {
        let (url, served) = server(&[(200, GROUP), (202, NODES), (202, NODES)]).await;
        let api = Api::new(&[url]).unwrap();
        let asked = args::Operate { name: "a.web.web".to_owned(), instance: Some(3), waiting: waiting(false) };
        let error = operate(&api, InstanceOperation::Stop, &asked).await.unwrap_err();
        assert!(matches!(&error, api::Error::NotFound(why) if why.contains("no instance 3, only 2")), "{error}");
        let to = |to: &str| args::Drift {
            from: "n1".to_owned(),
            to: Some(to.to_owned()),
            group: None,
            all: true,
            instance: None,
            force: false,
            waiting: waiting(false),
        };
        let error = drift(&api, &to("n9")).await.unwrap_err();
        assert!(matches!(&error, node::Error::Api(api::Error::NoNode(name)) if name == "n9"), "{error}");
        let asked = args::Evacuate { node: "n7".to_owned(), yes: true, waiting: waiting(false) };
        assert!(matches!(evacuate(&api, &asked).await.unwrap_err(), node::Error::Api(api::Error::NoNode(_))));
        assert!(served.await.unwrap().iter().all(|request| request.starts_with("GET ")));
    }

    #[tokio::test]
    async fn drift_sends_every_flag() {
        let answers = [(202, NODES), (200, GROUP), (202, "{\"message\":\"ok\"}")];
        let (url, served) = server(&answers).await;
        let asked = args::Drift {
            from: "n1".to_owned(),
            to: Some("n2".to_owned()),
            group: Some("a.web.web".to_owned()),
            all: false,
            instance: Some(2),
            force: true,
            waiting: waiting(false),
        };
        drift(&Api::new(&[url]).unwrap(), &asked).await.unwrap();
        let expected = "PATCH /api/nodes?cmd=drift&from=n1&to=n2&pg=a.web.web&pg_instance=2&force=true";
        assert_eq!(first_words(served.await.unwrap())[2], expected);
    }
}
