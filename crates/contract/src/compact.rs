//! Orders as they travel: a spec without what is as it is by default anyway, written once however many nodes it goes to.
//!
//! Every field of a spec may be absent ([`crate::spec`]), and a reader puts the default there, so every version reads it. Most
//! fields of most specs are defaults, and specs are most of what an order says. What is digested, stored and shown stays the
//! spec with all its fields.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::digest::Digest;
use crate::fence::Fence;
use crate::name::GroupName;
use crate::order::{Assignment, Order, OrderDelta, OrderMessage};
use crate::pod_id::{PodId, SpecKey};
use crate::progress::Progress;
use crate::spec::{ContainerSpec, PodSpec};
use crate::store::Stores;
use crate::switches::Switches;

/// Specs lately sent, as text.
#[derive(Debug, Default)]
pub struct Texts {
    known: BTreeMap<SpecKey, (Arc<PodSpec>, Arc<RawValue>)>,
}

impl Texts {
    /// So many are remembered; then all are forgotten.
    const MOST: usize = 4096;

    /// The message as it travels.
    pub fn of(&mut self, message: &OrderMessage) -> Result<Box<RawValue>, serde_json::Error> {
        to_raw_value(&match message {
            OrderMessage::Whole(order) => {
                let Order { fence, pods, specs, spared, switches, stores, progress, agent } = order;
                let specs = self.specs(specs)?;
                Wire::Whole(Whole { fence: *fence, pods, specs, spared, switches: *switches, stores, progress, agent })
            }
            OrderMessage::Delta(delta) => {
                let OrderDelta { base, fence, pods, specs, spared, switches, stores, digest, progress, agent } = delta;
                Wire::Delta(Delta {
                    base: *base,
                    fence: *fence,
                    pods: Changed { put: Some(&pods.put).filter(|put| !put.is_empty()), gone: &pods.gone },
                    specs: Changed {
                        put: Some(self.specs(&specs.put)?).filter(|put| !put.is_empty()),
                        gone: &specs.gone,
                    },
                    spared,
                    switches: *switches,
                    stores,
                    digest: *digest,
                    progress,
                    agent,
                })
            }
        })
    }

    fn specs<'a>(&mut self, specs: &'a BTreeMap<SpecKey, Arc<PodSpec>>) -> Result<Specs<'a>, serde_json::Error> {
        specs.iter().map(|(key, spec)| Ok((key, self.spec(key, spec)?))).collect()
    }

    fn spec(&mut self, key: &SpecKey, spec: &Arc<PodSpec>) -> Result<Arc<RawValue>, serde_json::Error> {
        if let Some((_, text)) = self.known.get(key).filter(|(known, _)| Arc::ptr_eq(known, spec)) {
            return Ok(Arc::clone(text));
        }
        if self.known.len() >= Self::MOST {
            self.known.clear();
        }
        let text: Arc<RawValue> = text(spec)?.into();
        self.known.insert(key.clone(), (Arc::clone(spec), Arc::clone(&text)));
        Ok(text)
    }
}

/// The spec without its defaults; with them where a reader would not make the same of it.
pub(crate) fn text(spec: &PodSpec) -> Result<Box<RawValue>, serde_json::Error> {
    let (mut value, container) = (serde_json::to_value(spec)?, serde_json::to_value(ContainerSpec::default())?);
    if let Some(containers) = value.get_mut("Containers").and_then(Value::as_array_mut) {
        containers.iter_mut().for_each(|value| thin(value, &container));
    }
    thin(&mut value, &serde_json::to_value(PodSpec::default())?);
    let text = to_raw_value(&value)?;
    let is_same = serde_json::from_str::<PodSpec>(text.get()).is_ok_and(|read| read == *spec);
    if is_same { Ok(text) } else { to_raw_value(spec) }
}

/// Takes out of an object what its default has too.
fn thin(value: &mut Value, default: &Value) {
    let (Some(fields), Some(defaults)) = (value.as_object_mut(), default.as_object()) else { return };
    fields.retain(|name, value| {
        let default = defaults.get(name);
        if let Some(default) = default.filter(|default| *value != **default) {
            thin(value, default);
        }
        default != Some(value)
    });
}

type Specs<'a> = BTreeMap<&'a SpecKey, Arc<RawValue>>;

/// As [`OrderMessage`].
#[derive(Serialize)]
enum Wire<'a> {
    Whole(Whole<'a>),
    Delta(Delta<'a>),
}

/// As [`Order`].
#[derive(Serialize)]
struct Whole<'a> {
    fence: Fence,
    pods: &'a BTreeMap<PodId, Assignment>,
    specs: Specs<'a>,
    #[serde(skip_serializing_if = "is_none")]
    spared: &'a BTreeSet<GroupName>,
    #[serde(rename = "brakes", skip_serializing_if = "Switches::are_off")]
    switches: Switches,
    #[serde(skip_serializing_if = "is_none")]
    stores: &'a Stores,
    #[serde(skip_serializing_if = "Progress::is_unknown")]
    progress: &'a Progress,
    #[serde(skip_serializing_if = "str::is_empty")]
    agent: &'a str,
}

