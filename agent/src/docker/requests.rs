//! Request bodies of the Docker API.

use super::{
    ContainerCreateBody, ContainerUpdateBody, EndpointIpamConfig, EndpointSettings, HealthConfig, HostConfig,
    HostConfigLogConfig, NetworkingConfig, PortBinding, ThrottleDevice,
};
use crate::container::{CPU_PERIOD, Plan};
use crate::device::Throttle;

/// Option of every container that a policy restrains.
pub(super) const NO_NEW_PRIVILEGES: &str = "no-new-privileges";
/// More memory than any machine has. Docker takes an update to "unlimited" as "unchanged".
const WITHOUT_LIMIT: i64 = 1 << 53;

pub(super) fn create(plan: &Plan, address: Option<&str>, swappiness: bool) -> ContainerCreateBody {
    let health = plan.health.as_ref().map(|health| HealthConfig {
        test: Some(health.test.clone()),
        interval: (health.interval > 0).then_some(health.interval),
        timeout: (health.timeout > 0).then_some(health.timeout),
        retries: (health.retries > 0).then_some(health.retries),
        ..Default::default()
    });
    ContainerCreateBody {
        image: Some(plan.image.clone()),
        // With an empty list some engines ignore the image's command.
        cmd: (!plan.command.is_empty()).then(|| plan.command.clone()),
        entrypoint: plan.entrypoint.clone(),
        user: given(&plan.user),
        working_dir: given(&plan.working_dir),
        env: Some(plan.env.clone()),
        labels: Some(plan.labels.clone().into_iter().collect()),
        volumes: (!plan.volumes.is_empty()).then(|| plan.volumes.clone()),
        exposed_ports: plan.port.clone().map(|port| vec![port]),
        healthcheck: health,
        host_config: Some(host_config(plan, swappiness)),
        networking_config: address.map(|address| networking(&plan.network, address)),
        ..Default::default()
    }
}

/// New limits of an existing container. Memory and swap change together: Docker refuses memory above swap.
pub(super) fn update(plan: &Plan) -> ContainerUpdateBody {
    let memory = if plan.memory > 0 { plan.memory } else { WITHOUT_LIMIT };
    ContainerUpdateBody {
        memory: Some(memory),
        memory_swap: Some(memory),
        cpu_period: Some(CPU_PERIOD),
        cpu_quota: Some(plan.cpu_quota),
        ..Default::default()
    }
}

fn networking(network: &str, address: &str) -> NetworkingConfig {
    let own = EndpointIpamConfig { ipv4_address: Some(address.to_owned()), ..Default::default() };
    let endpoint = EndpointSettings { ipam_config: Some(own), ..Default::default() };
    NetworkingConfig { endpoints_config: Some([(network.to_owned(), endpoint)].into()) }
}

fn host_config(plan: &Plan, swappiness: bool) -> HostConfig {
    let binding = PortBinding { host_ip: Some(plan.publish_ip.clone()), host_port: Some(String::new()) };
    let restraints = plan.restraints.as_ref();
    let (rates, operations) = (throttled(&plan.throttles, |t| t.rate), throttled(&plan.throttles, |t| t.iops));
    HostConfig {
        binds: Some(plan.binds.clone()),
        network_mode: given(&plan.network),
        dns_search: (!plan.dns_search.is_empty()).then(|| plan.dns_search.clone()),
        port_bindings: plan.port.as_ref().map(|port| [(port.clone(), Some(vec![binding]))].into()),
        log_config: plan.log.as_ref().map(|(kind, config)| HostConfigLogConfig {
            typ: Some(kind.clone()),
            config: Some(config.clone().into_iter().collect()),
        }),
        memory: Some(plan.memory),
        // Swap off.
        memory_swap: Some(plan.memory),
        memory_swappiness: swappiness.then_some(0),
        cpu_period: Some(CPU_PERIOD),
        cpu_quota: Some(plan.cpu_quota),
        blkio_device_read_bps: rates.clone(),
        blkio_device_write_bps: rates,
        blkio_device_read_iops: operations.clone(),
        blkio_device_write_iops: operations,
        // A program with the set-user-id bit gets no more rights than the one that starts it.
        security_opt: restraints.map(|_| vec![NO_NEW_PRIVILEGES.to_owned()]),
        cap_drop: restraints.map(|_| vec!["ALL".to_owned()]),
        cap_add: restraints.map(|restraints| restraints.capabilities.clone()),
        pids_limit: restraints.map(|restraints| restraints.pids).filter(|limit| *limit > 0),
        ..Default::default()
    }
}

fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn throttled(throttles: &[Throttle], limit: impl Fn(&Throttle) -> Option<i64>) -> Option<Vec<ThrottleDevice>> {
    let device = |t: &Throttle| Some(ThrottleDevice { path: Some(t.path.clone()), rate: Some(limit(t)?) });
    let devices: Vec<ThrottleDevice> = throttles.iter().filter_map(device).collect();
    (!devices.is_empty()).then_some(devices)
}
