//! `start`, `stop`, `restart`, `drift` and `evacuate`: what is done to instances and nodes that run.
//!
//! The API takes names nobody has and does nothing, as the original did; a person who mistypes one is told here instead.

use contract::api::{Pod, PodGroupLine};
use contract::state::RunState;

use crate::api::{self, Api, Deadline};
use crate::args;
use crate::progress::{Progress, on_terminal};
use crate::table;
use crate::waiting::{self, finish, patience};

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
    /// Whether an instance is as it shall be.
    fn reached(self) -> fn(&Pod) -> bool {
        match self {
            Self::Start | Self::Restart => table::is_ready,
            Self::Stop => |pod| pod.state != RunState::Success,
        }
    }
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
        let group = known_group(api, name, asked.instance).await?;
        api.operate(name, word, asked.instance.unwrap_or(0), &mut patience).await?;
        if !asked.waiting.wanted(on_terminal()) {
            return Ok(None);
        }
        waiting::settled(api, &group, name, &mut patience).await?;
        waiting::until_instances(api, name, asked.instance, act.reached(), &mut patience).await.map(Some)
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
pub async fn drift(api: &Api, asked: &args::Drift) -> Result<(), api::Error> {
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
    let work = async {
        known_nodes(api, std::iter::once(asked.from.as_str()).chain(asked.to.as_deref())).await?;
        if let Some(group) = &asked.group {
            known_group(api, group, asked.instance).await?;
        }
        api.drift(&params, &mut patience).await?;
        if !asked.waiting.wanted(on_terminal()) {
            return Ok(None);
        }
        waiting::all_settled(api, asked.group.as_deref(), &mut patience).await.map(Some)
    };
    let result = work.await;
    let text = format!(
        "{} {}",
        if matches!(result, Ok(None)) { "instances will leave" } else { "instances left" },
        asked.from
    );
    let settled = finish(&progress, result, &text)?;
    left_on(api, &asked.from, settled.as_deref()).await
}

/// `deployctl evacuate`
pub async fn evacuate(api: &Api, asked: &args::Evacuate) -> Result<(), api::Error> {
    let node = asked.node.as_str();
    let progress = Progress::start(&format!("{node}: everything leaves it"));
    let deadline = Deadline::after(asked.waiting.timeout);
    let api = &api.until(deadline);
    let mut patience = patience(&progress, deadline);
    let work = async {
        known_nodes(api, std::iter::once(node)).await?;
        api.evacuate(node, &mut patience).await?;
        if !asked.waiting.wanted(on_terminal()) {
            return Ok(None);
        }
        waiting::all_settled(api, None, &mut patience).await.map(Some)
    };
    let result = work.await;
    let text = if matches!(result, Ok(None)) { "will be evacuated" } else { "is evacuated" };
    let settled = finish(&progress, result, &format!("{node} {text}"))?;
    eprintln!("new work stays away from it until `deployctl constraints delete node`");
    left_on(api, node, settled.as_deref()).await
}

/// Tells what has not moved, once everything has settled.
async fn left_on(api: &Api, node: &str, settled: Option<&[PodGroupLine]>) -> Result<(), api::Error> {
    let Some(lines) = settled else { return Ok(()) };
    for line in lines.iter().filter(|line| !line.last_error.is_empty()) {
        eprintln!("PodGroup {}: {}", line.name, line.last_error);
    }
    let nodes = api.nodes().await?;
    if let Some(left) = nodes.iter().find(|other| other.name == node) {
        println!("{} containers are on {node} now", left.containers);
    }
    Ok(())
}

/// The namespace of a group that exists and has such an instance.
async fn known_group(api: &Api, name: &str, instance: Option<u32>) -> Result<String, api::Error> {
    let group = api.group(name).await?.ok_or_else(|| api::Error::no_group(name))?;
    match instance.filter(|number| i64::from(*number) > group.spec.num_instances) {
        Some(number) => {
            let message = format!("PodGroup {name} has no instance {number}, only {}", group.spec.num_instances);
            Err(api::Error::NotFound(message))
        }
        None => Ok(group.spec.namespace),
    }
}

async fn known_nodes(api: &Api, names: impl Iterator<Item = &str>) -> Result<(), api::Error> {
    let nodes = api.nodes().await?;
    for name in names {
        if !nodes.iter().any(|node| node.name == name) {
            let message = format!("no node is called {name:?}; `deployctl get nodes` lists them");
            return Err(api::Error::NotFound(message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::api::tests::server;

    const GROUP: &str = r#"{"Spec":{"Name":"a.web.web","Namespace":"a","NumInstances":2},
        "Pods":[{"InstanceNo":1,"State":2},{"InstanceNo":2,"State":3}]}"#;
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
        let answers = [(200, GROUP), (202, ok), (200, busy), (200, free), (200, GROUP), (200, GROUP)];
        let (url, served) = server(&answers).await;
        let asked = args::Operate { name: "a.web.web".to_owned(), instance: Some(1), waiting: waiting(true) };
        operate(&Api::new(&[url]).unwrap(), Act::Restart, &asked).await.unwrap();
        let asked = first_words(served.await.unwrap());
        assert_eq!(asked[1], "PATCH /api/podgroups?name=a.web.web&cmd=operation&optype=restart&instance=1");
        assert_eq!(asked.len(), 6, "{asked:?}");
    }

    #[tokio::test]
    async fn instances_and_nodes_nobody_has_are_told_before_anything_is_asked_for() {
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
        assert!(matches!(&error, api::Error::NotFound(why) if why.contains("\"n9\"")), "{error}");
        let asked = args::Evacuate { node: "n7".to_owned(), waiting: waiting(false) };
        assert!(matches!(evacuate(&api, &asked).await.unwrap_err(), api::Error::NotFound(_)));
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
