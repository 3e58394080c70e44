//! `Runtime`: the fields of `docker inspect` that the original API shows, in its order.
//!
//! Decode it from Docker's JSON with [`crate::lenient_json::from_value`]: the names are Docker's and `null` means the
//! default.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::time::{Timestamp, rfc3339};

type Strings = Option<Vec<String>>;
type Texts = Option<BTreeMap<String, String>>;
type Set = Option<BTreeMap<String, Value>>;

macro_rules! document {
    ($(#[$doc:meta])* $name:ident { $($(#[$attribute:meta])* $json:literal $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        #[allow(missing_docs, reason = "the fields are Docker's and documented there")]
        pub struct $name { $($(#[$attribute])* #[serde(rename = $json)] pub $field: $type,)* }
    };
}

document!(
    /// Answer of `docker inspect` for one container.
    ContainerDetail {
        "AppArmorProfile" app_armor_profile: String,
        "Args" args: Strings,
        "Config" config: Config,
        #[serde(with = "rfc3339")] "Created" created: Timestamp,
        "Driver" driver: String,
        "ExecDriver" exec_driver: String,
        "ExecIDs" exec_ids: Strings,
        "HostConfig" host_config: HostConfig,
        "HostnamePath" hostname_path: String,
        "HostsPath" hosts_path: String,
        "Id" id: String,
        "Image" image: String,
        "LogPath" log_path: String,
        "MountLabel" mount_label: String,
        "Name" name: String,
        "NetworkSettings" network_settings: NetworkSettings,
        "Path" path: String,
        "ProcessLabel" process_label: String,
        "ResolvConfPath" resolv_conf_path: String,
        "RestartCount" restart_count: i64,
        "State" state: State,
        "Volumes" volumes: Texts,
        "VolumesRW" volumes_rw: Set,
        "Node" node: NodeDetail,
    }
);
document!(
    /// The configuration the container was created from.
    Config {
        "AttachStderr" attach_stderr: bool,
        "AttachStdin" attach_stdin: bool,
        "AttachStdout" attach_stdout: bool,
        "Cmd" cmd: Strings,
        "Domainname" domainname: String,
        "Entrypoint" entrypoint: Strings,
        "Env" env: Strings,
        "ExposedPorts" exposed_ports: Set,
        #[serde(skip_serializing_if = "Option::is_none")] "Healthcheck" healthcheck: Option<Healthcheck>,
        "Hostname" hostname: String,
        "Image" image: String,
        "Labels" labels: Texts,
        "MacAddress" mac_address: String,
        "NetworkDisabled" network_disabled: bool,
        "OnBuild" on_build: Strings,
        "OpenStdin" open_stdin: bool,
        "PortSpecs" port_specs: Strings,
        "StdinOnce" stdin_once: bool,
        "Tty" tty: bool,
        "User" user: String,
        "VolumeDriver" volume_driver: String,
        "Volumes" volumes: Set,
        "WorkingDir" working_dir: String,
    }
);
document!(
    /// Health check; times are in nanoseconds.
    Healthcheck {
        #[serde(skip_serializing_if = "Option::is_none")] "Test" test: Strings,
        #[serde(skip_serializing_if = "is_zero")] "Interval" interval: i64,
        #[serde(skip_serializing_if = "is_zero")] "Timeout" timeout: i64,
        #[serde(skip_serializing_if = "is_zero")] "StartPeriod" start_period: i64,
        #[serde(skip_serializing_if = "is_zero")] "Retries" retries: i64,
    }
);
document!(
    /// Resources, mounts and networking of the container.
    HostConfig {
        "Binds" binds: Strings,
        "CapAdd" cap_add: Strings,
        "CapDrop" cap_drop: Strings,
        "ContainerIDFile" container_id_file: String,
        "Dns" dns: Strings,
        "DnsSearch" dns_search: Strings,
        "ExtraHosts" extra_hosts: Strings,
        "IpcMode" ipc_mode: String,
        "Links" links: Strings,
        "LxcConf" lxc_conf: Option<Vec<BTreeMap<String, String>>>,
        "NetworkMode" network_mode: String,
        "PidMode" pid_mode: String,
        "PortBindings" port_bindings: Ports,
        "Privileged" privileged: bool,
        "PublishAllPorts" publish_all_ports: bool,
        "ReadonlyRootfs" readonly_rootfs: bool,
        "RestartPolicy" restart_policy: DockerRestartPolicy,
        "SecurityOpt" security_opt: Strings,
        "VolumesFrom" volumes_from: Strings,
        "LogConfig" log_config: DockerLogConfig,
        "CpuShares" cpu_shares: i64,
        "Memory" memory: i64,
        "CgroupParent" cgroup_parent: String,
        "BlkioWeight" blkio_weight: i64,
        "BlkioWeightDevice" blkio_weight_device: Option<Vec<WeightDevice>>,
        "BlkioDeviceReadBps" blkio_device_read_bps: Option<Vec<RateDevice>>,
        "BlkioDeviceWriteBps" blkio_device_write_bps: Option<Vec<RateDevice>>,
        "BlkioDeviceReadIOps" blkio_device_read_iops: Option<Vec<RateDevice>>,
        "BlkioDeviceWriteIOps" blkio_device_write_iops: Option<Vec<RateDevice>>,
        "CpuPeriod" cpu_period: i64,
        "CpuQuota" cpu_quota: i64,
        "CpusetCpus" cpuset_cpus: String,
        "CpusetMems" cpuset_mems: String,
        "Devices" devices: Option<Vec<Device>>,
        "DiskQuota" disk_quota: i64,
        "KernelMemory" kernel_memory: i64,
        "MemoryReservation" memory_reservation: i64,
        "MemorySwap" memory_swap: i64,
        "MemorySwappiness" memory_swappiness: Option<i64>,
        "OomKillDisable" oom_kill_disable: Option<bool>,
        "PidsLimit" pids_limit: i64,
        "Ulimits" ulimits: Option<Vec<Ulimit>>,
        "CpuCount" cpu_count: i64,
        "CpuPercent" cpu_percent: i64,
        "IOMaximumIOps" io_maximum_iops: i64,
        "IOMaximumBandwidth" io_maximum_bandwidth: i64,
    }
);
document!(
    /// A weighted block device.
    WeightDevice { "Path" path: String, "Weight" weight: i64, }
);
document!(
    /// A throttled block device.
    RateDevice { "Path" path: String, "Rate" rate: i64, }
);
document!(
    /// A host device that the container may use.
    Device { "PathOnHost" path_on_host: String, "PathInContainer" path_in_container: String, "CgroupPermissions" cgroup_permissions: String, }
);
document!(
    /// A resource limit.
    Ulimit { "Name" name: String, "Soft" soft: i64, "Hard" hard: i64, }
);
document!(
    /// Docker's restart policy; always empty, because the agent restarts containers.
    DockerRestartPolicy { "MaximumRetryCount" maximum_retry_count: i64, "Name" name: String, }
);
document!(
    /// Log driver.
    DockerLogConfig { "Type" kind: String, "Config" config: Texts, }
);
document!(
    /// Addresses and ports.
    NetworkSettings {
        "Bridge" bridge: String,
        "Gateway" gateway: String,
        "GlobalIPv6Address" global_ipv6_address: String,
        "GlobalIPv6PrefixLen" global_ipv6_prefix_len: i64,
        "IPAddress" ip_address: String,
        "IPPrefixLen" ip_prefix_len: i64,
        "IPv6Gateway" ipv6_gateway: String,
        "LinkLocalIPv6Address" link_local_ipv6_address: String,
        "LinkLocalIPv6PrefixLen" link_local_ipv6_prefix_len: i64,
        "MacAddress" mac_address: String,
        "Ports" ports: Ports,
        "Networks" networks: BTreeMap<String, Endpoint>,
    }
);
document!(
    /// Membership in one network.
    Endpoint { "Gateway" gateway: String, "IPAddress" ip_address: String, }
);
document!(
    /// One published port.
    PortBinding { "HostIp" host_ip: String, "HostPort" host_port: String, }
);
document!(
    /// Run state.
    State {
        "Dead" dead: bool,
        "Error" error: String,
        "ExitCode" exit_code: i64,
        #[serde(with = "rfc3339")] "FinishedAt" finished_at: Timestamp,
        "OOMKilled" oom_killed: bool,
        "Paused" paused: bool,
        "Pid" pid: i64,
        "Restarting" restarting: bool,
        "Running" running: bool,
        #[serde(with = "rfc3339")] "StartedAt" started_at: Timestamp,
        "Health" health: Option<Health>,
    }
);
document!(
    /// Result of the health check.
    Health { "Status" status: String, "FailingStreak" failing_streak: i64, }
);
document!(
    /// The node, in the form of Docker Swarm's API.
    NodeDetail {
        "Name" name: String,
        "ID" id: String,
        "Addr" addr: String,
        "IP" ip: String,
        "Cpus" cpus: i64,
        "Memory" memory: i64,
        "Labels" labels: BTreeMap<String, String>,
    }
);

/// Ports by `<port>/<protocol>`.
pub type Ports = BTreeMap<String, Option<Vec<PortBinding>>>;

fn is_zero(number: &i64) -> bool {
    *number == 0
}
