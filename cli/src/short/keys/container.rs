//! The keys of a container.

use super::KeyKind::{
    Bytes, Choice, Cores, Environment, Number as Count, Ports, Section, Sections, Text, Texts, Words,
};
use super::{ChoiceValue, KeyKind, KeyScope, ShortKey, key};

const SHARED: KeyKind = Choice(&[("multi", ChoiceValue::Word("multi")), ("single", ChoiceValue::Word("single"))]);

pub(super) const CONTAINER: [ShortKey; 19] = [
    of("image", "Pod.Containers[].Image", Text, "The image that the nodes pull.")
        .absent("required")
        .rules("no blanks, at most 512 bytes")
        .example("\"nginx:1.27\""),
    of("command", "Pod.Containers[].Command", Words, "The command, word by word.")
        .absent("the image's")
        .rules("at most 256 words")
        .example("[sleep, \"3600\"]")
        .also(&["cmd", "args"]),
    of("entrypoint", "Pod.Containers[].Entrypoint", Words, "The entrypoint, word by word. An empty list runs `command` alone.")
        .absent("the image's")
        .rules("at most 256 words")
        .example("[/bin/sh, -c]"),
    of("env", "Pod.Containers[].Env", Environment, "Environment variables: a mapping, or a list of `NAME=text`.")
        .absent("the image's")
        .rules("at most 256")
        .example("{GREETING: hello}")
        .also(&["environment", "envs", "vars"]),
    of("user", "Pod.Containers[].User", Text, "The user that the container runs as.")
        .absent("the image's")
        .example("\"1000\""),
    of("workdir", "Pod.Containers[].WorkingDir", Text, "The working directory.")
        .absent("the image's")
        .example("/srv")
        .also(&["workingDir", "working_dir"]),
    of("port", "Pod.Containers[].Expose", Count, "The TCP port that the container listens on. The cluster publishes it on a port of the node.")
        .absent("none")
        .example("80")
        .also(&["expose"]),
    of("ports", "Pod.Containers[].Expose", Ports, "The same as a list; one port for each container.")
        .absent("none")
        .example("[80]")
        .alias(),
    of("memory", "Pod.Containers[].MemoryLimit", Bytes, "The memory limit: bytes, or a number with `Ki`, `Mi`, `Gi` or `Ti`.")
        .absent("no limit; a container that exists keeps its own")
        .rules("at least 6Mi")
        .example("256Mi")
        .also(&["memoryLimit", "mem_limit", "mem"]),
    of("cpu", "Pod.Containers[].CpuLimit", Cores, "CPU cores. With another `--quota-cores` of the scheduler than 8 they scale with it.")
        .absent("1; a container that exists keeps its own")
        .example("0.5")
        .also(&["cpus", "cpuLimit", "cores"]),
    of("volumes", "Pod.Containers[].Volumes", Words, "Paths in the container that are stored on the node, one directory for each instance. They make the group `stateful`.")
        .absent("none")
        .rules("at most 32; absolute paths")
        .example("[/data]"),
    of("mounts", "Pod.Containers[].SystemVolumes", Words, "Directories of the node: `/on/the/node:/in/the/container`, as Docker writes them.")
        .absent("none")
        .rules("at most 16; needs a policy that allows them")
        .example("[\"/etc/ssl/certs:/etc/ssl/certs:ro\"]")
        .also(&["systemVolumes", "binds"]),
    of("sharedVolumes", "Pod.Containers[].CloudVolumes", Sections(None), "Directories on shared storage.")
        .absent("none")
        .rules("at most 32")
        .example("[{type: single, paths: [/media]}]")
        .also(&["cloudVolumes"]),
    of("sharedVolumes[].type", "Pod.Containers[].CloudVolumes[].Type", SHARED, "`multi`: one directory for each instance; `single`: one for all.")
        .absent("required")
        .example("single"),
    of("sharedVolumes[].paths", "Pod.Containers[].CloudVolumes[].Dirs", Words, "Paths in the container.")
        .absent("none")
        .rules("at most 32; absolute paths")
        .example("[/media]")
        .also(&["dirs"]),
    of("dnsSearch", "Pod.Containers[].DnsSearch", Words, "DNS search domains.")
        .absent("none")
        .rules("at most 8")
        .example("[shop.internal]")
        .also(&["dns_search"]),
    of("log", "Pod.Containers[].LogConfig", Section(None), "Where Docker writes the output of the container.")
        .absent("the agent's default")
        .example("{driver: json-file, options: {max-size: 10m}}")
        .also(&["logging", "logConfig"]),
    of("log.driver", "Pod.Containers[].LogConfig.Type", Text, "The log driver of Docker.")
        .absent("the agent's default")
        .example("json-file"),
    of("log.options", "Pod.Containers[].LogConfig.Config", Texts, "Options of the driver.")
        .absent("none")
        .example("{max-size: 10m}"),
];

const fn of(path: &'static str, spec: &'static str, kind: KeyKind, meaning: &'static str) -> ShortKey {
    key(path, spec, kind, meaning).within(KeyScope::Container)
}
