//! The next command of a user: every kind, about few groups, nodes and dependency pods, so that commands conflict.

use contract::command::{Act, Drift, Verb};
use contract::name::{GroupName, NodeName};
use contract::state::RestartPolicy;
use contract::time::Timestamp;
use testkit::random::Random;

use crate::workload::specs;

pub fn verb(name: GroupName, nodes: usize, at: Timestamp, random: &mut Random) -> Verb {
    let url = format!("http://callback.example/{}", random.below(2));
    match random.below(100) {
        0..12 => Verb::CreateGroup { spec: specs::group(&name, at, random) },
        12..26 => {
            let restart_policy = random.chance(20).then_some(RestartPolicy::OnFail);
            Verb::Replica { name, num_instances: u32::try_from(random.below(6)).unwrap_or(1), restart_policy }
        }
        26..32 => Verb::RemoveGroup { name, removal: Default::default() },
        32..52 => Verb::PatchSpec { pod: Box::new(specs::pod(&name, 25, random)), name, cause: String::new() },
        52..68 => {
            let act = *random.pick(&[Act::Start, Act::Stop, Act::Restart, Act::Restart]).unwrap_or(&Act::Restart);
            Verb::Operate { name, act, instance: u32::try_from(random.below(4)).unwrap_or(0) }
        }
        68..78 => drift(name, nodes, random),
        78..81 => Verb::Evacuate { node: node(nodes, random) },
        81..94 => about_dependency(random),
        94..97 => Verb::AddCallback { url },
        _ => Verb::RemoveCallback { url },
    }
}

fn node(nodes: usize, random: &mut Random) -> NodeName {
    format!("n{}", random.index(nodes)).parse().expect("a letter and a digit are a name")
}

pub fn drift(name: GroupName, nodes: usize, random: &mut Random) -> Verb {
    let drift = Drift {
        from: node(nodes, random),
        to: random.chance(40).then(|| node(nodes, random)),
        force: random.chance(50),
        instance: random.chance(25).then(|| u32::try_from(random.between(1, 3)).unwrap_or(1)),
    };
    Verb::Drift { drift, group: random.chance(60).then_some(name) }
}

fn about_dependency(random: &mut Random) -> Verb {
    let names = specs::dependency_names();
    let name = names[random.index(names.len())].clone();
    match random.below(10) {
        0..4 => Verb::CreateDependency { pod: specs::dependency(&name, random) },
        4..8 => Verb::UpdateDependency { pod: specs::dependency(&name, random) },
        _ => Verb::RemoveDependency { name, force: random.chance(40) },
    }
}
