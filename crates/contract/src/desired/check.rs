//! Health checks that the agent performs itself, so an image needs no program for them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ranges::{self, Range};
use crate::spec::{HealthConfig, PodSpec};

/// One health check of a pod. It is an HTTP check if `http` is given, a TCP check if only `port` is, or a command.
///
/// A check that has not passed since the start of its container has `failures * period` to pass for the first time, and at
/// least the pod's `SetupTime`: with a period of 10 s and 3 failures, 30 s. Meanwhile the agent checks every second.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Check {
    /// URL path that answers `GET` with a status from 200 to 399, such as `/healthz`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub http: String,
    /// Port of the container: of `http`, or without it one that accepts TCP connections.
    #[serde(skip_serializing_if = "is_zero")]
    pub port: i64,
    /// Command that is run in the container and exits with 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Index of the container in the pod, from 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub container: i64,
    /// Seconds between two checks; default 10.
    #[serde(skip_serializing_if = "is_zero")]
    pub period: i64,
    /// Seconds until a check without an answer counts as failed; default 3.
    #[serde(skip_serializing_if = "is_zero")]
    pub timeout: i64,
    /// Failures in a row after which the check fails; default 3.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: i64,
    /// Successes in a row after which a failed check passes again; default 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub successes: i64,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// What a check does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// `GET` this path of this port.
    Http {
        /// Port of the container.
        port: u16,
        /// Path with a leading slash.
        path: String,
    },
    /// Connect to this port of the container.
    Tcp(u16),
    /// Run this command in the container.
    Command(Vec<String>),
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { port, path } => write!(f, "GET :{port}{path}"),
            Self::Tcp(port) => write!(f, "connect to port {port}"),
            Self::Command(words) => f.write_str(&words.join(" ")),
        }
    }
}

/// What a check is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CheckKind {
    /// The container has started. Until it passes, the other checks wait; if it fails, the container is restarted.
    Startup,
    /// The instance can serve. While it fails, the instance is not ready.
    Readiness,
    /// The container works. If it fails, the container is restarted.
    Liveness,
}

impl CheckKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Startup, Self::Readiness, Self::Liveness];

    /// The field of [`HealthConfig`], and the word in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Readiness => "readiness",
            Self::Liveness => "liveness",
        }
    }
}

impl Check {
    /// What the check does; none when the spec is not valid.
    pub fn probe(&self) -> Option<Probe> {
        let port = u16::try_from(self.port).ok().filter(|port| *port > 0);
        match (self.command.is_empty(), self.http.is_empty(), port) {
            (false, true, None) => Some(Probe::Command(self.command.clone())),
            (true, false, Some(port)) => Some(Probe::Http { port, path: self.http.clone() }),
            (true, true, Some(port)) => Some(Probe::Tcp(port)),
            _ => None,
        }
    }

    /// Time between two checks.
    pub fn every(&self) -> Duration {
        seconds(ranges::CHECK_PERIOD, self.period, 10)
    }

    /// Time until a check without an answer counts as failed.
    pub fn answers_within(&self) -> Duration {
        seconds(ranges::CHECK_TIMEOUT, self.timeout, 3)
    }

    /// Failures in a row after which the check fails.
    pub fn most_failures(&self) -> u32 {
        number(ranges::CHECK_FAILURES, self.failures, 3)
    }

    /// Successes in a row after which a failed check passes again.
    pub fn least_successes(&self) -> u32 {
        number(ranges::CHECK_SUCCESSES, self.successes, 1)
    }

    /// Time from the start of the container in which the check has to pass for the first time, without the setup time.
    pub fn first_pass_within(&self) -> Duration {
        self.every().saturating_mul(self.most_failures())
    }
}

fn number(range: Range, written: i64, default: i64) -> u32 {
    let used = range.used(if written == 0 { default } else { written });
    u32::try_from(used).unwrap_or(u32::MAX)
}

fn seconds(range: Range, written: i64, default: i64) -> Duration {
    Duration::from_secs(u64::from(number(range, written, default)))
}

