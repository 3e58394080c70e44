//! Bad input gets the contract's 4xx with a reason that names the field, never a 5xx, and nothing is stored.

use reqwest::Method;
use serde_json::{Value, json};

use crate::cluster::{Cluster, demo_group};

fn with(change: impl FnOnce(&mut Value)) -> String {
    let mut group = demo_group("bad.web.web", 1);
    change(&mut group);
    group.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_with_the_field_and_nothing_is_stored() {
    let cluster = Cluster::start(&["--nodes", "1"]).await;
    let long = "x".repeat(300);
    let bodies: Vec<(String, &str)> = vec![
        (String::new(), "EOF"),
        ("{".to_owned(), "EOF"),
        ("[]".to_owned(), "Invalid PodGroupSpec"),
        ("{}".to_owned(), "Name"),
        ("\u{0}\u{1}".to_owned(), "Invalid PodGroupSpec"),
        (with(|g| g["Name"] = json!("a..b")), "Name"),
        (with(|g| g["Name"] = json!("../../etc")), "Name"),
        (with(|g| g["Name"] = json!("a/b")), "Name"),
        (with(|g| g["Name"] = json!("a b")), "Name"),
        (with(|g| g["Name"] = json!(long)), "Name"),
        (with(|g| g["Name"] = json!(7)), "Name"),
        (with(|g| g["Namespace"] = json!("")), "Namespace"),
        (with(|g| g["NumInstances"] = json!(-1)), "NumInstances"),
        (with(|g| g["NumInstances"] = json!(1.5)), "NumInstances"),
        (with(|g| g["NumInstances"] = json!("3")), "NumInstances"),
        (with(|g| g["RestartPolicy"] = json!(9)), "RestartPolicy"),
        (with(|g| g["Pod"] = Value::Null), "Pod.Name"),
        (with(|g| g["Pod"]["Name"] = json!("other")), "Pod.Name"),
        (with(|g| g["Pod"]["Containers"] = json!([])), "Pod.Containers"),
        (with(|g| g["Pod"]["Containers"][0]["Image"] = json!("")), "Pod.Containers[0].Image"),
        (with(|g| g["Pod"]["Containers"][0]["MemoryLimit"] = json!(-5)), "Pod.Containers[0].MemoryLimit"),
        (with(|g| g["Pod"]["Containers"][0]["Volumes"] = json!(["/a/../../b"])), "Pod.Containers[0].Volumes[0]"),
        (with(|g| g["Pod"]["Annotation"] = json!("{")), "Pod.Annotation"),
    ];
    for (body, names) in &bodies {
        let (status, text) = post(&cluster, body.clone()).await;
        assert_eq!(status, 400, "{body}: {text}");
        let failure: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("not JSON: {text}"));
        assert!(failure["message"].as_str().is_some_and(|m| m.contains(names)), "{body}: {text}");
        assert_eq!(failure["message"], failure["data"]);
    }
    let (status, text) = post(&cluster, format!("{{\"Name\":\"{}\"}}", "y".repeat(10 * 1024 * 1024))).await;
    assert!((400..500).contains(&status), "10 MB: {status} {text}");
    for (method, path, expected) in [
        (Method::GET, "/api/podgroups".to_owned(), 400),
        (Method::GET, "/api/podgroups?name=a..b".to_owned(), 404),
        (Method::GET, "/api/podgroups?name=a%2Fb".to_owned(), 404),
        (Method::GET, "/api/podgroups?name=a%20b".to_owned(), 404),
        (Method::GET, format!("/api/podgroups?name={long}"), 404),
        (Method::DELETE, "/api/podgroups".to_owned(), 400),
        (Method::DELETE, "/api/podgroups?name=unknown.web.web".to_owned(), 404),
        (Method::DELETE, "/api/podgroups?name=..%2F..".to_owned(), 404),
        (Method::PATCH, "/api/podgroups?cmd=replica&num_instances=1".to_owned(), 400),
        (Method::PATCH, "/api/podgroups?name=unknown.web.web&cmd=replica&num_instances=1".to_owned(), 404),
        (Method::PATCH, "/api/podgroups?name=unknown.web.web&cmd=replica&num_instances=x".to_owned(), 400),
        (Method::PATCH, "/api/podgroups?name=unknown.web.web&cmd=nonsense".to_owned(), 400),
        (Method::PUT, "/api/podgroups".to_owned(), 405),
        (Method::GET, "/api/unknown".to_owned(), 404),
    ] {
        let (status, text) = cluster.call(0, method.clone(), &path, None).await;
        assert_eq!(status.as_u16(), expected, "{method} {path}: {text}");
    }
    let (_, list) = cluster.call(0, Method::GET, "/api/podgroups?all=true", None).await;
    assert!(!list.contains("bad.web.web"), "{list}");
    assert_eq!(cluster.engine.of_cluster(cluster.id()).await, []);
}

async fn post(cluster: &Cluster, body: String) -> (u16, String) {
    let client = fabric::http::client(std::time::Duration::from_secs(20));
    let request =
        client.post(format!("{}/api/podgroups", cluster.api(0))).header("Content-Type", "application/json").body(body);
    let response = request.send().await.expect("an answer, not a broken connection");
    (response.status().as_u16(), response.text().await.expect("a body"))
}
