//! Swarm mode of the local engine: entered for the run, left at its end, on 127.0.0.1 only.
//!
//! Configured for speed: no delay before restarts and between update steps, no monitoring, failures ignored.

use super::{
    BenchEngine, CPU_PERIOD, CPU_QUOTA, Error, GRACE_SECONDS, HashMap, LeaveSwarmOptionsBuilder, Limit, LocalNodeState,
    MEMORY, NETWORK, NetworkAttachmentConfig, RUN, ServiceSpec, ServiceSpecMode, ServiceSpecModeReplicated,
    ServiceSpecUpdateConfig, ServiceSpecUpdateConfigFailureActionEnum, ServiceSpecUpdateConfigOrderEnum,
    SwarmInitRequest, SwarmSpec, SwarmSpecOrchestration, TaskSpec, TaskSpecContainerSpec, TaskSpecResources,
    TaskSpecRestartPolicy, TaskSpecRestartPolicyConditionEnum, UpdateServiceOptionsBuilder, VERSION, call, has_status,
};
use crate::bench::contestant::{Contestant, First, Pace, Task};

/// The bridge that the engine makes for Swarm mode and does not remove.
const GATEWAY: &str = "docker_gwbridge";
const NANOSECONDS: i64 = 1_000_000_000;
/// Parallelism of a service until its first update.
const PACE: Pace = Pace::new(First::Old, 10);

#[derive(Debug, Clone)]
pub(crate) struct Swarm {
    pub(crate) engine: BenchEngine,
    pub(crate) image: String,
}

/// Whether this run entered a swarm, and whether the bridge existed before.
#[derive(Debug)]
pub(crate) struct SwarmMembership {
    inside: bool,
    had_gateway: bool,
}

impl BenchEngine {
    /// Refuses an engine that is part of a swarm, which the bench must not leave.
    pub(crate) async fn require_no_swarm(&self) -> Result<SwarmMembership, Error> {
        let info = call("describe its swarm", self.docker.info()).await?;
        match info.swarm.and_then(|swarm| swarm.local_node_state) {
            None | Some(LocalNodeState::INACTIVE | LocalNodeState::EMPTY) => {
                let found = call("look for a network", self.docker.inspect_network(GATEWAY, None)).await;
                Ok(SwarmMembership { inside: false, had_gateway: found.is_ok() })
            }
            Some(_) => Err(Error::SwarmActive),
        }
    }

    pub(crate) async fn enter_swarm(&self, port: u16, membership: &mut SwarmMembership) -> Result<(), Error> {
        let spec = SwarmSpec {
            // Replaced containers are removed, as by the other contestants.
            orchestration: Some(SwarmSpecOrchestration { task_history_retention_limit: Some(0) }),
            ..Default::default()
        };
        let request = SwarmInitRequest {
            listen_addr: Some(format!("127.0.0.1:{port}")),
            advertise_addr: Some("127.0.0.1".to_owned()),
            data_path_addr: Some("127.0.0.1".to_owned()),
            spec: Some(spec),
            ..Default::default()
        };
        // Set before the call: if its answer is lost, the bench still leaves the swarm.
        membership.inside = true;
        call("enter Swarm mode", self.docker.init_swarm(request)).await.map(drop)
    }

    /// Leaves the swarm that this run entered.
    pub(crate) async fn leave_swarm(&self, membership: &mut SwarmMembership) -> Result<(), Error> {
        if !membership.inside {
            return Ok(());
        }
        let options = LeaveSwarmOptionsBuilder::new().force(true).build();
        match call("leave Swarm mode", self.docker.leave_swarm(Some(options))).await {
            // The swarm was not entered after all.
            Err(error) if has_status(&error, 503) => {}
            other => other?,
        }
        membership.inside = false;
        if !membership.had_gateway {
            // The bridge does not exist if no service needed it.
            match call("remove a network", self.docker.remove_network(GATEWAY)).await {
                Err(error) if has_status(&error, 404) => {}
                other => other?,
            }
        }
        Ok(())
    }
}

impl Swarm {
    /// Returns when the engine accepted the task; events show its progress.
    pub(crate) async fn perform(&self, task: Task, version: u32) -> Result<(), Error> {
        match task {
            Task::Start { count } => {
                let service = self.service(count, version, PACE);
                call("create a service", self.engine.docker.create_service(service, None)).await.map(drop)
            }
            Task::Grow { to, .. } => self.change(self.service(to, version, PACE)).await,
            Task::Update { count, version, pace } => self.change(self.service(count, version, pace)).await,
            Task::Remove { .. } => call("remove a service", self.engine.docker.delete_service(&self.name())).await,
        }
    }

    fn name(&self) -> String {
        self.engine.mark(Contestant::Swarm.word())
    }

    async fn change(&self, service: ServiceSpec) -> Result<(), Error> {
        let (docker, name) = (&self.engine.docker, self.name());
        let now = call("describe a service", docker.inspect_service(&name, None)).await?;
        let index = now.version.and_then(|version| version.index).unwrap_or(0);
        let options = UpdateServiceOptionsBuilder::new().version(i32::try_from(index).unwrap_or(i32::MAX)).build();
        call("change a service", docker.update_service(&name, service, options, None)).await.map(drop)
    }

    fn service(&self, count: u32, version: u32, pace: Pace) -> ServiceSpec {
        let container = TaskSpecContainerSpec {
            image: Some(self.image.clone()),
            labels: Some(HashMap::from([(RUN.to_owned(), self.name()), (VERSION.to_owned(), version.to_string())])),
            stop_grace_period: Some(i64::from(GRACE_SECONDS) * NANOSECONDS),
            ..Default::default()
        };
        let limits = Limit {
            memory_bytes: Some(MEMORY),
            nano_cpus: Some(NANOSECONDS * CPU_QUOTA / CPU_PERIOD),
            ..Default::default()
        };
        ServiceSpec {
            name: Some(self.name()),
            mode: Some(ServiceSpecMode {
                replicated: Some(ServiceSpecModeReplicated { replicas: Some(i64::from(count)) }),
                ..Default::default()
            }),
            task_template: Some(TaskSpec {
                container_spec: Some(container),
                resources: Some(TaskSpecResources { limits: Some(limits), ..Default::default() }),
                restart_policy: Some(TaskSpecRestartPolicy {
                    condition: Some(TaskSpecRestartPolicyConditionEnum::ANY),
                    delay: Some(0),
                    ..Default::default()
                }),
                networks: Some(vec![NetworkAttachmentConfig {
                    target: Some(NETWORK.to_owned()),
                    ..Default::default()
                }]),
                ..Default::default()
            }),
            update_config: Some(ServiceSpecUpdateConfig {
                parallelism: Some(i64::from(pace.at_a_time)),
                delay: Some(0),
                // No value would mean 5 s.
                monitor: Some(1),
                failure_action: Some(ServiceSpecUpdateConfigFailureActionEnum::CONTINUE),
                max_failure_ratio: None,
                order: Some(match pace.first {
                    First::Old => ServiceSpecUpdateConfigOrderEnum::STOP_FIRST,
                    First::New => ServiceSpecUpdateConfigOrderEnum::START_FIRST,
                }),
            }),
            ..Default::default()
        }
    }
}