/// As [`OrderDelta`].
#[derive(Serialize)]
struct Delta<'a> {
    base: Fence,
    fence: Fence,
    pods: Changed<'a, &'a BTreeMap<PodId, Assignment>, PodId>,
    specs: Changed<'a, Specs<'a>, SpecKey>,
    #[serde(skip_serializing_if = "is_none")]
    spared: &'a BTreeSet<GroupName>,
    #[serde(rename = "brakes", skip_serializing_if = "Switches::are_off")]
    switches: Switches,
    #[serde(skip_serializing_if = "is_none")]
    stores: &'a Stores,
    digest: Digest,
    #[serde(skip_serializing_if = "Progress::is_unknown")]
    progress: &'a Progress,
    #[serde(skip_serializing_if = "str::is_empty")]
    agent: &'a str,
}

/// As [`crate::delta::Changes`].
#[derive(Serialize)]
struct Changed<'a, P, K> {
    #[serde(skip_serializing_if = "Option::is_none")]
    put: Option<P>,
    #[serde(skip_serializing_if = "is_none")]
    gone: &'a BTreeSet<K>,
}

fn is_none<K>(set: &&BTreeSet<K>) -> bool {
    set.is_empty()
}

#[cfg(test)]
mod tests {
    use crate::fence::Term;
    use crate::spec::{CloudVolume, Dependency, HealthConfig, HealthOptions, LogConfig, PrevState};
    use crate::time::Timestamp;

    use super::*;

    fn key(text: &str) -> SpecKey {
        text.parse().expect("a key")
    }

    fn pods(text: &str) -> BTreeMap<PodId, Assignment> {
        BTreeMap::from([(text.parse().expect("a pod"), Assignment { starts_requested: 2, ..Assignment::default() })])
    }

    fn plain() -> PodSpec {
        let container = ContainerSpec { image: "demo:1".to_owned(), memory_limit: 64, ..ContainerSpec::default() };
        PodSpec { name: "a".to_owned(), version: 1, containers: vec![container], ..PodSpec::default() }
    }

    /// Nothing in it is as by default.
    fn full() -> PodSpec {
        let text = || "x".to_owned();
        let time = Timestamp::from_millis(5_000);
        let container = ContainerSpec {
            name: text(),
            namespace: text(),
            version: 3,
            created_at: time,
            updated_at: time,
            image: text(),
            env: vec![text()],
            user: text(),
            working_dir: text(),
            dns_search: vec![text()],
            volumes: vec![text()],
            system_volumes: vec![text()],
            cloud_volumes: vec![CloudVolume { kind: text(), dirs: Vec::new() }],
            command: vec![text()],
            entrypoint: Some(Vec::new()),
            cpu_limit: 2,
            memory_limit: 3,
            expose: 4,
            log_config: LogConfig { kind: String::new(), config: BTreeMap::from([("Type".to_owned(), String::new())]) },
        };
        let options = HealthOptions { interval: 0, timeout: 5, retries: 0 };
        PodSpec {
            name: text(),
            namespace: text(),
            version: 3,
            created_at: time,
            updated_at: time,
            network: text(),
            containers: vec![ContainerSpec::default(), container],
            filters: vec![text()],
            labels: BTreeMap::from([("Name".to_owned(), String::new())]),
            dependencies: vec![Dependency::default()],
            annotation: text(),
            stateful: true,
            setup_time: 1,
            kill_timeout: 2,
            prev_state: PrevState { node_name: String::new(), ips: vec![text()] },
            health_config: HealthConfig { cmd: String::new(), options },
        }
    }

    fn messages() -> Vec<OrderMessage> {
        let specs = BTreeMap::from([(key("a.v1"), Arc::new(plain())), (key("b.v3"), Arc::new(full()))]);
        let fence = Fence { term: Term(3), generation: 4 };
        let whole = Order { fence, pods: pods("a.v1-i1-d0"), specs, ..Order::default() };
        let spared = BTreeSet::from(["c".parse().expect("a name")]);
        let switches = Switches { hold_missing: true, ..Switches::default() };
        let braked = Order { spared, switches, agent: "disk".to_owned(), ..whole.clone() };
        vec![
            OrderMessage::Delta(whole.since(&Order::default())),
            OrderMessage::Delta(Order::default().since(&whole)),
            OrderMessage::Delta(braked.since(&whole)),
            OrderMessage::Whole(whole),
            OrderMessage::Whole(braked),
        ]
    }

    #[test]
    fn whatever_is_sent_is_read_as_it_was_meant() {
        let mut texts = Texts::default();
        for message in messages().iter().chain(&messages()) {
            let text = texts.of(message).expect("text");
            assert_eq!(serde_json::from_str::<OrderMessage>(text.get()).expect("an order"), *message, "{text}");
        }
    }

    #[test]
    fn a_default_is_not_said_and_everything_else_is() {
        assert_eq!(
            text(&plain()).expect("text").get(),
            r#"{"Containers":[{"Image":"demo:1","MemoryLimit":64}],"Name":"a","Version":1}"#
        );
        let written = serde_json::to_value(full()).expect("a value");
        let sent: Value = serde_json::from_str(text(&full()).expect("text").get()).expect("a value");
        let fields = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(fields(&sent), fields(&written));
    }

    #[test]
    fn another_spec_under_the_same_name_is_written_anew() {
        let mut texts = Texts::default();
        let order = |spec: PodSpec| {
            OrderMessage::Whole(Order { specs: BTreeMap::from([(key("a.v1"), Arc::new(spec))]), ..Order::default() })
        };
        let first = texts.of(&order(plain())).expect("text");
        let other = order(PodSpec { stateful: true, ..plain() });
        assert_ne!(texts.of(&other).expect("text").get(), first.get());
        assert_eq!(
            serde_json::from_str::<OrderMessage>(texts.of(&other).expect("text").get()).expect("an order"),
            other
        );
    }
}
