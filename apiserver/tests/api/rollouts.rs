//! Rollouts: commands, queries and their errors.

use contract::command::{Command, Refusal, Removal, RolloutAction, Verb};
use contract::query::{Answer, Query, Reply};
use contract::subjects;
use fabric::nats::{Message, Subscription};
use serde_json::json;

use crate::bodies::spec_with;
use crate::leader::{Leader, Manner};
use crate::world::World;

const GROUP: &str = "/api/podgroups?name=hello.web.web";

/// The usual group, by batches and with a gate.
fn released(name: &str) -> String {
    let fields =
        r#""RestartPolicy":1,"Strategy":{"Type":"Batch","NeedWaitingForConfirm":true},"ReadinessGates":["lb"]"#;
    spec_with("\"RestartPolicy\":1", fields).replace("hello.web.web", name)
}

async fn with_group() -> (World, Leader) {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    for name in ["hello.web.web", "over.web.web"] {
        let created = world.post("/api/podgroups", &released(name)).await;
        assert_eq!(created.status, 202, "{}", created.text);
    }
    (world, leader)
}

/// What arrived after the groups.
async fn verbs(leader: Leader) -> Vec<Verb> {
    leader.stop().await.into_iter().skip(2).map(|Command { verb, .. }| verb).collect()
}

