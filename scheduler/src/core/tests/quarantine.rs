//! One object whose reconcile panics, or whose records the store refuses, is quarantined; everything else is reconciled.

use contract::event::Kind;
use contract::report::PodFacts;
use contract::state::HealthState;

use super::*;
use crate::core::io::Mutant;

const FIRST: &str = "sound.v0-i1-d0";

/// A leader that panics when it reconciles a group called `panic…`.
fn fragile() -> Rig {
    rig_with(Settings { mutant: Some(Mutant::PanicsOnPurpose), ..Settings::default() }, &["a", "b"])
}

impl Rig {
    fn quarantine_events(&self) -> Vec<String> {
        let told = self.events.iter().filter(|event| event.kind == Kind::Quarantined);
        told.map(|event| event.message.clone()).collect()
    }
}

#[test]
fn the_largest_setup_time_with_a_failing_health_check_stops_nothing() {
    let mut rig = rig(&["a"]);
    let mut large = spec("sound", 1);
    large.pod.setup_time = i64::MAX;
    assert_eq!(rig.command("large", Verb::CreateGroup { spec: Box::new(large) }), "Accepted");
    let container = ContainerFacts { running: true, ip: "10.0.0.2".to_owned(), ..Default::default() };
    let facts = PodFacts {
        state: RunState::Success,
        health: HealthState::Unhealthy,
        containers: vec![container],
        ..Default::default()
    };
    rig.agents.get_mut(&node("a")).expect("an agent").facts.insert(FIRST.to_owned(), facts);
    rig.report("a");
    assert_eq!(rig.command("other", create("other", 1)), "Accepted");
    assert_eq!(rig.pods("a").len(), 2);
}
