//! Performs the health checks that the core requests.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contract::check::{CheckKind, Probe};
use contract::time::Timestamp;
use planner::check::CheckResult;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::core::io::Input;
use crate::docker::Engine;

/// Checks in progress; more wait. Each has a deadline, and a container has at most three.
const MOST: usize = 64;

/// Commands that did not end, of which the agent remembers that they run.
const MOST_OVERDUE: usize = 1024;

/// A container to check, and what the check is for.
#[derive(Debug)]
pub struct CheckTarget {
    /// Docker's id.
    pub id: String,
    /// Start of the container, by Docker's clock.
    pub started_at: Timestamp,
    pub kind: CheckKind,
    /// Where it is reached; empty when it has no address.
    pub ip: String,
}

#[derive(Debug, Clone)]
pub struct Prober {
    engine: Arc<Engine>,
    inputs: mpsc::Sender<Input>,
    client: reqwest::Client,
    permits: Arc<Semaphore>,
    /// Commands that did not end in time, by container and kind. Docker cannot end them, so the next one waits for their end.
    overdue: Arc<Mutex<Overdue>>,
}

type Overdue = BTreeMap<(String, CheckKind), String>;

impl Prober {
    pub fn new(engine: Arc<Engine>, inputs: mpsc::Sender<Input>) -> Self {
        // Each check has its own deadline, and a connection of its own: a kept one would hide that nothing listens any more.
        let longest = Duration::from_secs(u64::try_from(contract::ranges::CHECK_TIMEOUT.most).unwrap_or(0));
        let client = fabric::http::client_with(longest, |builder| builder.no_proxy().pool_max_idle_per_host(0));
        Self { engine, inputs, client, permits: Arc::new(Semaphore::new(MOST)), overdue: Arc::default() }
    }

    /// Starts a check.
    pub fn check(&self, target: CheckTarget, probe: Probe, within: Duration) {
        let prober = self.clone();
        fabric::tasks::spawn("check", async move {
            let Ok(_permit) = prober.permits.acquire().await else { return };
            let result = prober.perform(&target, &probe, within).await;
            let CheckTarget { id, started_at, kind, .. } = target;
            // Fails only when the process ends.
            prober.inputs.send(Input::Checked { id, started_at, kind, result }).await.ok();
        });
    }

    async fn perform(&self, target: &CheckTarget, probe: &Probe, within: Duration) -> CheckResult {
        let late = || CheckResult::Failed(format!("{probe}: no answer within {} s", within.as_secs()));
        let result = match probe {
            Probe::Command(command) => return self.run(target, command, within).await,
            Probe::Http { .. } | Probe::Tcp(_) => match target.ip.parse() {
                Ok(ip) => timeout(within, self.connect(ip, probe)).await,
                Err(_) => Ok(Err("the container has no address".to_owned())),
            },
        };
        match result {
            Ok(Ok(())) => CheckResult::Passed,
            Ok(Err(problem)) => CheckResult::Failed(format!("{probe}: {problem}")),
            Err(_) => late(),
        }
    }

    async fn connect(&self, ip: IpAddr, probe: &Probe) -> Result<(), String> {
        match probe {
            Probe::Http { port, path } => {
                let host = if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
                let answer = self.client.get(format!("http://{host}:{port}{path}")).send().await;
                match answer.map_err(|error| innermost(&error))?.status().as_u16() {
                    200..400 => Ok(()),
                    status => Err(format!("status {status}")),
                }
            }
            Probe::Tcp(port) => TcpStream::connect((ip, *port)).await.map(drop).map_err(|error| error.to_string()),
            Probe::Command(_) => Ok(()),
        }
    }

    async fn run(&self, target: &CheckTarget, command: &[String], within: Duration) -> CheckResult {
        let key = (target.id.clone(), target.kind);
        let before = self.overdue().remove(&key);
        if let Some(exec) = before
            && self.engine.exec_runs(&exec).await.unwrap_or(true)
        {
            self.is_overdue(key, exec);
            return CheckResult::Failed("the command of the last check still runs".to_owned());
        }
        let run = async {
            let exec = self.engine.prepare_exec(&target.id, command).await?;
            Ok::<_, crate::fault::Error>((self.engine.run_exec(&exec, within).await?, exec))
        };
        match run.await {
            Ok((Some(ended), _)) if ended.exit_code == 0 => CheckResult::Passed,
            Ok((Some(ended), _)) => CheckResult::Failed(format!("exit code {}: {}", ended.exit_code, ended.last_line)),
            Ok((None, exec)) => {
                self.is_overdue(key, exec);
                CheckResult::Failed(format!("the command has not ended within {} s", within.as_secs()))
            }
            Err(error) => {
                tracing::debug!(container = target.id, %error, "could not run the command of a check");
                CheckResult::Unknown
            }
        }
    }

    fn is_overdue(&self, key: (String, CheckKind), exec: String) {
        let mut overdue = self.overdue();
        if overdue.len() >= MOST_OVERDUE {
            // Most of these containers are gone.
            overdue.clear();
        }
        overdue.insert(key, exec);
    }

    fn overdue(&self) -> MutexGuard<'_, Overdue> {
        self.overdue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cause of an error that says most: reqwest puts it last.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}