fn rollout(release: Option<u32>, action: RolloutAction) -> Verb {
    Verb::Rollout { name: "hello.web.web".parse().unwrap(), release, action }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollout_commands_reach_the_leader_unchanged() {
    let (world, leader) = with_group().await;
    for said in [
        "pause",
        "resume&release=3",
        "confirm&release=3&group=1",
        "skip&group=1",
        "abort",
        "undo",
        "undo&revision=0&cause=it%20leaks",
        "freeze",
        "unfreeze",
    ] {
        let seen = world.call("PATCH", &format!("{GROUP}&cmd=rollout&action={said}"), None).await;
        assert_eq!(seen.status, 202, "{said}: {}", seen.text);
        let body = seen.json();
        assert_eq!(body["check_url"], "/api/rollouts?name=hello.web.web");
        assert!(body["operation"].is_string() && body["message"] == "Rollout will follow.", "{body}");
    }
    let form = ("application/x-www-form-urlencoded", "cmd=rollout&action=confirm&group=1");
    assert_eq!(world.call("PATCH", GROUP, Some(form)).await.status, 202);
    let undo = |revision, cause: &str| RolloutAction::Undo { revision, cause: cause.to_owned() };
    let expected = [
        rollout(None, RolloutAction::Pause),
        rollout(Some(3), RolloutAction::Resume),
        rollout(Some(3), RolloutAction::Confirm { group: 1 }),
        rollout(None, RolloutAction::Skip { group: 1 }),
        rollout(None, RolloutAction::Abort),
        rollout(None, undo(None, "")),
        rollout(None, undo(Some(0), "it leaks")),
        rollout(None, RolloutAction::Freeze),
        rollout(None, RolloutAction::Unfreeze),
        rollout(None, RolloutAction::Confirm { group: 1 }),
    ];
    assert_eq!(verbs(leader).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flawed_rollout_command_names_the_flaw_and_nothing_is_sent() {
    let (world, leader) = with_group().await;
    let long = format!("rollout&action=undo&cause={}", "x".repeat(1025));
    const ACTIONS: &str = "should be pause, resume, confirm, abort, undo, skip, freeze or unfreeze but ";
    for (said, told) in [
        ("rollout", &format!("action, {ACTIONS}\"\"")[..]),
        ("rollout&action=Pause", &format!("action, {ACTIONS}\"Pause\"")),
        ("rollout&action=confirm", "group, should be a number from 1 but \"\""),
        ("rollout&action=confirm&group=0", "group, should be a number from 1 but \"0\""),
        ("rollout&action=skip&group=first", "group, should be a number from 1 but \"first\""),
        ("rollout&action=skip&group=-1", "group, should be a number from 1 but \"-1\""),
        ("rollout&action=pause&release=x", "release, should be a number from 0 but \"x\""),
        ("rollout&action=pause&release=-1", "release, should be a number from 0 but \"-1\""),
        ("rollout&action=undo&revision=1.5", "revision, should be a number from 0 but \"1.5\""),
        ("rollout&action=abort&group=2", "group, it has no meaning with action=abort; leave it out"),
        ("rollout&action=pause&cause=x", "cause, it has no meaning with action=pause; leave it out"),
        ("rollout&action=confirm&group=1&revision=2", "revision, it has no meaning with action=confirm; leave it out"),
        (&long, "cause, at most 1024 bytes are kept but it has 1025"),
        ("gate", "instance, should be a number from 1 but \"\""),
        ("gate&instance=0&gate=lb&value=true", "instance, should be a number from 1 but \"0\""),
        ("gate&instance=99999999999&gate=lb&value=true", "instance, should be a number from 1 but \"99999999999\""),
        ("gate&instance=1&value=true", "gate, should name a readiness gate of the PodGroup"),
        ("gate&instance=1&gate=lb", "value, should be true or false but \"\""),
        ("gate&instance=1&gate=lb&value=1", "value, should be true or false but \"1\""),
        ("gate&instance=1&gate=lb&value=true&version=v2", "version, should be a number from 0 but \"v2\""),
        ("drained", "instance, should be a number from 1 but \"\""),
        ("drained&instance=all", "instance, should be a number from 1 but \"all\""),
    ] {
        let seen = world.call("PATCH", &format!("{GROUP}&cmd={said}"), None).await;
        assert_eq!((seen.status, seen.message()), (400, format!("Bad parameter for {told}")), "{said}");
        let nameless = world.call("PATCH", &format!("/api/podgroups?cmd={said}"), None).await;
        assert_eq!((nameless.status, nameless.message().as_str()), (400, "No pod group name provided."), "{said}");
    }
    assert_eq!(verbs(leader).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_of_the_leader_has_its_status_and_names_the_current_rollout() {
    let (world, _leader) = with_group().await;
    const OF: &str = "name=hello.web.web&cmd=";
    for (said, status, told) in [
        (format!("{OF}rollout&action=pause&release=2"), 404, "revision 2 is not the current one; revision 3 is"),
        (
            format!("{OF}rollout&action=confirm&group=2"),
            409,
            "batch 1 of the rollout to revision 3 does not wait for confirmation; GET /api/rollouts shows what it waits for",
        ),
        (
            format!("{OF}rollout&action=confirm&group=7"),
            409,
            "batch 7 is not the current batch of the rollout to revision 3; batch 1 is",
        ),
        (
            format!("{OF}rollout&action=skip&group=2"),
            409,
            "batch 2 is not the current batch of the rollout to revision 3; batch 1 is",
        ),
        (format!("{OF}rollout&action=undo&revision=9"), 404, "revision 9 is not in the history; kept are: 1, 2, 3"),
        (
            "name=over.web.web&cmd=rollout&action=abort".to_owned(),
            409,
            "the rollout to revision 3 has ended and cannot be changed",
        ),
        (
            format!("{OF}gate&instance=1&gate=warm&value=true"),
            400,
            "the PodGroup has no readiness gate \"warm\"; it has: lb",
        ),
        (format!("{OF}gate&instance=3&gate=lb&value=true"), 404, "instance 3 not existed, the PodGroup has 2"),
        (format!("{OF}drained&instance=3"), 404, "instance 3 not existed, the PodGroup has 2"),
        ("name=unknown&cmd=rollout&action=pause".to_owned(), 404, "PodGroup not existed"),
        ("name=unknown&cmd=drained&instance=1".to_owned(), 404, "PodGroup not existed"),
        ("name=a%2Fb&cmd=rollout&action=pause".to_owned(), 404, "PodGroup not existed"),
    ] {
        let seen = world.call("PATCH", &format!("/api/podgroups?{said}"), None).await;
        assert_eq!((seen.status, seen.message().as_str()), (status, told), "{said}");
        assert_eq!(seen.json()["data"], seen.json()["message"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_and_drained_commands_reach_the_leader_unchanged() {
    let (world, leader) = with_group().await;
    for said in
        ["gate&instance=2&gate=lb&value=true", "gate&instance=1&gate=lb&value=false&version=3", "drained&instance=2"]
    {
        let seen = world.call("PATCH", &format!("{GROUP}&cmd={said}"), None).await;
        assert_eq!(seen.status, 202, "{said}: {}", seen.text);
        assert_eq!(seen.json()["check_url"], "/api/rollouts?name=hello.web.web");
    }
    let name = || "hello.web.web".parse().unwrap();
    let gate = |instance, is_true, version| {
        let gate = "lb".to_owned();
        Verb::SetGate { name: name(), instance, gate, is_true, version }
    };
    let expected = [gate(2, true, None), gate(1, false, Some(3)), Verb::Drained { name: name(), instance: 2 }];
    assert_eq!(verbs(leader).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strategy_is_changed_field_by_field() {
    let (world, leader) = with_group().await;
    let path = format!("{GROUP}&cmd=strategy");
    // Fields that the new type does not have are reset with null; absent fields would stay and be refused.
    let body = r#"{"strategy":{"type":"RollingUpdate","MaxSurge":"50%","NeedWaitingForConfirm":null},"MinReadySeconds":5,"ReadinessGates":null}"#;
    // With any content type: `curl -d` declares a form.
    for content_type in ["application/json", "application/x-www-form-urlencoded"] {
        let seen = world.call("PATCH", &path, Some((content_type, body))).await;
        assert_eq!((seen.status, seen.message().as_str()), (202, "Strategy will be patched."), "{}", seen.text);
    }
    let shown = world.get(GROUP).await.json();
    assert_eq!(shown["Spec"]["Strategy"], json!({"Type": "RollingUpdate", "MaxSurge": "50%"}));
    assert_eq!(shown["Spec"]["MinReadySeconds"], 5);
    assert!(shown["Spec"].get("ReadinessGates").is_none(), "{shown}");
    let fields = serde_json::from_str(body).unwrap();
    let expected = Verb::PatchStrategy { name: "hello.web.web".parse().unwrap(), fields };
    assert_eq!(verbs(leader).await, [expected.clone(), expected]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strategy_that_cannot_be_is_refused_by_its_fields() {
    let (world, leader) = with_group().await;
    let path = format!("{GROUP}&cmd=strategy");
    for (body, told) in [
        ("", "Bad parameter format for strategy, EOF"),
        ("{", "Bad parameter format for strategy, EOF while parsing"),
        ("[]", "Bad parameter format for strategy, expected a map, found an array"),
        ("{}", "Bad parameter for strategy: body: names no field to change; there are Strategy, Topology, "),
        ("null", "Bad parameter for strategy: body: names no field to change"),
        (r#"{"NumInstances":1,"Pod":{}}"#, "Bad parameter for strategy: NumInstances: cannot be changed here; "),
        (r#"{"Strategy":{"Typ":"Beta"}}"#, "Bad parameter for strategy: Strategy.Typ: is not a field of Strategy; "),
        (r#"{"Strategy":{"Type":"Fast"}}"#, "Bad parameter for strategy: Strategy.Type: unknown variant `Fast`"),
        (r#"{"Strategy":{"Type":"Beta","BatchSize":"4"}}"#, "Bad parameter for strategy: Strategy.BatchSize: \"4\" is"),
    ] {
        let seen = world.call("PATCH", &path, Some(("application/json", body))).await;
        assert!(seen.status == 400 && seen.message().starts_with(told), "{body}: {}", seen.text);
    }
    assert!(
        world
            .call("PATCH", &path, Some(("application/json", r#"{"NumInstances":1,"Pod":{}}"#)))
            .await
            .text
            .contains("; Pod: ")
    );
    // What depends on the rest of the group only the leader can tell.
    let unlooked = r#"{"Strategy":{"Type":"Recreate","BatchSize":4}}"#;
    let seen = world.call("PATCH", &path, Some(("application/json", unlooked))).await;
    assert!(
        seen.status == 400 && seen.message().contains("Strategy.BatchSize: only has a meaning with"),
        "{}",
        seen.text
    );
    let unknown = world.call("PATCH", "/api/podgroups?name=b&cmd=strategy", Some(("text/plain", unlooked))).await;
    assert_eq!((unknown.status, unknown.message().as_str()), (404, "PodGroup not existed"));
    assert_eq!(verbs(leader).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_whose_release_fields_are_wrong_is_refused_with_every_one_of_them() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let with = |fields: &str| spec_with("\"RestartPolicy\":1", fields);
    let seen = world
        .post(
            "/api/podgroups",
            &with(
                r#""Strategy":{"Type":"RollingUpdate","MaxSurge":0,"MaxUnavailable":"0%","BatchSiz":1},"Unheard":1,
                "Topology":{"UnitType":"Zone","Values":["a","a"],"UnitReplicas":{"b":1}},"MinReadySeconds":600"#,
            ),
        )
        .await;
    assert_eq!(seen.status, 400);
    let told = seen.message();
    assert!(told.starts_with("Missing paremeters for PodGroupSpec: Strategy.BatchSiz: is not a field of "), "{told}");
    for flaw in [
        "Strategy.MaxUnavailable: must not be 0",
        "Topology.Values[1]: names \"a\" a second time",
        "Topology.UnitReplicas.b: is not one of Values",
        "ProgressDeadlineSeconds: must be more than MinReadySeconds",
    ] {
        assert!(told.contains(flaw), "{flaw}: {told}");
    }
    assert!(!told.contains("Unheard"), "beside the release fields, what is unknown is ignored as ever: {told}");
    let unread = world.post("/api/podgroups", &with(r#""Strategy":{"MaxSurge":"10"}"#)).await;
    let reason =
        "Invalid PodGroupSpec params format: Strategy.MaxSurge: \"10\" is not a percentage: digits and one % are";
    assert_eq!((unread.status, unread.message().as_str()), (400, reason));
    assert_eq!(leader.stop().await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spec_change_carries_its_cause_and_a_removal_its_mode() {
    let (world, leader) = with_group().await;
    let pod = r#"{"Name":"hello.web.web","Namespace":"hello","Containers":[{"Image":"registry/hello:2"}]}"#;
    let cause = "x".repeat(1024);
    for (cause, status) in [("ticket%207", 202), (cause.as_str(), 202), (&format!("{cause}x"), 400)] {
        let path = format!("{GROUP}&cmd=spec&cause={cause}");
        assert_eq!(world.call("PATCH", &path, Some(("application/json", pod))).await.status, status);
    }
    let wrong = world.call("DELETE", &format!("{GROUP}&mode=Orphan"), None).await;
    let told = "Bad parameter for mode, should be foreground, background or orphan but \"Orphan\"";
    assert_eq!((wrong.status, wrong.message().as_str()), (400, told));
    assert_eq!(world.call("DELETE", "/api/podgroups?mode=x", None).await.message(), "No pod group name provided.");
    for (name, mode) in [("hello.web.web", "orphan"), ("over.web.web", "background")] {
        let seen = world.call("DELETE", &format!("/api/podgroups?name={name}&mode={mode}"), None).await;
        assert_eq!(seen.status, 202, "{}", seen.text);
        assert_eq!(seen.message(), "PodGroupSpec will be deleted from the orc engine.");
    }
    assert_eq!(world.post("/api/podgroups", &released("hello.web.web")).await.status, 202);
    assert_eq!(world.call("DELETE", &format!("{GROUP}&mode=foreground"), None).await.status, 202);
    let verbs = verbs(leader).await;
    let causes =
        verbs.iter().filter_map(|verb| if let Verb::PatchSpec { cause, .. } = verb { Some(cause) } else { None });
    assert_eq!(causes.collect::<Vec<_>>(), ["ticket 7", &cause]);
    let modes =
        verbs.iter().filter_map(|verb| if let Verb::RemoveGroup { removal, .. } = verb { Some(removal) } else { None });
    assert_eq!(modes.collect::<Vec<_>>(), [&Removal::Orphan, &Removal::Background, &Removal::Foreground]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_of_a_rollout_and_the_kept_revisions_are_answered() {
    let (world, leader) = with_group().await;
    let rollout = world.get("/api/rollouts?name=hello.web.web").await;
    let body = rollout.json();
    assert_eq!((rollout.status, rollout.stale), (200, false));
    assert_eq!((&body["Release"], &body["Status"]), (&json!(3), &json!("WaitingForConfirm")));
    assert_eq!(body["Stand"], body["Status"], "the old name, for one version");
    assert_eq!(body["Instances"][0]["Pods"][0]["Gates"], json!({"lb": true}));
    let revisions = world.get("/api/revisions?name=hello.web.web").await.json();
    assert_eq!((&revisions["Current"], &revisions["Revisions"][0]["By"]), (&json!(3), &json!("api-1")));
    assert_eq!(revisions["Revisions"][0]["Pod"]["Containers"][0]["Image"], "registry/hello:1");
    for path in ["/api/rollouts", "/api/revisions"] {
        for (query, status, told) in [
            ("", 400, "No pod group name provided."),
            ("?name=", 400, "No pod group name provided."),
            ("?name=unknown", 404, "PodGroup not existed"),
            ("?name=a%2Fb", 404, "PodGroup not existed"),
        ] {
            let seen = world.get(&format!("{path}{query}")).await;
            assert_eq!((seen.status, seen.message().as_str()), (status, told), "{path}{query}");
        }
    }
    assert_eq!(verbs(leader).await, [], "a query changes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_is_answered_and_refused_like_the_change_itself() {
    let (world, leader) = with_group().await;
    let path = "/api/podgroups/plan";
    let known = world.post(path, &released("hello.web.web")).await;
    assert_eq!((known.status, &known.json()["IsNew"], &known.json()["Release"]), (200, &json!(false), &json!(4)));
    assert_eq!(known.json()["Changes"], json!({"1": "Recreated"}));
    assert_eq!(known.json()["Fates"], known.json()["Changes"], "the old name, for one version");
    let new = world.call("POST", path, Some(("application/x-www-form-urlencoded", &released("new.web.web")))).await;
    assert_eq!((new.status, &new.json()["IsNew"]), (200, &json!(true)));
    let many = format!("\"Dependencies\":[{}{{}}],\"Annotation\"", "{},".repeat(80_000));
    let large = spec_with("\"Annotation\"", &many);
    for (body, status, told) in [
        (released("removing.a.b"), 500, "PodGroup is removing, need to wait for that"),
        (released("unfit.a.b"), 400, "InPlaceOnly, but Pod.Containers[0].Env changes"),
        (String::new(), 400, "Invalid PodGroupSpec params format: EOF"),
        (
            released("a").replace("Batch", "Serial"),
            400,
            "Missing paremeters for PodGroupSpec: Strategy.NeedWaitingForConfirm: ",
        ),
        (large, 400, "Missing paremeters for PodGroupSpec: Pod.Dependencies: 80001 are too many"),
    ] {
        let seen = world.post(path, &body).await;
        assert_eq!(seen.status, status, "{}", seen.text);
        assert!(seen.message().starts_with(told), "{}", seen.text);
    }
    assert_eq!(verbs(leader).await, [], "a plan changes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_read_only_on_rollouts_can_still_be_read_and_planned() {
    let (world, _leader) = with_group().await;
    let on = world.call("PATCH", "/api/engine/maintenance?on=true", None).await;
    assert_eq!(on.status, 200);
    assert_eq!(world.call("PATCH", &format!("{GROUP}&cmd=rollout&action=pause"), None).await.status, 403);
    assert_eq!(world.get("/api/rollouts?name=hello.web.web").await.status, 200);
    assert_eq!(world.post("/api/podgroups/plan", &released("new.web.web")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_leader_the_answer_of_a_standby_is_marked() {
    let world = World::start_with(&["--query-deadline", "200ms"]).await;
    let _standby = Leader::start(&world.bus, Manner::StandsBy).await;
    for path in ["/api/rollouts?name=a", "/api/revisions?name=a"] {
        let seen = world.get(path).await;
        assert_eq!((seen.status, seen.stale), (404, true), "{path}: {}", seen.text);
    }
    let planned = world.post("/api/podgroups/plan", &released("new.web.web")).await;
    assert_eq!(planned.status, 503, "standbys compute no plans: {}", planned.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_is_requested_of_the_leader_once_and_of_no_standby() {
    let world = World::start_with(&["--query-deadline", "2500ms"]).await;
    let mut leader = world.bus.subscribe(subjects::QUERY_LEADER).await.unwrap();
    let mut standby = world.bus.subscribe(subjects::QUERY_STANDBY).await.unwrap();
    let planned = world.post("/api/podgroups/plan", &released("new.web.web")).await;
    assert_eq!(planned.status, 503, "{}", planned.text);
    // Both subjects arrive in order, so earlier queries precede this mark.
    for subject in [subjects::QUERY_LEADER, subjects::QUERY_STANDBY] {
        world.bus.publish(subject, &Query::Cluster).await.unwrap();
    }
    let Query::Plan { within_millis, .. } = next(&mut leader).await.1 else { panic!("no plan") };
    assert_eq!(within_millis, Some(2_500));
    for questions in [&mut leader, &mut standby] {
        assert_eq!(next(questions).await.1, Query::Cluster);
    }
}

/// The next query. The apiserver asks for the switches, and then for the tokens, whatever its clients do.
async fn next(questions: &mut Subscription) -> (Message, Query) {
    loop {
        let question = questions.next().await.unwrap();
        match question.decode().unwrap() {
            Query::Engine | Query::Access { .. } => {}
            query => return (question, query),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_with_too_many_plans_causes_a_503_with_retry_after() {
    let world = World::start().await;
    let mut leader = world.bus.subscribe(subjects::QUERY_LEADER).await.unwrap();
    let answer = async {
        let (question, _) = next(&mut leader).await;
        let refusal = Refusal::Unfit { reason: "the scheduler computes other plans".to_owned() };
        let reply = Reply { retry_after: Some(7), ..Reply::new(false, Answer::Plan(Err(refusal))) };
        world.bus.answer(&question.reply.unwrap(), &reply).await.unwrap();
    };
    let body = released("new.web.web");
    let (planned, ()) = tokio::join!(world.post("/api/podgroups/plan", &body), answer);
    assert_eq!((planned.status, planned.retry_after), (503, true), "{}", planned.text);
    assert_eq!(planned.message(), "the scheduler computes other plans");
}
