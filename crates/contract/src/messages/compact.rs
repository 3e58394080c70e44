//! The compact form of orders on the wire: pod specs without fields that have their default value.
//!
//! A reader fills in the default of an absent field, so every version can read it. Specs are most of an order and most
//! of their fields are defaults. Digests, etcd and the API use specs with all fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::delta::Changes;
use crate::order::{Order, OrderDelta, OrderMessage};
use crate::pod_id::SpecKey;
use crate::spec::{ContainerSpec, PodSpec};

type Specs<S> = BTreeMap<SpecKey, S>;

/// Cache of compact specs: a spec is serialised once, however many nodes receive it.
#[derive(Debug, Default)]
pub struct Texts {
    known: Specs<(Arc<PodSpec>, Arc<RawValue>)>,
}

impl Texts {
    /// Size limit of the cache; when it is reached, the cache is cleared.
    const MOST: usize = 4096;

    /// The message in compact form.
    pub fn of(&mut self, message: &OrderMessage) -> Result<Box<RawValue>, serde_json::Error> {
        to_raw_value(&match message.clone() {
            OrderMessage::Whole(order) => {
                let Order { fence, pods, specs, spared, switches, stores, progress, agent, hardening } = order;
                let specs = self.specs(&specs)?;
                OrderMessage::Whole(Order { fence, pods, specs, spared, switches, stores, progress, agent, hardening })
            }
            OrderMessage::Delta(delta) => {
                let OrderDelta {
                    base,
                    fence,
                    pods,
                    specs,
                    spared,
                    switches,
                    stores,
                    digest,
                    progress,
                    agent,
                    hardening,
                } = delta;
                let specs = Changes { put: self.specs(&specs.put)?, gone: specs.gone };
                OrderMessage::Delta(OrderDelta {
                    base,
                    fence,
                    pods,
                    specs,
                    spared,
                    switches,
                    stores,
                    digest,
                    progress,
                    agent,
                    hardening,
                })
            }
        })
    }

    fn specs(&mut self, specs: &Specs<Arc<PodSpec>>) -> Result<Specs<Arc<RawValue>>, serde_json::Error> {
        specs.iter().map(|(key, spec)| Ok((key.clone(), self.spec(key, spec)?))).collect()
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

/// The spec without fields that have their default value; with all fields if a reader would not decode the same spec.
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

/// Removes fields of an object that equal the default.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::check::Check;
    use crate::fence::{Fence, Term};
    use crate::order::Assignment;
    use crate::pod_id::PodId;
    use crate::spec::{CloudVolume, Dependency, HealthConfig, HealthOptions, LogConfig, PrevState};
    use crate::switches::Switches;
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

    /// A spec in which no field has its default value.
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
            health_config: HealthConfig {
                cmd: String::new(),
                options,
                startup: Some(Check { port: 1, ..Check::default() }),
                readiness: None,
                liveness: Some(Check { command: vec![text()], ..Check::default() }),
            },
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
    fn the_compact_form_decodes_to_the_same_message() {
        let mut texts = Texts::default();
        for message in messages().iter().chain(&messages()) {
            let text = texts.of(message).expect("text");
            assert_eq!(serde_json::from_str::<OrderMessage>(text.get()).expect("an order"), *message, "{text}");
        }
    }

    #[test]
    fn only_fields_with_default_values_are_omitted() {
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
    fn the_cache_is_not_used_for_another_spec_under_the_same_key() {
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
