//! Commands all the while: each is tried, at one apiserver after the other, until it is accepted, and counted.
//!
//! Callbacks come, and go when twenty others have come; in the end exactly those must stand that were not taken away again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Client, Method};
use tokio::task::JoinHandle;

use crate::cluster::eventually;

/// How long a command is tried: half of what `deployctl` gives one.
const DEADLINE: Duration = Duration::from_secs(60);
/// Commands at most, and between two.
const MOST: usize = 6000;
const BETWEEN: Duration = Duration::from_millis(100);
/// Callbacks that stand at a time.
const KEPT: usize = 20;

/// Commands that are being sent.
pub(crate) struct Commands {
    apis: Vec<String>,
    enough: Arc<AtomicBool>,
    sending: JoinHandle<Tally>,
}

/// What became of them.
#[derive(Debug, Default)]
struct Tally {
    accepted: usize,
    tries: usize,
    longest: Duration,
    failed: Vec<String>,
    standing: BTreeSet<String>,
}

impl Commands {
    /// Begins to send.
    pub(crate) fn begin(apis: &[String]) -> Self {
        let (apis, enough) = (apis.to_vec(), Arc::new(AtomicBool::new(false)));
        let sending = fabric::tasks::spawn("commands", send(apis.clone(), enough.clone()));
        Self { apis, enough, sending }
    }

    /// Ends, and checks that none failed and none was lost.
    pub(crate) async fn end(self) {
        self.enough.store(true, Ordering::Relaxed);
        let tally = self.sending.await.expect("the commands end");
        println!(
            "{} commands accepted in {} tries, longest {:?}, {} failed",
            tally.accepted,
            tally.tries,
            tally.longest,
            tally.failed.len()
        );
        assert_eq!(tally.failed, Vec::<String>::new());
        assert!(tally.accepted > 50, "{tally:?}");
        let client = fabric::http::client(Duration::from_secs(5));
        eventually(DEADLINE, "every accepted command is in effect", async || {
            let answer = client.get(format!("{}/api/notifies", self.apis[0])).send().await.ok()?;
            let known: BTreeSet<String> = answer.json().await.ok()?;
            (known == tally.standing).then_some(())
        })
        .await;
    }
}

async fn send(apis: Vec<String>, enough: Arc<AtomicBool>) -> Tally {
    let (client, mut tally) = (fabric::http::client(Duration::from_secs(15)), Tally::default());
    // Nothing listens there.
    let callback = |number: usize| format!("http://callback.invalid/{number}");
    let mut pause = tokio::time::interval(BETWEEN);
    for number in 0..MOST {
        if enough.load(Ordering::Relaxed) {
            break;
        }
        pause.tick().await;
        if until_accepted(&client, &apis, &mut tally, (Method::POST, &callback(number))).await {
            tally.standing.insert(callback(number));
        }
        let Some(oldest) = number.checked_sub(KEPT).map(callback) else { continue };
        if until_accepted(&client, &apis, &mut tally, (Method::DELETE, &oldest)).await {
            tally.standing.remove(&oldest);
        }
    }
    tally
}

/// Tries one command, under one key, until it is accepted or its deadline has passed.
async fn until_accepted(client: &Client, apis: &[String], tally: &mut Tally, what: (Method, &str)) -> bool {
    let (method, callback) = what;
    let key = format!("upgrade-{method}-{}", callback.rsplit('/').next().expect("a number"));
    let (started, mut last) = (Instant::now(), String::new());
    let mut pause = tokio::time::interval(BETWEEN);
    while started.elapsed() < DEADLINE {
        pause.tick().await;
        let url = format!("{}/api/notifies?callback={callback}", apis[tally.tries % apis.len()]);
        tally.tries += 1;
        last = match client.request(method.clone(), url).header("Idempotency-Key", &key).send().await {
            Ok(answer) if answer.status().is_success() => {
                tally.accepted += 1;
                tally.longest = tally.longest.max(started.elapsed());
                return true;
            }
            Ok(answer) => format!("{}", answer.status()),
            Err(error) => error.to_string(),
        };
    }
    tally.failed.push(format!("{method} {callback}: {last}"));
    false
}
