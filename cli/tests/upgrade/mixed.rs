//! Two versions side by side: everything people do every day works in every mixture, nothing that runs is touched, and no
//! command is lost.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::cluster::{demo_group, eventually};
use crate::commands::Commands;
use crate::docker::Workload;
use crate::fleet::{Fleet, Program, Version};

const SOON: Duration = Duration::from_secs(90);
const CALM: &str = "calm.web.web";
const CALM_INSTANCES: u32 = 3;

/// A group that the test leaves alone: its containers and their start times.
async fn calm(fleet: &Fleet) -> Vec<(Workload, Option<String>)> {
    let cluster = &fleet.cluster;
    let mut found = Vec::new();
    for container in cluster.exactly(CALM, CALM_INSTANCES, SOON).await {
        let started = cluster.engine.started_at(&container.id).await;
        found.push((container, started));
    }
    found
}

async fn with_calm(fleet: &Fleet) -> Vec<(Workload, Option<String>)> {
    let group = demo_group(CALM, CALM_INSTANCES);
    fleet.cluster.accepted(Method::POST, "/api/podgroups", Some(&group)).await;
    fleet.cluster.running(CALM, CALM_INSTANCES as usize, SOON).await;
    calm(fleet).await
}

/// What people do every day: create, scale, update, restart, remove.
async fn a_day(fleet: &Fleet, which: &str) {
    let (cluster, name) = (&fleet.cluster, format!("{which}.web.web"));
    let path = format!("/api/podgroups?name={name}");
    let mut group = demo_group(&name, 1);
    cluster.accepted(Method::POST, "/api/podgroups", Some(&group)).await;
    cluster.running(&name, 1, SOON).await;
    cluster.accepted(Method::PATCH, &format!("{path}&cmd=replica&num_instances=2"), None).await;
    cluster.exactly(&name, 2, SOON).await;
    group["Pod"]["Containers"][0]["Env"] = json!([format!("DAY={which}")]);
    cluster.accepted(Method::PATCH, &format!("{path}&cmd=spec"), Some(&group["Pod"])).await;
    let updated = eventually(SOON, &format!("{name} is updated"), async || {
        let all = cluster.engine.of_group(cluster.id(), &name).await;
        let new = all.len() == 2 && all.iter().all(|one| one.running && one.name.contains(".v1-"));
        new.then_some(all)
    })
    .await;
    let before = cluster.engine.started_at(&updated[0].id).await;
    cluster.accepted(Method::PATCH, &format!("{path}&cmd=operation&optype=restart&instance=1"), None).await;
    eventually(SOON, &format!("{name} is restarted"), async || {
        let now = cluster.engine.started_at(&updated[0].id).await;
        (now.is_some() && now != before).then_some(())
    })
    .await;
    cluster.running(&name, 2, SOON).await;
    cluster.accepted(Method::DELETE, &path, None).await;
    cluster.exactly(&name, 0, SOON).await;
    println!("{which}: created, scaled, updated, restarted and removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_upgrade_interrupts_no_container_and_fails_no_command() {
    let fleet = Fleet::start(|_| Version::Previous).await;
    let before = with_calm(&fleet).await;
    let commands = Commands::begin(&[fleet.cluster.api(0).to_owned(), fleet.cluster.api(1).to_owned()]);
    a_day(&fleet, "previous").await;

    // The standby first. Then leadership goes from the old one to the new one, which migrates what is stored. From then on an old
    // one does not lead and says why.
    let (leader, standby) = fleet.schedulers().await;
    fleet.install(Program::Scheduler, Version::This);
    fleet.restart(standby).await;
    a_day(&fleet, "standby").await;
    fleet.install(Program::Scheduler, Version::Previous);
    fleet.cluster.signal(&leader, rustix::process::Signal::TERM);
    assert_eq!(fleet.schedulers().await.0, standby, "the new one leads");
    eventually(SOON, "the old one refuses the new schema", async || {
        let logs = fleet.cluster.logs();
        let refuses = |(file, log): &(String, String)| file.contains(&leader) && log.contains("schema version 2");
        logs.iter().any(refuses).then_some(())
    })
    .await;
    a_day(&fleet, "leader").await;
    assert_eq!(fleet.schedulers().await.0, standby, "the old one does not lead");
    fleet.install(Program::Scheduler, Version::This);
    fleet.ready(&leader).await;
    a_day(&fleet, "schedulers").await;

    fleet.install(Program::Apiserver, Version::This);
    fleet.restart("apiserver-1").await;
    a_day(&fleet, "apiserver").await;
    fleet.restart("apiserver-2").await;
    fleet.install(Program::Notifier, Version::This);
    fleet.restart("notifier").await;

    fleet.install(Program::Agent, Version::This);
    fleet.restart("agent-1").await;
    a_day(&fleet, "agent").await;
    for agent in ["agent-2", "agent-3"] {
        fleet.restart(agent).await;
    }
    a_day(&fleet, "all").await;
    commands.end().await;
    assert_eq!(calm(&fleet).await, before, "containers from before keep running");
}

#[tokio::test(flavor = "multi_thread")]
async fn older_schedulers_serve_newer_processes_and_refuse_only_what_they_would_misread() {
    let version = |program| if program == Program::Scheduler { Version::Previous } else { Version::This };
    let fleet = Fleet::start(version).await;
    let before = with_calm(&fleet).await;
    a_day(&fleet, "behind").await;

    let path = format!("/api/podgroups?name={CALM}&mode=orphan");
    let (status, text) = fleet.cluster.call(0, Method::DELETE, &path, None).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
    assert!(text.contains("wire version 2"), "{text}");
    assert_eq!(calm(&fleet).await, before, "nothing happened");

    let commands = Commands::begin(&[fleet.cluster.api(0).to_owned(), fleet.cluster.api(1).to_owned()]);
    fleet.install(Program::Scheduler, Version::This);
    let (leader, standby) = fleet.schedulers().await;
    fleet.restart(standby).await;
    fleet.restart(&leader).await;
    a_day(&fleet, "ahead").await;
    commands.end().await;
    assert_eq!(calm(&fleet).await, before, "containers from before keep running");
    fleet.cluster.accepted(Method::DELETE, &path, None).await;
    assert_eq!(calm(&fleet).await, before, "orphans stay as they are");
}
