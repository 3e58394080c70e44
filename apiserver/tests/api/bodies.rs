//! Bad input: the contract's 4xx with a reason that names the field, and nothing stored.

use std::time::Duration;

use contract::command::{Command, Verb};
use contract::state::RestartPolicy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::leader::{Leader, Manner};
use crate::world::World;

/// A spec that is fine, with one replacement.
pub(crate) fn spec_with(from: &str, to: &str) -> String {
    let good = r#"{"Name":"hello.web.web","Namespace":"hello","NumInstances":2,"RestartPolicy":1,"Pod":{
        "Name":"hello.web.web","Namespace":"hello","Containers":[{"Image":"registry/hello:1","Expose":8080,
        "CpuLimit":1,"MemoryLimit":33554432,"Env":["A=1"],"Volumes":["/lain/logs"]}],"Annotation":"{}"}}"#;
    assert!(good.contains(from), "{from}");
    good.replace(from, to)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spec_that_is_wrong_is_refused_with_the_field_and_nothing_is_stored() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let long = "x".repeat(300);
    let name = r#""Name":"hello.web.web","Namespace":"hello","Num"#;
    let named = |name: &str| format!(r#""Name":"{name}","Namespace":"hello","Num"#);
    for (from, to, told) in [
        (name, named("a..b"), "Name: has an empty part"),
        (name, named("a/b"), "Name: contains '/'"),
        (name, named("a b"), "Name: contains ' '"),
        (name, named(&long), "Name: is 300 characters long"),
        (name, named(""), "Name: must not be empty"),
        (r#""Namespace":"hello","Num"#, r#""Namespace":"","Num"#.to_owned(), "Namespace: must not be empty"),
        (r#":2,"#, r#":-1,"#.to_owned(), "NumInstances: must be 0..5000, is -1"),
        (r#":2,"#, r#":5001,"#.to_owned(), "NumInstances: must be 0..5000, is 5001"),
        (r#""registry/hello:1""#, r#""""#.to_owned(), "Pod.Containers[0].Image: must not be empty"),
        (r#"8080"#, "-1".to_owned(), "Pod.Containers[0].Expose: "),
        (r#""CpuLimit":1"#, r#""CpuLimit":-1"#.to_owned(), "Pod.Containers[0].CpuLimit: "),
        (r#"33554432"#, "-1".to_owned(), "Pod.Containers[0].MemoryLimit: "),
        (r#""{}""#, r#""no json""#.to_owned(), "Pod.Annotation: "),
        (r#""{}""#, r#""{\"ports\":[{\"srcport\":0,\"dstport\":1}]}""#.to_owned(), "Pod.Annotation.ports[0].srcport: "),
        (r#""{}""#, r#""{\"ports\":[{\"srcport\":\"9001\"}]}""#.to_owned(), "Pod.Annotation.ports: "),
        (r#"["/lain/logs"]"#, r#"["/../etc"]"#.to_owned(), "Pod.Containers[0].Volumes[0]: "),
    ] {
        let seen = world.post("/api/podgroups", &spec_with(from, &to)).await;
        assert_eq!(seen.status, 400, "{to}");
        let message = seen.message();
        assert!(message.starts_with("Missing paremeters for PodGroupSpec: ") && message.contains(told), "{message}");
        assert_eq!(seen.json()["data"], seen.json()["message"]);
    }
    let podless = r#"{"Name":"hello.web.web","Namespace":"hello","NumInstances":1,"Pod":null}"#;
    assert!(world.post("/api/podgroups", podless).await.message().contains("Pod.Name: must not be empty"));
    let all = world.post("/api/podgroups", "{}").await.message();
    for field in ["Name: ", "Namespace: ", "Pod.Name: ", "Pod.Namespace: ", "Pod.Containers: "] {
        assert!(all.contains(field), "every flaw at once: {all}");
    }
    assert_eq!(leader.stop().await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_cannot_be_decoded_is_refused_with_the_position() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let deep = format!("{{\"Pod\":{}{}", "[".repeat(500), "]".repeat(500));
    let numerous = spec_with(r#"["A=1"]"#, &format!("[{}\"A=1\"]", "1,".repeat(20_000)));
    for (body, told) in [
        ("", "EOF"),
        ("not json", "expected"),
        ("{\"Name\":", "EOF"),
        ("[1,2]", "expected"),
        ("\u{0}\u{1}", "expected"),
        (
            &spec_with(
                "\"Name\":\"hello.web.web\",\"Namespace\":\"hello\",\"Num",
                "\"Name\":7,\"Namespace\":\"hello\",\"Num",
            ),
            "Name: ",
        ),
        (&spec_with(":2,", ":\"2\","), "NumInstances: "),
        (&spec_with(":2,", ":1.5,"), "NumInstances: "),
        (&spec_with(":2,", ":1e3,"), "NumInstances: "),
        (&spec_with("33554432", "\"32m\""), "Pod.Containers[0].MemoryLimit: "),
        (&spec_with("\"RestartPolicy\":1", "\"RestartPolicy\":9"), "RestartPolicy: "),
        (&spec_with("\"RestartPolicy\":1", "\"CreatedAt\":\"\""), "CreatedAt: "),
        (&numerous, "Pod.Containers[0].Env[0]: "),
        (&deep, ""),
    ] {
        let seen = world.post("/api/podgroups", body).await;
        let message = seen.message();
        assert_eq!(seen.status, 400, "{message}");
        assert!(message.starts_with("Invalid PodGroupSpec params format: ") && message.contains(told), "{message}");
    }
    assert_eq!(leader.stop().await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flaws_beyond_the_first_fifty_are_only_counted() {
    let world = World::start().await;
    let volumes = format!("[{}\"x\"]", "\"x\",".repeat(20_000));
    let seen = world.post("/api/podgroups", &spec_with("[\"/lain/logs\"]", &volumes)).await;
    assert_eq!(seen.status, 400);
    assert!(seen.message().ends_with(" more") && seen.text.len() < 20_000, "{} bytes", seen.text.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_body_that_would_grow_when_written_out_is_refused_for_its_counts() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let many = format!("\"Dependencies\":[{}{{}}],\"Annotation\"", "{},".repeat(80_000));
    let seen = world.post("/api/podgroups", &spec_with("\"Annotation\"", &many)).await;
    assert_eq!(seen.status, 400, "{}", seen.text);
    assert!(seen.message().contains("Pod.Dependencies: 80001 are too many"), "{}", seen.message());
    assert_eq!(leader.stop().await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_ten_megabytes_is_refused_with_an_answer_and_not_a_reset() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let huge = spec_with("registry/hello:1", &"x".repeat(10 << 20));
    for path in ["/api/podgroups", "/api/notifies"] {
        let seen = world.post(path, &huge).await;
        assert_eq!(seen.status, 413);
        assert!(seen.message().contains("262144"), "{}", seen.message());
    }
    let patched = world.call("PATCH", "/api/podgroups?name=a&cmd=replica", Some(("text/plain", &huge))).await;
    assert_eq!(patched.status, 413);
    assert_eq!(post_in_chunks(&world, 160, 64 << 10).await, "HTTP/1.1 413");
    assert_eq!(world.get("/api/status").await.status, 200);
    assert_eq!(leader.stop().await, []);
}

/// Posts `count` chunks of `size` bytes without a content length.
async fn post_in_chunks(world: &World, count: usize, size: usize) -> String {
    let address = world.base.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!("POST /api/podgroups HTTP/1.1\r\nHost: {address}\r\nTransfer-Encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("{size:x}\r\n{}\r\n", "x".repeat(size));
    for _ in 0..count {
        stream.write_all(chunk.as_bytes()).await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    let mut start = [0; 12];
    tokio::time::timeout(Duration::from_secs(5), stream.read_exact(&mut start)).await.unwrap().unwrap();
    String::from_utf8_lossy(&start).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_expect_continue_and_a_huge_body_is_refused_without_reading_it() {
    let world = World::start().await;
    let address = world.base.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /api/podgroups HTTP/1.1\r\nHost: {address}\r\nContent-Length: 10000000\r\nExpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    tokio::time::timeout(Duration::from_secs(5), stream.read_exact(&mut start)).await.unwrap().unwrap();
    assert_eq!(&start, b"HTTP/1.1 413");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_cannot_be_are_unknown_names() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let long = "x".repeat(300);
    for name in ["..", "a%2Fb", "a%20b", "%00", "%E4%BD%A0", "*", "%3E", &long] {
        let get = world.get(&format!("/api/podgroups?name={name}")).await;
        assert_eq!(get.status, 404, "{name}");
        assert!(get.message().starts_with("No such pod group name="), "{}", get.message());
        let forced = world.get(&format!("/api/podgroups?name={name}&force_update=true")).await;
        assert_eq!((forced.status, forced.message().as_str()), (404, "PodGroup not existed"));
        for (method, more) in [("DELETE", ""), ("PATCH", "&cmd=replica&num_instances=1")] {
            let seen = world.call(method, &format!("/api/podgroups?name={name}{more}"), None).await;
            assert_eq!((seen.status, seen.message().as_str()), (404, "PodGroup not existed"), "{method} {name}");
        }
        assert_eq!(world.get(&format!("/api/operations?id={name}")).await.status, 404);
    }
    assert_eq!(leader.stop().await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strict_request_is_refused_for_flaws_that_a_plain_one_tolerates() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    for (from, to, told) in [
        (
            "\"NumInstances\":2",
            "\"NumInstance\":2".to_owned(),
            "NumInstance: is not a field here; did you mean NumInstances?",
        ),
        ("\"NumInstances\":2,", String::new(), "NumInstances: is required"),
        (
            "\"Annotation\"",
            "\"HealthCheck\":{},\"Annotation\"".to_owned(),
            "Pod.HealthCheck: is not a field here; did you mean",
        ),
        ("\"Annotation\"", "\"SetupTime\":301,\"Annotation\"".to_owned(), "Pod.SetupTime: must be 0..300, is 301"),
        ("\"CpuLimit\":1", "\"CpuLimit\":9".to_owned(), "Pod.Containers[0].CpuLimit: must be 0..8, is 9"),
    ] {
        let body = spec_with(from, &to);
        let strict = world.post("/api/podgroups?strict=true", &body).await;
        assert_eq!(strict.status, 400, "{to}");
        assert!(strict.message().contains(told), "{}", strict.message());
        assert_ne!(world.post("/api/podgroups", &body).await.status, 400, "{to}");
    }
    let pod =
        r#"{"Name":"hello.web.web","Namespace":"hello","Containers":[{"Image":"a:1","Imag":"b"}],"KillTimeout":5}"#;
    for (method, path) in [("PATCH", "/api/podgroups?name=hello.web.web&cmd=spec"), ("POST", "/api/depends?x=1")] {
        let body = Some(("application/json", pod));
        let strict = world.call(method, &format!("{path}&strict=true"), body).await;
        assert_eq!(strict.status, 400, "{path}");
        for told in ["Pod.Containers[0].Imag: ", "Pod.KillTimeout: must be 10..120"] {
            assert!(strict.message().contains(told), "{}", strict.message());
        }
        assert_ne!(world.call(method, path, body).await.status, 400, "{path}");
    }
    leader.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strict_request_without_restart_policy_means_always_and_a_plain_one_never() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let body = spec_with("\"RestartPolicy\":1,", "");
    for path in ["/api/podgroups?strict=true", "/api/podgroups"] {
        assert_ne!(world.post(path, &body).await.status, 400);
    }
    let policy = |command: Command| match command.verb {
        Verb::CreateGroup { spec } => spec.restart_policy,
        other => panic!("not a group: {other:?}"),
    };
    let policies: Vec<RestartPolicy> = leader.stop().await.into_iter().map(policy).collect();
    assert_eq!(policies, [RestartPolicy::Always, RestartPolicy::Never]);
}
