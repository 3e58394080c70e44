//! Docker's clock may differ from the agent's: a restart is still done exactly once.

use super::bench::{Bench, at, order, secs};
use agent::core::io::{Action, Effect, Input};

const A: &str = "a.v1-i1-d0";

/// Performs effects until Docker has restarted a container, and drops the result.
fn until_started(bench: &mut Bench, effects: Vec<Effect>) {
    let mut queue: std::collections::VecDeque<Effect> = effects.into();
    while let Some(effect) = queue.pop_front() {
        let starts = matches!(&effect, Effect::Perform { action: Action::Start { .. }, .. });
        let input = bench.perform(effect);
        if starts {
            return;
        }
        queue.extend(input.map(|input| bench.feed(input)).unwrap_or_default());
    }
    panic!("nothing was started");
}

#[test]
fn a_restart_is_not_repeated_when_the_agents_clock_is_ahead() {
    let mut bench = Bench::new().start();
    bench.order(order(1, 1).pod(A).whole());
    bench.pass(secs(3600));
    // By Docker's clock hardly any time has passed.
    let message = order(1, 2).pod(A).asked(0, 1).whole();
    let effects = bench.feed(Input::Order { message, reply: "r".to_owned() });
    until_started(&mut bench, effects);
    bench.engine.containers.get_mut("m1").expect("made").started_at = at(20);
    bench.take_actions();
    bench.restart("run-2");
    bench.pass(secs(100));
    assert_eq!(bench.take_actions(), []);
    assert_eq!((bench.reported(A).restarts_done, bench.reported(A).restarts), (1, 1));
}
