//! `start`, `stop`, `restart`, `drift` and `evacuate`: what is done to instances and nodes that run.
//!
//! The API accepts names that do not exist and does nothing, as the original did; `deployctl` refuses them.

use std::collections::{BTreeMap, BTreeSet};

use contract::api::{Pod, PodGroupWithSpec};
use contract::name::NodeName;
use contract::node_view::{NodeStatus, PodOnNode};
use contract::state::RunState;
use contract::time::Timestamp;

use crate::api::{self, Api, Deadline, Patience};
use crate::args;
use crate::node;
use crate::node::leaving::{Left, left, names};
use crate::progress::{Progress, on_terminal};
use crate::table;
use crate::waiting::{self, finish, first_read, patience, read};

/// What to do to instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Run them.
    Start,
    /// Keep them stopped.
    Stop,
    /// End and start them.
    Restart,
}

impl Act {
    /// The word of the API, and of people while and after it happens.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Start => ("start", "starting", "started"),
            Self::Stop => ("stop", "stopping", "stopped"),
            Self::Restart => ("restart", "restarting", "restarted"),
        }
    }

    /// What an instance lacks to be as it shall be. The lock of a restart also ends when a node could not restart a container or
    /// did not answer in time, so that only another start of its containers shows that it was restarted.
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

/// The containers of a pod, and when each started; a time that has not happened when its node does not answer.
type Starts = BTreeSet<(String, Timestamp)>;

fn starts(pod: &Pod) -> Starts {
    pod.containers.iter().map(|container| (container.id.clone(), container.runtime.state.started_at)).collect()
}

/// `deployctl start`, `stop` and `restart`
pub async fn operate(api: &Api, act: Act, asked: &args::Operate) -> Result<(), api::Error> {
    let name = asked.name.as_str();
    let (word, doing, done) = act.words();
    let what = match asked.instance {
        Some(number) => format!("instance {number} of PodGroup {name}"),
        None => format!("PodGroup {name}"),
    };
    let progress = Progress::start(&format!("{what}: {doing}"));
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    let mut patience = patience(&progress, deadline);
    let work = async {
        let group = known_group(api, name, asked.instance, &mut patience).await?;
        api.operate(name, word, asked.instance.unwrap_or(0), &mut patience).await?;
        if !asked.waiting.wanted(on_terminal()) {
            return Ok(None);
        }
        waiting::settled(api, &group.spec.namespace, name, &mut patience).await?;
        let before: BTreeMap<u32, Starts> = group.pods.iter().map(|pod| (pod.instance_no, starts(pod))).collect();
        let none = Starts::default();
        let lacks = |pod: &Pod| act.lacks(pod, before.get(&pod.instance_no).unwrap_or(&none));
        waiting::until_instances(api, name, asked.instance, lacks, &mut patience).await.map(Some)
    };
    let result = work.await;
    let accepted = matches!(result, Ok(None));
    let text = if accepted { format!("{what} will be {done}") } else { format!("{what} {done}") };
    if let Some(group) = finish(&progress, result, &text)? {
        println!("{}", table::instances(&group));
    }
    Ok(())
}

/// `deployctl drift`
pub async fn drift(api: &Api, asked: &args::Drift) -> Result<(), node::Error> {
    let progress = Progress::start(&format!("instances leave {}", asked.from));
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    let mut patience = patience(&progress, deadline);
    let number = asked.instance.map(|number| number.to_string());
    let mut params = vec![("cmd", "drift"), ("from", asked.from.as_str())];
    params.extend(asked.to.as_deref().map(|to| ("to", to)));
    params.extend(asked.group.as_deref().map(|group| ("pg", group)));
    params.extend(number.as_deref().map(|number| ("pg_instance", number)));
    params.extend(asked.force.then_some(("force", "true")));
    let is_asked = |pod: &PodOnNode| {
        asked.group.as_ref().is_none_or(|group| *group == pod.pod_group)
            && asked.instance.is_none_or(|number| number == pod.instance)
    };
    let work = async {
        let node = known_nodes(api, &asked.from, asked.to.as_deref(), &mut patience).await?;
        if let Some(group) = &asked.group {
            known_group(api, group, asked.instance, &mut patience).await?;
        }
        let waits = asked.waiting.wanted(on_terminal());
        let leaving = if waits { Some(Leaving::of(api, node, is_asked, &mut patience).await?) } else { None };
        api.drift(&params, &mut patience).await?;
        let Some(leaving) = leaving else { return Ok(None) };
        let remedy = format!("deployctl drift --from {} --force", asked.from);
        leaving.until_left(api, asked.force, &remedy, &mut patience).await.map(Some)
    };
    let result = work.await;
    let verb = if matches!(result, Ok(None)) { "instances will leave" } else { "instances left" };
    show_rest(finish(&progress, result, &format!("{verb} {}", asked.from))?);
    Ok(())
}

/// `deployctl evacuate`
pub async fn evacuate(api: &Api, asked: &args::Evacuate) -> Result<(), node::Error> {
    let name = asked.node.as_str();
    let progress = Progress::start(&format!("{name}: everything leaves it"));
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    let mut patience = patience(&progress, deadline);
    let work = async {
        let node = known_nodes(api, name, None, &mut patience).await?;
        let waits = asked.waiting.wanted(on_terminal());
        let leaving = if waits { Some(Leaving::of(api, node, |_| true, &mut patience).await?) } else { None };
        api.evacuate(name, &mut patience).await?;
        let Some(leaving) = leaving else { return Ok(None) };
        leaving.until_left(api, true, "", &mut patience).await.map(Some)
    };
    let result = work.await;
    let text = if matches!(result, Ok(None)) { "will be evacuated" } else { "is evacuated" };
    let status = finish(&progress, result, &format!("{name} {text}"))?;
    eprintln!("new work stays away from it until `deployctl constraints delete node`");
    show_rest(status);
    Ok(())
}

