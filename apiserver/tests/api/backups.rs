//! Pages of a backup and steps of a restore, as `deployctl` sees them (ours).

use contract::backup::{LARGEST_PART, Step};
use contract::command::Verb;
use contract::keys;
use serde_json::json;

use crate::leader::{Leader, Manner};
use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_follow_each_other_at_one_revision() {
    let world = World::start().await;
    let _leader = Leader::start(&world.bus, Manner::Leads).await;
    let first = world.get("/api/backup").await;
    let entry = |key: &str| json!({"key": key, "text": "{}"});
    let expected = json!({"revision": 7, "schema": 1, "entries": [entry(keys::CALLBACKS)], "next": keys::CALLBACKS});
    assert_eq!((first.status, first.json()), (200, expected));
    let second = world.get(&format!("/api/backup?revision=7&after={}", keys::CALLBACKS)).await;
    let expected = json!({"revision": 7, "schema": 1, "entries": [entry(keys::ENGINE)], "next": null});
    assert_eq!((second.status, second.json()), (200, expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compacted_revision_asks_to_start_over_and_an_invalid_one_is_refused() {
    let world = World::start().await;
    let _leader = Leader::start(&world.bus, Manner::Leads).await;
    let gone = world.get("/api/backup?revision=8").await;
    assert_eq!((gone.status, gone.message().as_str()), (410, "compacted; begin the backup again"));
    for revision in ["0", "-1", "x"] {
        let wrong = world.get(&format!("/api/backup?revision={revision}")).await;
        assert_eq!((wrong.status, wrong.message().as_str()), (400, "revision: must be a number above 0"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_of_a_restore_become_commands_and_the_largest_part_fits() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let restore = || "r-1".parse().unwrap();
    let stage = Step::Stage { restore: restore(), part: 0, text: "\"".repeat(LARGEST_PART) };
    let finish = |replace| Step::Finish { restore: restore(), parts: 1, replace };
    for (step, status) in [(&stage, 202), (&finish(false), 400), (&finish(true), 202)] {
        let seen = world.post("/api/restore", &serde_json::to_string(step).unwrap()).await;
        assert_eq!(seen.status, status, "{}", seen.text);
    }
    assert_eq!(world.call("DELETE", "/api/restore", None).await.status, 202);
    let broken = world.post("/api/restore", "{}").await;
    assert_eq!(broken.status, 400);
    assert!(broken.message().starts_with("the body is no step of a restore"), "{}", broken.text);
    let verbs: Vec<Verb> = leader.stop().await.into_iter().map(|command| command.verb).collect();
    let steps = [stage, finish(false), finish(true), Step::Abort];
    assert_eq!(verbs, steps.map(|step| Verb::Restore { step }));
}
