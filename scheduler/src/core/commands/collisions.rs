//! Keeps apart what dependency pods and users name. The dependency pod D for namespace N on node M is called `D-M-N` and has the
//! network `D_N`, because clients rely on these names. A namespace `D_N` would share the network with it, and a group `D-M-N` would
//! keep it from starting.

use contract::command::Refusal;
use contract::name::GroupName;
use contract::spec::PodGroupSpec;

use super::admission::Admission;
use super::policies;

impl Admission<'_> {
    /// Refuses a new group whose name or namespace is one that a dependency pod may use. A namespace that exists is left alone.
    pub(super) fn apart_from_dependencies(&self, spec: &PodGroupSpec) -> Result<(), Refusal> {
        let namespace = spec.namespace.as_str();
        let is_new = || !self.state.groups.values().any(|group| group.record.spec.namespace == namespace);
        for dependency in self.state.dependencies.names() {
            if is_inside(namespace, dependency) && is_new() {
                return Err(unfit(format!(
                    "the namespace {namespace} would share a network of the dependency pod {dependency}; choose a name that does \
                     not begin with {dependency}_"
                )));
            }
            if self.is_pod_of(&spec.name, dependency) {
                return Err(unfit(format!(
                    "the name {} belongs to the dependency pod {dependency}: NAME-NODE-NAMESPACE; choose another",
                    spec.name
                )));
            }
        }
        Ok(())
    }

    /// Refuses a new dependency pod whose networks may be those of a namespace, or of another dependency pod.
    pub(super) fn apart_from_namespaces(&self, name: &GroupName) -> Result<(), Refusal> {
        let namespaces = policies::namespaces_in_use(self.state);
        let mut others = self.state.dependencies.names();
        let other = others.find(|other| is_inside(other.as_str(), name) || is_inside(name.as_str(), other));
        let shared = namespaces.iter().find(|namespace| is_inside(namespace, name)).map(String::as_str);
        match shared.or_else(|| other.map(GroupName::as_str)) {
            Some(shared) => Err(unfit(format!(
                "the dependency pod {name} and {shared} could share a network, because its networks begin with {name}_; choose \
                 another name"
            ))),
            None => Ok(()),
        }
    }

    fn is_pod_of(&self, name: &str, dependency: &GroupName) -> bool {
        let place = name.strip_prefix(dependency.as_str()).and_then(|rest| rest.strip_prefix('-'));
        let begins_with = |place: &str, node: &str| place.strip_prefix(node).is_some_and(|rest| rest.starts_with('-'));
        place.is_some_and(|place| self.state.nodes.keys().any(|node| begins_with(place, node.as_str())))
    }
}

/// Whether a network of the dependency pod may have this name.
fn is_inside(name: &str, dependency: &GroupName) -> bool {
    name.strip_prefix(dependency.as_str()).is_some_and(|rest| rest.starts_with('_'))
}

fn unfit(reason: String) -> Refusal {
    Refusal::Unfit { reason }
}
