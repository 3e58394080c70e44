//! Swarm mode of the local engine: entered for the run, left at its end, on 127.0.0.1 only.
//!
//! It is given what makes it fast: no delay before a restart or between two steps of an update, no time of watching after
//! one, no failures to look for.

use super::{
    BenchEngine, CPU_PERIOD, CPU_QUOTA, Error, GRACE_SECONDS, HashMap, LeaveSwarmOptionsBuilder, Limit, LocalNodeState,
    MEMORY, NETWORK, NetworkAttachmentConfig, RUN, ServiceSpec, ServiceSpecMode, ServiceSpecModeReplicated,
    ServiceSpecUpdateConfig, ServiceSpecUpdateConfigFailureActionEnum, ServiceSpecUpdateConfigOrderEnum,
    SwarmInitRequest, SwarmSpec, SwarmSpecOrchestration, TaskSpec, TaskSpecContainerSpec, TaskSpecResources,
    TaskSpecRestartPolicy, TaskSpecRestartPolicyConditionEnum, UpdateServiceOptionsBuilder, VERSION, call, says,
};
use crate::bench::contestant::{Contestant, First, Pace, Task};

/// Bridge that the engine makes for Swarm mode and forgets to take away.
const GATEWAY: &str = "docker_gwbridge";
const NANOSECONDS: i64 = 1_000_000_000;
/// Pace of a service until an update names another.
const PACE: Pace = Pace::new(First::Old, 10);

/// A service of a swarm of one node.
#[derive(Debug, Clone)]
pub(crate) struct Swarm {
    pub(crate) engine: BenchEngine,
    /// Id of the image.
    pub(crate) image: String,
}

/// Whether we are in a swarm of ours, and what was there before.
#[derive(Debug)]
pub(crate) struct SwarmMembership {
    inside: bool,
    had_gateway: bool,
}

impl BenchEngine {
    /// Refuses an engine that is part of a swarm: it is not ours to leave.
    pub(crate) async fn require_no_swarm(&self) -> Result<SwarmMembership, Error> {
        let info = call("tell about Swarm mode", self.docker.info()).await?;
        match info.swarm.and_then(|swarm| swarm.local_node_state) {
            None | Some(LocalNodeState::INACTIVE | LocalNodeState::EMPTY) => {
                let found = call("look for a network", self.docker.inspect_network(GATEWAY, None)).await;
                Ok(SwarmMembership { inside: false, had_gateway: found.is_ok() })
            }
            Some(_) => Err(Error::SwarmActive),
        }
    }

    /// Makes this engine a swarm of one node.
    pub(crate) async fn enter_swarm(&self, port: u16, membership: &mut SwarmMembership) -> Result<(), Error> {
        let spec = SwarmSpec {
            // What an update replaced is removed, as everywhere else.
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
        // Said before it is so: an answer that never comes must not leave the engine inside.
        membership.inside = true;
        call("enter Swarm mode", self.docker.init_swarm(request)).await.map(drop)
    }

    /// Leaves the swarm we entered, with everything in it; one that is not ours is left alone.
    pub(crate) async fn leave_swarm(&self, membership: &mut SwarmMembership) -> Result<(), Error> {
        if !membership.inside {
            return Ok(());
        }
        let options = LeaveSwarmOptionsBuilder::new().force(true).build();
        match call("leave Swarm mode", self.docker.leave_swarm(Some(options))).await {
            // It was never entered after all.
            Err(error) if says(&error, 503) => {}
            other => other?,
        }
        membership.inside = false;
        if !membership.had_gateway {
            // Absent when nothing needed it.
            match call("remove a network", self.docker.remove_network(GATEWAY)).await {
                Err(error) if says(&error, 404) => {}
                other => other?,
            }
        }
        Ok(())
    }
}

impl Swarm {
    /// Gives the task; `version` is the one that stands there before. What becomes of it is seen in what happens.
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
        let now = call("tell about a service", docker.inspect_service(&name, None)).await?;
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
                // Nothing would mean five seconds.
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
