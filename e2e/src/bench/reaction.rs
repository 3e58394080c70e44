//! How fast deployd reacts to a killed container, a command and a lost node.

use std::time::{Duration, Instant};

use contract::bus::{Identity, Member};
use contract::name::NodeName;
use contract::subjects;
use devcluster::state::ProcessKind;
use reqwest::Method;
use rustix::process::Signal;

use super::Error;
use super::contestant::{Contestant, Task};
use super::deployd::{accepted, group, pod, trust};
use super::docker::{BenchEngine, EventWatch};
use super::figure::{Figure, Goal, Row};
use super::progress::Progress;
use super::race::Contestants;
use crate::cluster::{Cluster, Request, eventually, signal};

/// Enough for a start on a busy machine.
const SOON: Duration = Duration::from_secs(60);
/// Pause before each kill, so that nothing else happens while the reaction is timed.
const CALM: Duration = Duration::from_millis(500);
/// Shorter than the default of 300 s, so that the run is short. Must be longer than `suspect_after`, which must be longer than two
/// heartbeats of 3 s.
const LOST_AFTER: Duration = Duration::from_secs(10);
const SUSPECT_AFTER: &str = "7s";
const INSTANCES: u32 = 6;
/// Names the groups that are not part of a race.
const BESIDE: &str = "beside";

/// Kills containers one after another and waits until each runs again.
pub(crate) async fn kills(contestants: &mut Contestants, count: u32, progress: &Progress) -> Result<Figure, Error> {
    let mut figure = Figure::new("killed", "A container is killed: running again".to_owned(), "s", Vec::new());
    for contestant in Contestant::ALL {
        progress.begin(&format!("{}: {count} containers killed one after another", contestant.label()));
        contestants.timed(contestant, Task::Start { count }, 1).await?;
        let row = Row::of_times(contestant.label(), &kill_each(contestants, contestant, count).await?);
        contestants.timed(contestant, Task::Remove { count }, 1).await?;
        progress.done();
        if contestant == Contestant::Deployd {
            figure.goals.push(Goal::new("deployd's p99 at most 0.5 s", row.p99 <= 0.5));
        }
        figure.rows.push(row);
    }
    Ok(figure)
}

async fn kill_each(contestants: &mut Contestants, contestant: Contestant, count: u32) -> Result<Vec<Duration>, Error> {
    let engine = contestants.raw.engine.clone();
    let mut times = Vec::new();
    for id in engine.containers(contestant.word()).await?.into_iter().take(count as usize) {
        tokio::time::sleep(CALM).await;
        let killed = Instant::now();
        engine.kill(&id).await?;
        if contestant == Contestant::Raw {
            // Raw Docker restarts nothing; this measures what the engine needs for a restart.
            contestants.watch(contestant).until(count - 1, 1, SOON).await?;
            engine.start(&id).await?;
        }
        let back = contestants.watch(contestant).started(SOON).await?;
        times.push(back.saturating_duration_since(killed));
        contestants.watch(contestant).until(count, 1, SOON).await?;
    }
    Ok(times)
}

/// The time from a command to its order on the agent's subject.
pub(crate) async fn orders(
    cluster: &Cluster,
    engine: &BenchEngine,
    count: u32,
    progress: &Progress,
) -> Result<Figure, Error> {
    progress.begin(&format!("{count} commands, each until its order is at the agent"));
    let node: NodeName = "node-1".parse().map_err(|_| crate::cluster::Error::State)?;
    let bus = cluster.bus(&Identity { member: Member::Agent, name: node.clone() }).await?;
    let mut orders = bus.subscribe(&subjects::order(&node)).await.map_err(Error::Bus)?;
    bus.flush().await.map_err(Error::Bus)?;
    let (mut watch, mut times) = (engine.watch(BESIDE), Vec::new());
    for number in 1..=count {
        let name = format!("order{number}-{}.web.web", cluster.tag());
        let body = Some(group(&name, 1, &pod(&name, &engine.mark(BESIDE), 1)));
        let request = Request { method: Method::POST, path: "/api/podgroups".to_owned(), body };
        let sent = accepted(cluster, &request);
        let heard = async {
            while let Some(message) = orders.next().await {
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
    let title = "A command is sent: its order is at the agent".to_owned();
    Ok(Figure::new("order", title, "s", vec![Row::of_times("deployd", &times)]))
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

/// Stops an agent (SIGSTOP) and waits until other nodes run its instances.
pub(crate) async fn losses(engine: &BenchEngine, count: u32, progress: &Progress) -> Result<Figure, Error> {
    progress.begin(&format!("{count} nodes lost one after another"));
    let lost_after = format!("{}s", LOST_AFTER.as_secs());
    let words = ["--nodes", "3", "--node-cpus", "512", "--suspect-after", SUSPECT_AFTER, "--lost-after", &lost_after];
    let cluster = Cluster::start_with(&[&words[..], &["--failover-grace", "1s"]].concat()).await?;
    trust(&cluster).await?;
    let mut watch = engine.watch(BESIDE);
    let name = format!("lost-{}.web.web", cluster.tag());
    let body = Some(group(&name, INSTANCES, &pod(&name, &engine.mark(BESIDE), 1)));
    accepted(&cluster, &Request { method: Method::POST, path: "/api/podgroups".to_owned(), body }).await?;
    watch.until(INSTANCES, 1, SOON).await?;
    let mut times = Vec::new();
    for _ in 0..count {
        times.push(lose(&cluster, &mut watch).await?);
    }
    drop(cluster);
    progress.done();
    let title = format!("A node is lost (lost_after {} s): its instances run elsewhere", LOST_AFTER.as_secs());
    let beyond = times.iter().map(|time| time.as_secs_f64() - LOST_AFTER.as_secs_f64());
    let beyond = Row::of("beyond lost_after", beyond);
    Ok(Figure::new("lost", title, "s", vec![Row::of_times("from the loss", &times), beyond]))
}

async fn lose(cluster: &Cluster, watch: &mut EventWatch) -> Result<Duration, Error> {
    let seen = cluster.engine.of_cluster(&cluster.id).await.map_err(crate::cluster::Error::from)?;
    let node = seen.first().map(|seen| seen.node.clone()).unwrap_or_default();
    let there = seen.iter().filter(|seen| seen.node == node && seen.running).count();
    let agent = cluster.children().into_iter().find(|child| {
        child.role == ProcessKind::Agent && child.command.windows(2).any(|pair| pair[0] == "--name" && pair[1] == node)
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
    // The agent continues and removes the containers that other nodes now run.
    watch.until(INSTANCES, 1, SOON).await?;
    let what = "every node is alive again";
    eventually(SOON, what, async || {
        let seen = cluster.engine.of_cluster(&cluster.id).await.ok()?;
        (seen.len() == INSTANCES as usize).then_some(())
    })
    .await?;
    Ok(took)
}
