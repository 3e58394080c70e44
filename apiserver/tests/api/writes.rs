//! Changes: 1.3 POST, DELETE, PATCH, and 1.9.

use contract::command::Verb;
use contract::state::RestartPolicy;
use serde_json::json;

use crate::bodies::spec_with;
use crate::leader::{Leader, Manner};
use crate::world::{World, seen};

/// What console really sends: nulls, misspelt times, one container.
const CONSOLE: &str = r#"{"Name":"resource.res.client.web.web_canary","Namespace":"resource.res.client","CreateAt":null,
    "UpdateAt":null,"NumInstances":1,"RestartPolicy":1,"Pod":{"Name":"resource.res.client.web.web_canary",
    "Namespace":"resource.res.client","CreateAt":null,"UpdateAt":null,"Containers":[{"Image":"registry.lain.local/a:b",
    "Env":["TZ=Asia/Shanghai","LAIN_APPNAME=a","LAIN_PROCNAME=web"],"User":"","WorkingDir":"","DnsSearch":[],
    "Volumes":["/lain/logs"],"SystemVolumes":["/etc/localtime:/etc/localtime:ro"],"CloudVolumes":[],"Command":null,
    "Entrypoint":null,"CpuLimit":0,"MemoryLimit":33554432,"Expose":8080,"LogConfig":null}],
    "Filters":["constraint:group==default"],"Labels":{},"Dependencies":[{"PodName":"a.portal.portal-b","Policy":0}],
    "Annotation":"{\"mountpoint\": [\"a.lain.local\"], \"logs\": []}","Stateful":false,"SetupTime":0,"KillTimeout":10,
    "HealthConfig":{}}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_have_the_contracts_answers() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(world.post("/api/podgroups", CONSOLE).await.status, 202);
    let name = "hello.web.web";
    let created = world.post("/api/podgroups", &spec_with(name, name)).await;
    let body = created.json();
    assert_eq!((created.status, body["message"].as_str()), (202, Some("PodGroupSpec added into the orc engine.")));
    assert_eq!(body["check_url"], format!("/api/podgroups?name={name}"));
    assert!(body["operation"].is_string() && body.get("queued").is_none());
    let again = world.post("/api/podgroups", &spec_with(name, name)).await;
    assert_eq!((again.status, again.message().as_str()), (405, "PodGroup has already existed"));
    let removing = world.post("/api/podgroups", &spec_with(name, "removing.a.b")).await;
    assert_eq!((removing.status, removing.message().as_str()), (500, "PodGroup is removing, need to wait for that"));
    let limit = world.post("/api/podgroups", &spec_with(name, "limit.a.b")).await;
    assert_eq!((limit.status, limit.message().as_str()), (400, "the number of groups would pass the limit of 1"));

    const LOCKED: &str = "Another operation \"Scheduling\" is progressing";
    const PATCHED: &str = "PodGroupSpec will be patched and rescheduled.";
    const NUMBER: &str = "Bad parameter for num_instances, should be > 0 but -1";
    for (method, query, status, message) in [
        ("PATCH", "cmd=replica&num_instances=3", 400, "No pod group name provided."),
        ("PATCH", "name=hello.web.web", 400, "Unknown command cmd=\"\": supported is \"replica\""),
        ("PATCH", "name=hello.web.web&cmd=spec", 400, "Unknown command cmd=\"spec\": supported is \"replica\""),
        (
            "PATCH",
            "name=hello.web.web&cmd=operation&optype=stop",
            400,
            "Unknown command cmd=\"operation\": supported is \"replica\"",
        ),
        ("PATCH", "name=hello.web.web&cmd=replica", 400, NUMBER),
        ("PATCH", "name=hello.web.web&cmd=replica&num_instances=many", 400, NUMBER),
        ("PATCH", "name=hello.web.web&cmd=replica&num_instances=-1", 400, NUMBER),
        (
            "PATCH",
            "name=hello.web.web&cmd=replica&num_instances=5001",
            400,
            "Bad parameter for num_instances, at most 5000 are allowed but 5001",
        ),
        (
            "PATCH",
            "name=hello.web.web&cmd=replica&num_instances=9999999999",
            400,
            "Bad parameter for num_instances, at most 5000 are allowed but 9999999999",
        ),
        (
            "PATCH",
            "name=hello.web.web&cmd=replica&num_instances=1&restart_policy=often",
            400,
            "Bad parameter for restart_policy, should be never, always or onfail but \"often\"",
        ),
        ("PATCH", "name=unknown&cmd=replica&num_instances=1", 404, "PodGroup not existed"),
        ("PATCH", "name=locked&cmd=replica&num_instances=1", 423, LOCKED),
        ("PATCH", "name=hello.web.web&cmd=replica&num_instances=0", 202, PATCHED),
        ("PATCH", "name=hello.web.web&cmd=replica&num_instances=2&restart_policy=onfail", 202, PATCHED),
        ("DELETE", "", 400, "No pod group name provided."),
        ("DELETE", "name=unknown", 404, "PodGroup not existed"),
        ("DELETE", "name=locked", 423, LOCKED),
        ("DELETE", "name=hello.web.web", 202, "PodGroupSpec will be deleted from the orc engine."),
    ] {
        let seen = world.call(method, &format!("/api/podgroups?{query}"), None).await;
        assert_eq!((seen.status, seen.message().as_str()), (status, message), "{method} {query}");
    }
    let gone = world.get("/api/podgroups?name=hello.web.web").await;
    assert_eq!((gone.status, gone.message().as_str()), (404, "No such pod group name=hello.web.web"));
    let policies: Vec<_> = leader
        .stop()
        .await
        .into_iter()
        .filter_map(|command| match command.verb {
            Verb::Replica { num_instances, restart_policy, .. } => Some((num_instances, restart_policy)),
            Verb::CreateGroup { .. }
            | Verb::RemoveGroup { .. }
            | Verb::AddCallback { .. }
            | Verb::RemoveCallback { .. }
            | Verb::Configure { .. }
            | Verb::RunEngine { .. }
            | Verb::Guard { .. }
            | Verb::SetConstraint { .. }
            | Verb::RemoveConstraint { .. } => None,
        })
        .collect();
    assert_eq!(policies, [(1, None), (1, None), (0, None), (2, Some(RestartPolicy::OnFail))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_may_come_as_a_form_and_win_over_the_query() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(world.post("/api/podgroups", &spec_with(":2,", ":1,")).await.status, 202);
    let form = ("application/x-www-form-urlencoded", "num_instances=4&cmd=replica");
    let patched = world.call("PATCH", "/api/podgroups?name=hello.web.web&num_instances=3", Some(form)).await;
    assert_eq!(patched.status, 202);
    let ignored = ("application/json", "num_instances=9");
    let patched =
        world.call("PATCH", "/api/podgroups?name=hello.web.web&num_instances=3&cmd=replica", Some(ignored)).await;
    assert_eq!(patched.status, 202);
    let numbers: Vec<_> = leader.stop().await.into_iter().map(|command| command.verb).collect();
    assert!(matches!(&numbers[1], Verb::Replica { num_instances: 4, .. }), "{numbers:?}");
    assert!(matches!(&numbers[2], Verb::Replica { num_instances: 3, .. }), "{numbers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_says_who_took_it_and_brings_the_whole_spec() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(world.post("/api/podgroups", CONSOLE).await.status, 202);
    let commands = leader.stop().await;
    let Verb::CreateGroup { spec } = &commands[0].verb else { panic!("{commands:?}") };
    assert_eq!(**spec, contract::go_json::from_slice(CONSOLE.as_bytes()).unwrap());
    assert_eq!(commands[0].by, "api-1");
    assert!(commands[0].at.happened());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callbacks_are_added_listed_and_removed() {
    let world = World::start().await;
    let _leader = Leader::start(&world.bus, Manner::Leads).await;
    let url = "http%3A%2F%2F127.0.0.1%3A1%2Fhook%3Fa%3Db";
    for (method, query, status, message) in [
        ("POST", "", 400, "constaint type required"),
        ("POST", "callback=%2Fx", 400, "callback url not valid: relative URL without a base"),
        (
            "POST",
            "callback=ftp%3A%2F%2Fa",
            400,
            "callback url not valid: must start with http:// or https://, not ftp:",
        ),
        ("DELETE", "", 400, "callback value requird"),
        ("DELETE", "callback=http%3A%2F%2Funknown", 404, "Notify uri not existed"),
        ("POST", &format!("callback={url}"), 202, "notify will be added"),
        ("POST", &format!("callback={url}"), 202, "notify will be added"),
    ] {
        let seen = world.call(method, &format!("/api/notifies?{query}"), None).await;
        assert_eq!((seen.status, seen.message().as_str()), (status, message), "{method} {query}");
    }
    let form = ("application/x-www-form-urlencoded", "callback=https://b.example/x");
    assert_eq!(world.call("POST", "/api/notifies", Some(form)).await.json()["check_url"], "/api/notifies");
    let all = world.get("/api/notifies").await;
    assert_eq!((all.status, all.json()), (200, json!(["http://127.0.0.1:1/hook?a=b", "https://b.example/x"])));
    let removed = world.call("DELETE", &format!("/api/notifies?callback={url}"), None).await;
    assert_eq!((removed.status, removed.message().as_str()), (202, "notify uri will be deleted from the orc engine."));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_idempotency_key_gives_the_same_answer_and_one_effect() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let post = async |key: &str, body: String| {
        let request = world.client.post(world.at("/api/podgroups")).header("Idempotency-Key", key).body(body);
        seen(request.send().await.unwrap()).await
    };
    let first = post("deploy-1", spec_with(":2,", ":2,")).await;
    let second = post("deploy-1", spec_with(":2,", ":2,")).await;
    assert_eq!((first.status, first.json()["operation"].as_str()), (202, Some("deploy-1")));
    assert_eq!((second.status, second.text), (202, first.text));
    // The same change under another key is another change.
    let third = post("deploy-2", spec_with(":2,", ":2,")).await;
    let fourth = post("deploy-2", spec_with(":2,", ":2,")).await;
    assert_eq!((third.status, fourth.status), (405, 405));
    for bad in ["a b", "a/b", "..", "*", &"x".repeat(300)] {
        let seen = post(bad, spec_with(":2,", ":2,")).await;
        assert!(seen.status == 400 && seen.message().starts_with("Idempotency-Key: "), "{bad}: {}", seen.text);
    }
    let operation = world.get("/api/operations?id=deploy-2").await.json();
    assert_eq!(
        (&operation["state"], &operation["message"]),
        (&json!("refused"), &json!("PodGroup has already existed"))
    );
    assert_eq!(world.get("/api/operations?id=deploy-1").await.json()["state"], "accepted");
    assert_eq!(leader.stop().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_whose_reply_was_lost_is_learned_by_asking() {
    let world = World::start().await;
    let _leader = Leader::start(&world.bus, Manner::LosesReplies).await;
    let created = world.post("/api/podgroups", &spec_with(":2,", ":2,")).await;
    assert_eq!(created.status, 202);
    assert!(created.json().get("queued").is_none(), "{}", created.text);
    let again = world.post("/api/podgroups", &spec_with(":2,", ":2,")).await;
    assert_eq!((again.status, again.message().as_str()), (405, "PodGroup has already existed"));
}
