//! What orders say about new containers reaches their creation and changes nothing that exists.

use contract::policy::{Hardening, Level};

use super::bench::{Bench, OrderBuilder, order};
use agent::core::io::Action;

const A: &str = "web.v1-i1-d0";
const B: &str = "web.v1-i2-d0";

fn hardened(mut order: OrderBuilder, level: Level) -> OrderBuilder {
    let hardening = Hardening { level, ..Hardening::default() };
    order.0.hardening.insert("web".parse().expect("a name"), hardening);
    order
}

#[test]
fn no_running_container_is_recreated_for_hardening() {
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).pod(A).whole());
    let created = |actions: Vec<Action>| -> Vec<Option<Level>> {
        let level = |action: Action| match action {
            Action::Create { hardening, .. } => hardening.map(|hardening| hardening.level),
            other => panic!("{other:?}"),
        };
        actions.into_iter().map(level).collect()
    };
    assert_eq!(created(bench.take_actions()), [None]);
    bench.order(hardened(order(1, 2).pod(A), Level::Baseline).whole());
    assert_eq!(created(bench.take_actions()), [], "what runs is left alone");
    bench.order(hardened(order(1, 3).pod(A).pod(B), Level::Restricted).whole());
    assert_eq!(created(bench.take_actions()), [Some(Level::Restricted)]);
    bench.order(order(1, 4).pod(A).pod(B).whole());
    assert_eq!(created(bench.take_actions()), []);
}
