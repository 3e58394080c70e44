//! The clients of the original, which know no tokens, under the bindings that docs/operations.md gives them.

use super::{client_at, group, request};
use crate::leader::Leader;
use crate::world::{Seen, World, seen};

const CONSOLE: u8 = 1;
const LAINCTL: u8 = 2;
const COLLECTD: u8 = 3;
const BINDINGS: [&str; 3] = ["deployer@* from 127.0.6.1", "operator@* from 127.0.6.2", "monitor@* from 127.0.6.3"];

async fn send(world: &World, client: u8, method: &str, path: &str, body: Option<&str>) -> Seen {
    seen(request(&client_at(6, client), method, world.at(path), body).send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_without_tokens_work_under_exactly_the_bindings_of_their_address() {
    let flags: Vec<&str> = BINDINGS.iter().flat_map(|binding| ["--anonymous", binding]).collect();
    let world =
        World::guarded(&[&flags[..], &["--inspect-deadline", "50ms", "--callback-allow", "127.0.0.0/8"]].concat())
            .await;
    let _leader = Leader::enforcing(&world.bus, Vec::new(), &BINDINGS).await;
    let spec = group("hello", "hello.web.web");
    let pod = r#"{"Name":"hello.web.web","Namespace":"hello","Containers":[{"Image":"a:2","Env":["A=1"]}],"Annotation":"{}"}"#;
    let dependency = pod.replace("hello.web.web", "dep");
    let name = "/api/podgroups?name=hello.web.web";
    for (client, method, path, body, status) in [
        (CONSOLE, "GET", "/api/status", None, 200),
        (CONSOLE, "POST", "/api/podgroups", Some(spec.as_str()), 202),
        (CONSOLE, "GET", &format!("{name}&force_update=false"), None, 200),
        (CONSOLE, "PATCH", &format!("{name}&cmd=replica&num_instances=3"), None, 202),
        (CONSOLE, "PATCH", &format!("{name}&cmd=spec"), Some(pod), 202),
        (CONSOLE, "PATCH", &format!("{name}&cmd=operation&optype=restart"), None, 202),
        (CONSOLE, "GET", "/api/cntstatushistory?name=hello.web.web&instance=1", None, 200),
        (CONSOLE, "GET", "/api/ports", None, 200),
        (CONSOLE, "POST", "/api/ports?cmd=validate", Some(r#"{"Ports":[7]}"#), 200),
        (CONSOLE, "POST", "/api/depends", Some(&dependency), 202),
        (CONSOLE, "PUT", "/api/depends", Some(&dependency), 202),
        (CONSOLE, "GET", "/api/depends?name=dep", None, 200),
        (CONSOLE, "DELETE", "/api/depends?name=dep&force=true", None, 202),
        (CONSOLE, "PATCH", "/api/nodes?cmd=drift&from=n1&pg=hello.web.web&pg_instance=1", None, 202),
        (CONSOLE, "GET", "/api/nodes", None, 202),
        (CONSOLE, "DELETE", "/api/nodes?node=n1", None, 403),
        (CONSOLE, "PATCH", "/api/nodes?cmd=drift&from=n1", None, 403),
        (CONSOLE, "PATCH", "/api/status", Some(r#"{"status":"stop"}"#), 403),
        (CONSOLE, "GET", "/api/notifies", None, 403),
        (LAINCTL, "GET", "/api/status", None, 200),
        (LAINCTL, "GET", "/debug/vars", None, 200),
        (LAINCTL, "PATCH", "/api/constraints?type=node&value=n1", None, 202),
        (LAINCTL, "DELETE", "/api/constraints?type=node&value=n1", None, 202),
        (LAINCTL, "PATCH", "/api/nodes?cmd=drift&from=n1&pg=hello.web.web&pg_instance=1&force=true&to=n2", None, 202),
        (LAINCTL, "DELETE", "/api/nodes?node=n1", None, 202),
        (LAINCTL, "POST", "/api/notifies?callback=http://127.0.0.1:9/", None, 202),
        (LAINCTL, "PATCH", "/api/engine/maintenance?on=false", None, 200),
        (LAINCTL, "GET", name, None, 200),
        (LAINCTL, "GET", "/api/backup", None, 403),
        (LAINCTL, "GET", "/api/tokens", None, 403),
        (COLLECTD, "GET", "/debug/vars", None, 200),
        (COLLECTD, "GET", "/metrics", None, 200),
        (COLLECTD, "GET", "/api/status", None, 200),
        (COLLECTD, "GET", "/api/cluster", None, 200),
        (COLLECTD, "GET", name, None, 403),
        (COLLECTD, "GET", "/api/podgroups?all=true", None, 403),
        (COLLECTD, "DELETE", name, None, 403),
        (CONSOLE, "DELETE", name, None, 202),
    ] {
        let seen = send(&world, client, method, path, body).await;
        assert_eq!(seen.status, status, "127.0.6.{client} {method} {path}: {}", seen.text);
    }
    let environment = send(&world, CONSOLE, "POST", "/api/podgroups", Some(&group("hello", "hello.again.web"))).await;
    assert_eq!(environment.status, 202);
    let shown = send(&world, CONSOLE, "GET", "/api/podgroups?name=hello.again.web", None).await;
    assert!(shown.text.contains("\"A=1\""), "console writes back what it read: {}", shown.text);
}
