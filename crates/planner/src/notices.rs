//! Decides which incidents the change of a pod's facts amounts to.
//!
//! Only a change that was seen counts: a pod met for the first time may have been restarted long ago, and its story was
//! told then.

use contract::notice::{Incident, NoticeBody};
use contract::pod_id::PodId;
use contract::report::PodFacts;
use contract::time::Timestamp;

/// Something that happened to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Happening {
    /// What.
    pub incident: Incident,
    /// When.
    pub at: Timestamp,
}

/// What happened between two reports of one pod.
pub fn between(before: &PodFacts, after: &PodFacts) -> Vec<Happening> {
    let at = ended_at(before, after);
    let mut happenings = Vec::new();
    if after.restarts > before.restarts || (after.restarted_at > before.restarted_at && after.restarts > 0) {
        // The engine forgets the flag when it starts the container again: the facts before may be the only witness.
        let memory = [before, after].iter().any(|facts| facts.containers.iter().any(|c| c.oom_killed));
        let incident = if memory { Incident::DownWithOom } else { Incident::Down };
        happenings.push(Happening { incident, at });
    }
    if after.let_go && !before.let_go {
        happenings.push(Happening { incident: Incident::LetGo, at });
    }
    happenings
}

/// The body that tells about it.
pub fn body(namespace: &str, pod: &PodId, happening: Happening) -> NoticeBody {
    NoticeBody {
        level: "Error".to_owned(),
        namespace: namespace.to_owned(),
        pod_name: pod.group.to_string(),
        instance_no: pod.instance,
        timestamp: happening.at,
        message: happening.incident.text().to_owned(),
    }
}

/// When the container that ended last ended; the time of the report when no engine said so.
fn ended_at(before: &PodFacts, after: &PodFacts) -> Timestamp {
    let ends = [after, before].into_iter().flat_map(|facts| facts.containers.iter().map(|c| c.finished_at));
    ends.filter(|time| time.happened()).max().unwrap_or(after.updated_at)
}

#[cfg(test)]
mod tests {
    use contract::report::ContainerFacts;

    use super::*;

    fn facts(restarts: u32, oom_killed: bool, let_go: bool) -> PodFacts {
        let finished_at = Timestamp::from_millis(7_000);
        PodFacts {
            restarts,
            let_go,
            containers: vec![ContainerFacts { oom_killed, finished_at, ..Default::default() }],
            ..Default::default()
        }
    }
    fn incidents(before: &PodFacts, after: &PodFacts) -> Vec<Incident> {
        between(before, after).into_iter().map(|happening| happening.incident).collect()
    }

    #[test]
    fn a_restart_is_told_once_with_the_end_of_the_container() {
        let happened = between(&facts(0, false, false), &facts(1, false, false));
        assert_eq!(happened, [Happening { incident: Incident::Down, at: Timestamp::from_millis(7_000) }]);
        assert!(between(&facts(1, false, false), &facts(1, false, false)).is_empty());
        assert!(between(&facts(3, false, false), &facts(0, false, false)).is_empty());
    }

    #[test]
    fn memory_is_named_even_when_the_engine_forgot_it() {
        assert_eq!(incidents(&facts(0, true, false), &facts(1, false, false)), [Incident::DownWithOom]);
    }

    #[test]
    fn letting_go_is_told_once() {
        assert_eq!(incidents(&facts(3, false, false), &facts(3, false, true)), [Incident::LetGo]);
        assert!(incidents(&facts(3, false, true), &facts(3, false, true)).is_empty());
    }
}