/// Pods that are asked to leave a node. One that is placed there later has another name.
struct Leaving {
    node: NodeName,
    pods: BTreeSet<String>,
}

impl Leaving {
    /// The addressed pods that are there now.
    async fn of(
        api: &Api,
        node: NodeName,
        is_asked: impl Fn(&PodOnNode) -> bool,
        patience: &mut Patience,
    ) -> Result<Self, api::Error> {
        let status = read(patience, async || api.node(&node).await).await?;
        let pods = status.pods.iter().filter(|pod| is_asked(pod)).map(|pod| pod.name.clone()).collect();
        Ok(Self { node, pods })
    }

    /// Waits until the node has none of them; the node as it is then. Whether their groups are locked says nothing: a drift
    /// waits for the lock, and gives it back when an instance finds no place.
    async fn until_left(
        &self,
        api: &Api,
        force: bool,
        remedy: &str,
        patience: &mut Patience,
    ) -> Result<NodeStatus, node::Error> {
        loop {
            let status = read(patience, async || api.node(&self.node).await).await?;
            let Left { bound, moving } = left(&status, force, |pod| self.pods.contains(&pod.name));
            match (moving.is_empty(), bound.is_empty()) {
                (true, true) => return Ok(status),
                (true, false) => {
                    let why = format!("bound to their data: {}; `{remedy}` moves them without it", names(&bound));
                    return Err(node::Error::Stays { node: self.node.clone(), why });
                }
                (false, _) => {
                    let (moving, all) = (names(&moving), self.pods.len());
                    patience.pause(&format!("of {all} instances these are still there: {moving}")).await?;
                }
            }
        }
    }
}

fn show_rest(status: Option<NodeStatus>) {
    if let Some(NodeStatus { node, .. }) = status {
        println!("{} containers are on {} now", node.containers, node.name);
    }
}

/// A group that exists and has such an instance.
async fn known_group(
    api: &Api,
    name: &str,
    instance: Option<u32>,
    patience: &mut Patience,
) -> Result<PodGroupWithSpec, api::Error> {
    let group = first_read(patience, async || api.group(name).await).await?;
    let group = group.ok_or_else(|| api::Error::no_group(name))?;
    match instance.filter(|number| i64::from(*number) > group.spec.num_instances) {
        Some(number) => {
            let message = format!("PodGroup {name} has no instance {number}, only {}", group.spec.num_instances);
            Err(api::Error::NotFound(message))
        }
        None => Ok(group),
    }
}

/// The node `from`, when it and the node `to` exist.
async fn known_nodes(api: &Api, from: &str, to: Option<&str>, patience: &mut Patience) -> Result<NodeName, api::Error> {
    let unknown =
        |name: &str| api::Error::NotFound(format!("no node is called {name:?}; `deployctl get nodes` lists them"));
    let nodes = first_read(patience, async || api.nodes().await).await?;
    for name in [Some(from), to].into_iter().flatten() {
        if !nodes.iter().any(|node| node.name == name) {
            return Err(unknown(name));
        }
    }
    from.parse().map_err(|_| unknown(from))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::api::tests::server;

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
        operate(&Api::new(&[url]).unwrap(), Act::Restart, &asked).await.unwrap();
        let asked = first_words(served.await.unwrap());
        assert_eq!(asked[1], "PATCH /api/podgroups?name=a.web.web&cmd=operation&optype=restart&instance=1");
        assert_eq!(asked.len(), 6, "{asked:?}");
    }

    #[tokio::test]
    async fn instances_and_nodes_that_do_not_exist_are_refused_before_anything_is_sent() {
        let (url, served) = server(&[(200, GROUP), (202, NODES), (202, NODES)]).await;
        let api = Api::new(&[url]).unwrap();
        let asked = args::Operate { name: "a.web.web".to_owned(), instance: Some(3), waiting: waiting(false) };
        let error = operate(&api, Act::Stop, &asked).await.unwrap_err();
        assert!(matches!(&error, api::Error::NotFound(why) if why.contains("no instance 3, only 2")), "{error}");
        let to = |to: &str| args::Drift {
            from: "n1".to_owned(),
            to: Some(to.to_owned()),
            group: None,
            instance: None,
            force: false,
            waiting: waiting(false),
        };
        let error = drift(&api, &to("n9")).await.unwrap_err();
        assert!(matches!(&error, node::Error::Api(api::Error::NotFound(why)) if why.contains("\"n9\"")), "{error}");
        let asked = args::Evacuate { node: "n7".to_owned(), waiting: waiting(false) };
        assert!(matches!(evacuate(&api, &asked).await.unwrap_err(), node::Error::Api(api::Error::NotFound(_))));
        assert!(served.await.unwrap().iter().all(|request| request.starts_with("GET ")));
    }

    #[tokio::test]
    async fn a_drift_brings_every_flag() {
        let answers = [(202, NODES), (200, GROUP), (202, "{\"message\":\"ok\"}")];
        let (url, served) = server(&answers).await;
        let asked = args::Drift {
            from: "n1".to_owned(),
            to: Some("n2".to_owned()),
            group: Some("a.web.web".to_owned()),
            instance: Some(2),
            force: true,
            waiting: waiting(false),
        };
        drift(&Api::new(&[url]).unwrap(), &asked).await.unwrap();
        let expected = "PATCH /api/nodes?cmd=drift&from=n1&to=n2&pg=a.web.web&pg_instance=2&force=true";
        assert_eq!(first_words(served.await.unwrap())[2], expected);
    }
}
