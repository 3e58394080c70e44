//! The stack on one machine: up to a running demo, down without touching it, up again, and away when asked.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cluster::eventually;
use crate::project::{Project, docker, inspect};

#[tokio::test(flavor = "multi_thread")]
async fn up_runs_the_demo_and_down_leaves_it_running_unless_asked() {
    let project = Project::new("one", &["docker-compose.yml"]);
    project.up().await;
    for service in ["apiserver-1", "apiserver-2", "scheduler-1", "scheduler-2", "notifier", "agent"] {
        project.healthy(service).await;
    }
    // The agent uses the socket of the engine; the volumes of NATS and etcd belong to the user of their image.
    let own = "65532:65532";
    let users = [("apiserver-1", own), ("scheduler-1", own), ("notifier", own), ("api", own), ("agent", "0:0")];
    for (service, user) in users {
        assert_eq!(inspect("{{.Config.User}}", &project.container(service)).as_deref(), Some(user), "{service}");
    }
    for service in users.map(|(service, _)| service).into_iter().chain(["nats", "etcd"]) {
        let rights = "{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}} {{len .HostConfig.PortBindings}}";
        let ports = usize::from(service == "api");
        let expected = format!("true [ALL] [no-new-privileges:true] {ports}");
        assert_eq!(inspect(rights, &project.container(service)), Some(expected), "{service}");
    }
    let first = project.workloads();
    assert_eq!(first.len(), 2, "the demo has two instances");

    // HAProxy uses both apiservers, and one of them is enough.
    let mut seen = BTreeSet::new();
    eventually(Duration::from_secs(20), "both apiservers answer behind one port", async || {
        seen.insert(project.cluster().await?["apiserver"].as_str()?.to_owned());
        (seen.len() == 2).then_some(())
    })
    .await;
    docker(&["kill", &project.container("apiserver-1")]);
    for _ in 0..10 {
        let answer =
            eventually(Duration::from_secs(10), "the other apiserver answers", async || project.cluster().await).await;
        assert_eq!(answer["nodes_alive"], 1, "{answer}");
    }

    let started = |ids: &[String]| -> Vec<Option<String>> {
        ids.iter().map(|id| inspect("{{.State.Running}} {{.State.StartedAt}}", id)).collect()
    };
    let before = started(&first);
    project.composed(&["down"]);
    assert_eq!((project.workloads(), started(&first)), (first.clone(), before.clone()), "down leaves workloads alone");
    project.up().await;
    assert_eq!((project.workloads(), started(&first)), (first, before), "the next up takes them over as they run");

    project.composed(&["down", "--volumes"]);
    let said = project.composed(&["run", "--rm", "clear"]);
    assert!(said.contains("removed 2 containers"), "{said}");
    assert_eq!(project.workloads(), Vec::<String>::new());
}
