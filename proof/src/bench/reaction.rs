//! How fast deployd reacts: a container that is killed, a node that is lost, a command on its way to an agent.

use std::time::{Duration, Instant};

use contract::name::NodeName;
use contract::subjects;
use devcluster::state::Role;
use fabric::nats::{Args, Bus};
use reqwest::Method;
use rustix::process::Signal;

use super::Error;
use super::chart::{Bar, Chart, Goal};
use super::deployd::{accepted, group, pod};
use super::docker::{Hands, Watch};
use super::progress::Progress;
use super::race::Sides;
use super::side::{Side, Task};
use super::statistics::Sample;
use crate::cluster::{Cluster, Request, eventually, signal};

/// A start on a busy machine.
const SOON: Duration = Duration::from_secs(60);
/// A reaction is timed when nothing else happens.
const CALM: Duration = Duration::from_millis(500);
/// Silence until the node's work is given to others. Short, so that the run is; the default is 300 s. Beyond the silence
/// that makes suspect, which is beyond two heartbeats of 3 s.
const LOST_AFTER: Duration = Duration::from_secs(10);
const SUSPECT_AFTER: &str = "7s";
const INSTANCES: u32 = 6;
/// deployd's word in names of what stands beside the race.
const BESIDE: &str = "beside";

/// Kills containers one after another and waits until each runs again.
pub(crate) async fn kills(sides: &mut Sides, count: u32, progress: &Progress) -> Result<Chart, Error> {
    let mut bars = Vec::new();
    let mut goals = Vec::new();
    for side in Side::ALL {
        progress.begin(&format!("{}: {count} containers killed one after another", side.label()));
        sides.timed(side, Task::Start { count }, 1).await?;
        let times = Sample::of_times(&kill_each(sides, side, count).await?);
        sides.timed(side, Task::Remove { count }, 1).await?;
        progress.done();
        bars.push(Bar::of(&format!("{}, p50", side.label()), &times));
        bars.push(Bar::with(&format!("{}, p99", side.label()), times.percentile(0.99), &times));
        if side == Side::Deployd {
            goals.push(Goal::new("deployd at most 0.5 s", times.percentile(0.99) <= 0.5));
        }
    }
    Ok(Chart {
        name: "killed".to_owned(),
        title: "A container is killed: running again".to_owned(),
        unit: "s",
        bars,
        goals,
    })
}

async fn kill_each(sides: &mut Sides, side: Side, count: u32) -> Result<Vec<Duration>, Error> {
    let hands = sides.raw.hands.clone();
    let mut times = Vec::new();
    for id in hands.containers(side.word()).await?.into_iter().take(count as usize) {
        tokio::time::sleep(CALM).await;
        let killed = Instant::now();
        hands.kill(&id).await?;
        if side == Side::Raw {
            // By hand there is nobody who would: what the engine needs for it at least.
            sides.watch(side).until(count - 1, 1, SOON).await?;
            hands.start(&id).await?;
        }
        let back = sides.watch(side).started(SOON).await?;
        times.push(back.saturating_duration_since(killed));
        sides.watch(side).until(count, 1, SOON).await?;
    }
    Ok(times)
}

