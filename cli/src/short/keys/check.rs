//! The keys of health checks that the agent performs.

use super::KeyKind::{Number as Count, Seconds, Section, Text, Words};
use super::{ShortKey, key};

/// The keys of the three checks; they differ only in their names and meanings.
macro_rules! checks {
    ($(($kind:literal, $meaning:literal)),*) => {
        [$(
            key(concat!("health.", $kind), concat!("Pod.HealthConfig.", $kind), Section(None), $meaning)
                .absent("no check")
                .rules("either `http` and `port`, or `port` alone for TCP, or `command`")
                .example("{http: /healthz, port: 8080, every: 5s}"),
            key(concat!("health.", $kind, ".http"), concat!("Pod.HealthConfig.", $kind, ".http"), Text, "The URL path that answers `GET` with a status from 200 to 399.")
                .absent("no HTTP request")
                .example("/healthz")
                .also(&["path", "httpGet"]),
            key(concat!("health.", $kind, ".port"), concat!("Pod.HealthConfig.", $kind, ".port"), Count, "The port of the container: of `http`, or one that accepts TCP connections. It need not be published.")
                .absent("no connection")
                .example("8080")
                .also(&["tcp", "tcpSocket"]),
            key(concat!("health.", $kind, ".command"), concat!("Pod.HealthConfig.", $kind, ".command"), Words, "The command that is run in the container and exits with 0.")
                .absent("no command")
                .example("[/app, check]")
                .also(&["cmd", "exec"]),
            key(concat!("health.", $kind, ".container"), concat!("Pod.HealthConfig.", $kind, ".container"), Count, "The index of the container in `containers`, from 0.")
                .absent("0")
                .example("1"),
            key(concat!("health.", $kind, ".every"), concat!("Pod.HealthConfig.", $kind, ".period"), Seconds, "The time between two checks.")
                .absent("10s")
                .example("5s")
                .also(&["interval", "period", "periodSeconds"]),
            key(concat!("health.", $kind, ".timeout"), concat!("Pod.HealthConfig.", $kind, ".timeout"), Seconds, "How long one check may take.")
                .absent("3s")
                .example("1s")
                .also(&["timeoutSeconds"]),
            key(concat!("health.", $kind, ".failures"), concat!("Pod.HealthConfig.", $kind, ".failures"), Count, "Failures in a row after which the check fails. Until its first success it has `failures` times `every`.")
                .absent("3")
                .example("5")
                .also(&["retries", "failureThreshold"]),
            key(concat!("health.", $kind, ".successes"), concat!("Pod.HealthConfig.", $kind, ".successes"), Count, "Successes in a row after which a failed check passes again.")
                .absent("1")
                .example("2")
                .also(&["successThreshold"]),
        )*]
    };
}

pub(super) const CHECKS: [ShortKey; 27] = checks![
    (
        "startup",
        "Whether the container has started. The other checks wait for it; if it fails, the container is restarted."
    ),
    ("readiness", "Whether the instance can serve. `health: {http: /healthz, port: 8080}` is short for it."),
    ("liveness", "Whether the container works; if it fails, the container is restarted.")
];