impl HealthConfig {
    /// The check of a kind, as written.
    pub fn check(&self, kind: CheckKind) -> Option<&Check> {
        match kind {
            CheckKind::Startup => self.startup.as_ref(),
            CheckKind::Readiness => self.readiness.as_ref(),
            CheckKind::Liveness => self.liveness.as_ref(),
        }
    }
}

impl PodSpec {
    /// The check of a kind that the agent performs. A URL path in the annotation, LAIN's form of a health check, is a readiness
    /// check of the published port, unless the spec has another check of readiness.
    pub fn check(&self, kind: CheckKind) -> Option<Check> {
        let annotated = || match kind {
            CheckKind::Readiness => self.annotated_check(),
            CheckKind::Startup | CheckKind::Liveness => None,
        };
        self.health_config.check(kind).cloned().or_else(annotated)
    }

    fn annotated_check(&self) -> Option<Check> {
        if !self.health_config.cmd.is_empty() {
            return None;
        }
        let annotation: Value = serde_json::from_str(&self.annotation).ok()?;
        let path = annotation.get("healthcheck")?.as_str()?;
        let port = self.containers.first()?.expose;
        let options = self.health_config.options.used();
        let check = Check {
            http: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
            port,
            period: options.interval,
            timeout: options.timeout,
            failures: options.retries,
            ..Check::default()
        };
        check.probe().is_some().then_some(check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ContainerSpec, HealthOptions};

    #[test]
    fn a_check_is_http_tcp_or_a_command() {
        let http = Check { http: "/a".to_owned(), port: 80, ..Check::default() };
        assert_eq!(http.probe(), Some(Probe::Http { port: 80, path: "/a".to_owned() }));
        assert_eq!(Check { port: 80, ..Check::default() }.probe(), Some(Probe::Tcp(80)));
        let command = Check { command: vec!["true".to_owned()], ..Check::default() };
        assert_eq!(command.probe(), Some(Probe::Command(vec!["true".to_owned()])));
        for wrong in [
            Check::default(),
            Check { http: "/a".to_owned(), ..Check::default() },
            Check { port: 70_000, ..Check::default() },
            Check { port: 80, ..command },
        ] {
            assert_eq!(wrong.probe(), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_number_that_is_not_set_has_its_default() {
        let check = Check::default();
        let seconds = |check: &Check| (check.every().as_secs(), check.answers_within().as_secs());
        assert_eq!((seconds(&check), check.most_failures(), check.least_successes()), ((10, 3), 3, 1));
        assert_eq!(check.first_pass_within(), Duration::from_secs(30));
        let check = Check { period: 2, timeout: 1, failures: 5, successes: 2, ..check };
        assert_eq!((seconds(&check), check.most_failures(), check.least_successes()), ((2, 1), 5, 2));
    }

    #[test]
    fn an_annotation_is_a_readiness_check_of_the_published_port() {
        let container = ContainerSpec { expose: 8080, ..ContainerSpec::default() };
        let pod = PodSpec {
            annotation: "{\"healthcheck\":\"/ping\"}".to_owned(),
            containers: vec![container],
            ..PodSpec::default()
        };
        let check = pod.check(CheckKind::Readiness).expect("a check");
        assert_eq!(check.probe(), Some(Probe::Http { port: 8080, path: "/ping".to_owned() }));
        assert_eq!((check.period, check.timeout, check.failures), (10, 3, 3));
        assert_eq!((pod.check(CheckKind::Startup), pod.check(CheckKind::Liveness)), (None, None));
        let with_command = HealthConfig { cmd: "true".to_owned(), ..HealthConfig::default() };
        assert_eq!(PodSpec { health_config: with_command, ..pod.clone() }.check(CheckKind::Readiness), None);
        let options = HealthOptions { interval: 20, ..HealthOptions::default() };
        let written = Check { port: 1, ..Check::default() };
        let config = HealthConfig { readiness: Some(written.clone()), options, ..HealthConfig::default() };
        assert_eq!(PodSpec { health_config: config, ..pod }.check(CheckKind::Readiness), Some(written));
    }

    #[test]
    fn numbers_that_are_not_set_are_not_stored() {
        let check = Check { http: "/a".to_owned(), port: 80, ..Check::default() };
        assert_eq!(serde_json::to_string(&check).expect("JSON"), r#"{"http":"/a","port":80}"#);
    }
}