/// From a command to the order that follows from it, as it arrives at the agent.
pub(crate) async fn orders(cluster: &Cluster, hands: &Hands, count: u32, progress: &Progress) -> Result<Chart, Error> {
    progress.begin(&format!("{count} commands, each until its order is at the agent"));
    let nats = cluster.nats().ok_or(crate::cluster::Error::State)?;
    let bus = Bus::connect(&Args::at(nats), "proof").await.map_err(Error::Bus)?;
    let node: NodeName = "node-1".parse().map_err(|_| crate::cluster::Error::State)?;
    let mut ears = bus.subscribe(&subjects::order(&node)).await.map_err(Error::Bus)?;
    bus.flush().await.map_err(Error::Bus)?;
    let (mut watch, mut times) = (hands.watch(BESIDE), Vec::new());
    for number in 1..=count {
        let name = format!("order{number}-{}.web.web", cluster.tag());
        let body = Some(group(&name, 1, &pod(&name, &hands.mark(BESIDE), 1)));
        let request = Request { method: Method::POST, path: "/api/podgroups".to_owned(), body };
        let sent = accepted(cluster, &request);
        let heard = async {
            while let Some(message) = ears.next().await {
                if contains(&message.payload, name.as_bytes()) {
                    return Ok(Instant::now());
                }
            }
            Err(Error::Unheard)
        };
        let heard = async { tokio::time::timeout(SOON, heard).await.unwrap_or(Err(Error::Unheard)) };
        let (sent, heard) = futures_util::future::try_join(sent, heard).await?;
        times.push(heard.saturating_duration_since(sent));
        watch.until(1, 1, SOON).await?;
        let path = format!("/api/podgroups?name={name}");
        accepted(cluster, &Request { method: Method::DELETE, path, body: None }).await?;
        watch.until(0, 1, SOON).await?;
    }
    progress.done();
    let times = Sample::of_times(&times);
    let bars =
        [("p50", 0.5), ("p99", 0.99)].map(|(word, share)| Bar::with(word, times.percentile(share), &times)).into();
    let title = "A command is sent: its order is at the agent".to_owned();
    Ok(Chart { name: "order".to_owned(), title, unit: "s", bars, goals: Vec::new() })
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

/// Stops an agent, which is a node lost, and waits until others run what it ran.
pub(crate) async fn losses(hands: &Hands, count: u32, progress: &Progress) -> Result<Chart, Error> {
    progress.begin(&format!("{count} nodes lost one after another"));
    let lost_after = format!("{}s", LOST_AFTER.as_secs());
    let words = ["--nodes", "3", "--node-cpus", "512", "--suspect-after", SUSPECT_AFTER, "--lost-after", &lost_after];
    let cluster = Cluster::start_with(&[&words[..], &["--failover-grace", "1s"]].concat()).await?;
    let mut watch = hands.watch(BESIDE);
    let name = format!("lost-{}.web.web", cluster.tag());
    let body = Some(group(&name, INSTANCES, &pod(&name, &hands.mark(BESIDE), 1)));
    accepted(&cluster, &Request { method: Method::POST, path: "/api/podgroups".to_owned(), body }).await?;
    watch.until(INSTANCES, 1, SOON).await?;
    let mut times = Vec::new();
    for _ in 0..count {
        times.push(lose(&cluster, &mut watch).await?);
    }
    drop(cluster);
    progress.done();
    let times = Sample::of_times(&times);
    let beyond = Sample::of([times.median() - LOST_AFTER.as_secs_f64()]);
    Ok(Chart {
        name: "lost".to_owned(),
        title: format!("A node is lost (lost_after {} s): its instances run elsewhere", LOST_AFTER.as_secs()),
        unit: "s",
        bars: vec![Bar::of("from the loss", &times), Bar::of("beyond lost_after", &beyond)],
        goals: Vec::new(),
    })
}

async fn lose(cluster: &Cluster, watch: &mut Watch) -> Result<Duration, Error> {
    let seen = cluster.engine.of_cluster(&cluster.id).await.map_err(crate::cluster::Error::from)?;
    let node = seen.first().map(|seen| seen.node.clone()).unwrap_or_default();
    let there = seen.iter().filter(|seen| seen.node == node && seen.running).count();
    let agent = cluster.children().into_iter().find(|child| {
        child.role == Role::Agent && child.command.windows(2).any(|pair| pair[0] == "--name" && pair[1] == node)
    });
    let agent = agent.and_then(|agent| cluster.running(&agent.name)).ok_or(crate::cluster::Error::State)?;
    let lost = Instant::now();
    signal(&agent, Signal::STOP);
    let replaced = async {
        let mut last = lost;
        for _ in 0..there {
            last = watch.started(SOON).await?;
        }
        Ok::<_, Error>(last)
    };
    let replaced = replaced.await;
    signal(&agent, Signal::CONT);
    let took = replaced?.saturating_duration_since(lost);
    // It comes back and removes what others have now.
    watch.until(INSTANCES, 1, SOON).await?;
    let what = "every node is alive again";
    eventually(SOON, what, async || {
        let seen = cluster.engine.of_cluster(&cluster.id).await.ok()?;
        (seen.len() == INSTANCES as usize).then_some(())
    })
    .await?;
    Ok(took)
}
