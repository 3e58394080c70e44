//! The keys of a group and of its pod.

use super::ChoiceValue::Number;
use super::KeyKind::{Choice, Filters, Flag, Json, Number as Count, Seconds, Section, Sections, Text, Texts, Words};
use super::{KeyScope, ShortKey, key};

const RESTART: KeyKindChoices = &[("always", Number(1)), ("on-failure", Number(2)), ("never", Number(0))];
const SHARING: KeyKindChoices = &[("namespace", Number(0)), ("node", Number(1))];

type KeyKindChoices = &'static [(&'static str, super::ChoiceValue)];

pub(super) const GROUP: [ShortKey; 14] = [
    key("name", "Name", Text, "The unique name of the group. By convention `APP.PROCESS` or more parts.")
        .absent("required")
        .rules("letters, digits, `.`, `-` and `_`")
        .example("shop.web"),
    key("namespace", "Namespace", Text, "The namespace, which has its own network, policy and rights.")
        .absent("the part of the name before the first dot")
        .example("shop")
        .also(&["ns"]),
    key("replicas", "NumInstances", Count, "The number of instances.")
        .absent("required")
        .rules("at most 1000 unless `strategy` is `serial`")
        .example("3")
        .also(&["instances", "count", "scale"]),
    key("restart", "RestartPolicy", Choice(RESTART), "When a container that exited is restarted, with back-off.")
        .absent("`always`; a group that exists keeps its own")
        .example("on-failure")
        .also(&["restartPolicy", "restart_policy"]),
    key("containers", "Pod.Containers", Sections(None), "Several containers, which run together on one node.")
        .absent("one container, whose keys are at the top level")
        .rules("at most 16")
        .example("[{image: \"nginx:1.27\"}, {image: \"exporter:1\"}]"),
    key("labels", "Pod.Labels", Texts, "Additional labels of the containers.")
        .absent("none")
        .rules("at most 64")
        .example("{team: shop}"),
    key("network", "Pod.Network", Text, "The Docker network that the containers join.")
        .absent("the network of the namespace")
        .rules("cannot be changed while the group exists")
        .example("backend"),
    key("place", "Pod.Filters", Filters, "Which nodes may run an instance: node labels, with `==` or `!=`, and `~` after it for a preference. `affinity:` compares with containers.")
        .absent("every node; instances are spread over the nodes")
        .rules("at most 64; a pattern is a glob, or a regular expression between slashes")
        .example("[disk==ssd, \"node!=node-3\"]")
        .also(&["filters", "constraints", "placement", "nodeSelector"]),
    key("needs", "Pod.Dependencies", Sections(Some("pod")), "Dependency pods that run on the node of each instance; a name, or a mapping.")
        .absent("none")
        .rules("at most 32")
        .example("[svc.portal.portal]")
        .also(&["dependencies", "depends_on", "dependsOn"]),
    key("needs[].pod", "Pod.Dependencies[].PodName", Text, "The name of the dependency pod.").example("svc.portal.portal"),
    key("needs[].sharing", "Pod.Dependencies[].Policy", Choice(SHARING), "Which pods of a node share the dependency pod: those of one namespace, or all.")
        .absent("`namespace`")
        .example("node"),
    key("stateful", "Pod.Stateful", Flag, "Instances stay on their nodes; only a forced move takes them elsewhere.")
        .absent("true when a container has `volumes`, else false")
        .example("true"),
    key("annotation", "Pod.Annotation", Json, "A JSON object for other programs. Its `ports` reserve stream ports.")
        .absent("`{}`")
        .example("{ports: [{srcport: 9001, dstport: 8080, proto: tcp}]}"),
    key("paused", "Paused", Flag, "Pauses the rollout, as `deployctl rollout pause` does.")
        .absent("false; a group that exists keeps its own")
        .rules("needs another `strategy` than `serial`")
        .example("true"),
];

pub(super) const LIFE: [ShortKey; 7] = [
    key(
        "health",
        "Pod.HealthConfig",
        Section(None),
        "The health checks of the containers. An instance is ready when they succeed.",
    )
    .absent("the check of the image")
    .rules("with `http` or `port` it is short for `readiness`, which the agent checks; `command` is run by Docker")
    .example("{http: /healthz, port: 8080, every: 5s}")
    .also(&["healthcheck", "healthCheck", "livenessProbe", "readinessProbe"]),
    key(
        "health.command",
        "Pod.HealthConfig.cmd",
        Text,
        "The shell command that Docker runs in the container; exit code 0 is healthy. `none` disables the check of the image.",
    )
    .absent("the check of the image")
    .example("\"wget -qO- http://127.0.0.1/\"")
    .also(&["test", "cmd", "exec"]),
    key("health.every", "Pod.HealthConfig.options.interval", Seconds, "The time between two checks.")
        .absent("10s")
        .example("30s")
        .also(&["interval", "period", "periodSeconds"]),
    key("health.timeout", "Pod.HealthConfig.options.timeout", Seconds, "How long one check may take.")
        .absent("3s")
        .example("5s")
        .also(&["timeoutSeconds"]),
    key(
        "health.retries",
        "Pod.HealthConfig.options.retries",
        Count,
        "Consecutive failures until the container is unhealthy.",
    )
    .absent("3")
    .example("5")
    .also(&["failureThreshold"]),
    key(
        "setupTime",
        "Pod.SetupTime",
        Seconds,
        "How long after its start an instance without a health check becomes ready.",
    )
    .absent("0s")
    .example("5s")
    .also(&["startTimeout", "startPeriod", "start_period", "initialDelaySeconds"]),
    key("stopTimeout", "Pod.KillTimeout", Seconds, "The time between SIGTERM and SIGKILL.")
        .absent("10s")
        .example("30s")
        .also(&["killTimeout", "stop_grace_period", "terminationGracePeriodSeconds"]),
];

pub(super) const KEPT: [ShortKey; 8] = [
    key("previous", "Pod.PrevState", Section(None), "The last place of an instance, as the client sent it. Not used.")
        .absent("nothing")
        .example("{node: node-1}"),
    key("previous.node", "Pod.PrevState.NodeName", Text, "The name of a node. Not used.")
        .absent("nothing")
        .example("node-1"),
    key("previous.addresses", "Pod.PrevState.IPs", Words, "IP addresses, one for each container. Not used.")
        .absent("none")
        .example("[10.1.0.2]"),
    item("containers[].name", "Pod.Containers[].Name", Text, "The name of the container. Not used.")
        .absent("nothing")
        .example("web"),
    item("containers[].namespace", "Pod.Containers[].Namespace", Text, "The namespace of the container. Not used.")
        .absent("nothing")
        .example("shop"),
    item("containers[].version", "Pod.Containers[].Version", Count, "The version of the container. Not used.")
        .absent("0")
        .example("2"),
    item("containers[].createdAt", "Pod.Containers[].CreatedAt", Text, "When the container was created. Not used.")
        .absent("nothing")
        .example("\"2026-01-02T03:04:05Z\""),
    item("containers[].updatedAt", "Pod.Containers[].UpdatedAt", Text, "When the container was changed. Not used.")
        .absent("nothing")
        .example("\"2026-01-02T03:04:05Z\""),
];

const fn item(path: &'static str, spec: &'static str, kind: super::KeyKind, meaning: &'static str) -> ShortKey {
    key(path, spec, kind, meaning).within(KeyScope::Item)
}
