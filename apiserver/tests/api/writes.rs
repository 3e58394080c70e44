//! Changes: 1.3 POST, DELETE, PATCH, and 1.9.

use contract::command::{Act, Drift, Verb};
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
async fn a_scale_reaches_the_leader_with_its_restart_policy() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(world.post("/api/podgroups", CONSOLE).await.status, 202);
    let name = "hello.web.web";
    let created = world.post("/api/podgroups", &spec_with(name, name)).await.json();
    assert!(created["operation"].is_string() && created.get("queued").is_none(), "{created}");
    let parameters = [
        "&cmd=replica&num_instances=1",
        "&cmd=replica&num_instances=0",
        "&cmd=replica&num_instances=2&restart_policy=onfail",
    ];
    for more in parameters {
        let seen = world.call("PATCH", &format!("/api/podgroups?name={name}{more}"), None).await;
        assert_eq!(seen.status, 202, "{more}: {}", seen.text);
    }
    assert_eq!(world.call("DELETE", &format!("/api/podgroups?name={name}"), None).await.status, 202);
    let policies: Vec<_> = leader
        .stop()
        .await
        .into_iter()
        .filter_map(|command| match command.verb {
            Verb::Replica { num_instances, restart_policy, .. } => Some((num_instances, restart_policy)),
            _ => None,
        })
        .collect();
    assert_eq!(policies, [(1, None), (0, None), (2, Some(RestartPolicy::OnFail))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_and_drifts_reach_the_leader_unchanged() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(world.post("/api/podgroups", &spec_with(":2,", ":2,")).await.status, 202);
    for path in [
        "/api/podgroups?name=hello.web.web&cmd=operation&optype=start",
        "/api/podgroups?name=hello.web.web&cmd=operation&optype=stop&instance=2",
        "/api/podgroups?name=hello.web.web&cmd=operation&optype=restart&instance=9",
        "/api/podgroups?name=hello.web.web&cmd=operation&optype=Stop&instance=1",
        "/api/podgroups?name=hello.web.web&cmd=operation&optype=stop&instance=-1",
        "/api/podgroups?name=hello.web.web&cmd=operation&optype=stop&instance=99999999999",
        "/api/nodes?cmd=drift&from=n1",
        "/api/nodes?cmd=drift&from=n1&to=n2&force=true&pg=hello.web.web&pg_instance=2",
        "/api/nodes?cmd=drift&from=n1&pg_instance=all",
    ] {
        let seen = world.call("PATCH", path, None).await;
        assert_eq!(seen.status, 202, "{path}: {}", seen.text);
    }
    assert_eq!(world.call("DELETE", "/api/nodes?node=n1", None).await.status, 202);
    let verbs: Vec<Verb> = leader.stop().await.into_iter().skip(1).map(|command| command.verb).collect();
    let operate = |act, instance| Verb::Operate { name: "hello.web.web".parse().unwrap(), act, instance };
    let n1 = || "n1".parse().unwrap();
    let all = || Drift { from: n1(), to: None, force: false, instance: None };
    let one = Drift { from: n1(), to: Some("n2".parse().unwrap()), force: true, instance: Some(2) };
    let expected = [
        operate(Act::Start, 0),
        operate(Act::Stop, 2),
        operate(Act::Restart, 9),
        operate(Act::Nothing, 1),
        operate(Act::Nothing, 0),
        operate(Act::Nothing, 0),
        Verb::Drift { drift: all(), group: None },
        Verb::Drift { drift: one, group: Some("hello.web.web".parse().unwrap()) },
        Verb::Drift { drift: all(), group: None },
        Verb::Evacuate { node: n1() },
    ];
    assert_eq!(verbs, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spec_patch_brings_the_pod_as_the_client_sent_it_and_the_leader_merges_it() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(world.post("/api/podgroups", &spec_with(":2,", ":2,")).await.status, 202);
    // What console sends for a new release: its own pod only, an old version, null times, limits left open.
    let pod = r#"{"Name":"hello.web.web","Namespace":"hello","Version":7,"CreateAt":null,"UpdateAt":null,"Containers":[
        {"Image":"registry/hello:2","Env":["A=2"],"CpuLimit":0,"MemoryLimit":0,"LogConfig":null,"Entrypoint":null}],
        "Filters":["constraint:group==default"],"Labels":{},"Annotation":"{}","HealthConfig":{}}"#;
    let path = "/api/podgroups?name=hello.web.web&cmd=spec";
    let patched = world.call("PATCH", path, Some(("application/json", pod))).await;
    assert_eq!(patched.status, 202, "{}", patched.text);
    let shown = world.get("/api/podgroups?name=hello.web.web").await.json();
    let container = &shown["Spec"]["Pod"]["Containers"][0];
    assert_eq!((&container["Image"], &container["MemoryLimit"]), (&json!("registry/hello:2"), &json!(33_554_432)));
    let commands = leader.stop().await;
    let expected = contract::lenient_json::from_slice(pod.as_bytes()).unwrap();
    let name = "hello.web.web".parse().unwrap();
    assert_eq!(commands[1].verb, Verb::PatchSpec { name, pod: Box::new(expected), cause: String::new() });
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
    let parts = "--b\r\nContent-Disposition: form-data; name=\"num_instances\"\r\n\r\n5\r\n--b--\r\n";
    let parts = ("multipart/form-data; boundary=b", parts);
    let patched =
        world.call("PATCH", "/api/podgroups?name=hello.web.web&num_instances=3&cmd=replica", Some(parts)).await;
    assert_eq!(patched.status, 202, "{}", patched.text);
    let numbers: Vec<_> = leader.stop().await.into_iter().map(|command| command.verb).collect();
    assert!(matches!(&numbers[1], Verb::Replica { num_instances: 4, .. }), "{numbers:?}");
    assert!(matches!(&numbers[2], Verb::Replica { num_instances: 3, .. }), "{numbers:?}");
    assert!(matches!(&numbers[3], Verb::Replica { num_instances: 5, .. }), "{numbers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_names_its_apiserver_and_contains_the_whole_spec() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(world.post("/api/podgroups", CONSOLE).await.status, 202);
    let commands = leader.stop().await;
    let Verb::CreateGroup { spec } = &commands[0].verb else { panic!("{commands:?}") };
    assert_eq!(**spec, contract::lenient_json::from_slice(CONSOLE.as_bytes()).unwrap());
    assert_eq!(commands[0].by, "api-1");
    assert!(commands[0].at.happened());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callbacks_are_added_listed_and_removed() {
    let world = World::start().await;
    let _leader = Leader::start(&world.bus, Manner::Leads).await;
    let url = "http%3A%2F%2Fa.example%3A1%2Fhook%3Fa%3Db";
    for (method, query, status, message) in [
        ("POST", "", 400, "constaint type required"),
        ("POST", "callback=%2Fx", 400, "callback url not valid: relative URL without a base"),
        (
            "POST",
            "callback=ftp%3A%2F%2Fa",
            400,
            "callback url not valid: must start with http:// or https://, not ftp:",
        ),
        (
            "POST",
            "callback=http%3A%2F%2Fuser%3Apw%40a.example",
            400,
            "callback url not valid: must not contain a user or a password; let the receiver check the webhook-signature \
             header instead",
        ),
        (
            "POST",
            "callback=http%3A%2F%2F0x7f.1%3A90%2F",
            400,
            "callback url not valid: 127.0.0.1:90 is a loopback address; --callback-allow 127.0.0.1 opens it (apiservers \
             and notifiers)",
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
    assert_eq!((all.status, all.json()), (200, json!(["http://a.example:1/hook?a=b", "https://b.example/x"])));
    let removed = world.call("DELETE", &format!("/api/notifies?callback={url}"), None).await;
    assert_eq!((removed.status, removed.message().as_str()), (202, "notify uri will be deleted from the orc engine."));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn internal_callbacks_are_accepted_when_they_are_allowed_or_only_reported_but_never_on_own_ports() {
    let allowed = ["--callback-allow", "127.0.0.0/8,localhost"];
    for flags in [&allowed[..], &["--callback-filter", "report"]] {
        let world = World::start_with(flags).await;
        let _leader = Leader::start(&world.bus, Manner::Leads).await;
        let post =
            async |host: &str| world.call("POST", &format!("/api/notifies?callback=http://{host}/"), None).await.status;
        assert_eq!((post("127.1:90").await, post("localhost:90").await), (202, 202));
        let (api, nats) = (world.base.replace("http://", ""), world.nats.url().replace("nats://", ""));
        assert_eq!((post(&api).await, post(&nats).await), (400, 400), "{flags:?}");
    }
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
    // Another change under a key that was used is not answered with the outcome of the first one.
    for _ in 0..2 {
        let other = post("deploy-1", spec_with(":2,", ":3,")).await;
        assert_eq!(other.status, 409, "{}", other.text);
        assert!(other.message().contains("Idempotency-Key: deploy-1 was used for another change"), "{}", other.text);
    }
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
async fn a_repeated_request_is_recognised_by_its_text_and_not_by_the_decoded_fields() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let post = async |body: &str| {
        let request = world.client.post(world.at("/api/podgroups")).header("Idempotency-Key", "deploy-1");
        seen(request.body(body.to_owned()).send().await.unwrap()).await.status
    };
    // An apiserver of another version may read the field that this one ignores.
    let with = |field: u32| spec_with("\"Annotation\"", &format!("\"OfALaterVersion\": {field}, \"Annotation\""));
    assert_eq!(post(&with(1)).await, 202);
    let sorted: serde_json::Value = serde_json::from_str(&with(1)).unwrap();
    assert_eq!(post(&sorted.to_string()).await, 202, "white space and the sequence of fields do not matter");
    assert_eq!(post(&with(2)).await, 409);
    assert_eq!(leader.stop().await.len(), 1);
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
