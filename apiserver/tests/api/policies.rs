//! `/api/policies`: workload policies of namespaces.

use contract::command::Verb;
use contract::policy::{Level, Policy};
use serde_json::json;

use crate::leader::{Leader, Manner};
use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_are_set_shown_and_removed() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let put = async |query: &str, body: &str| {
        world.call("PUT", &format!("/api/policies{query}"), Some(("application/json", body))).await
    };
    let delete =
        async |namespace: &str| world.call("DELETE", &format!("/api/policies?namespace={namespace}"), None).await;
    assert_eq!(world.get("/api/policies").await.json(), json!([]));
    let shown = world.get("/api/policies?namespace=shop").await.json();
    assert_eq!(shown, json!({"Namespace": "*", "Policy": {"Level": "baseline"}}), "the default applies");

    let body = r#"{"Level":"baseline","HostBinds":[{"Path":"/srv","ReadOnly":true}],"Quota":{"Groups":3}}"#;
    assert_eq!(put("?namespace=shop", body).await.status, 202);
    assert_eq!(put("?namespace=*", r#"{"Level":"restricted"}"#).await.status, 202);
    let shop: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(world.get("/api/policies?namespace=shop").await.json(), json!({"Namespace": "shop", "Policy": shop}));
    assert_eq!(world.get("/api/policies?namespace=other").await.json()["Policy"], json!({"Level": "restricted"}));
    assert_eq!(world.get("/api/policies").await.json().as_array().map(Vec::len), Some(2));
    assert_eq!((delete("shop").await.status, delete("shop").await.status), (202, 404));

    for (query, body, part) in [
        ("", "{}", "namespace"),
        ("?namespace=a/b", "{}", "namespace"),
        ("?namespace=shop", "", "body"),
        ("?namespace=shop", r#"{"Level":"open"}"#, "body"),
        ("?namespace=shop", r#"{"Levle":"trusted"}"#, "Levle"),
        ("?namespace=shop", r#"{"HostBinds":[{"Path":"/var"}]}"#, "HostBinds[0].Path"),
        ("?namespace=shop", r#"{"Capabilities":["ALL"]}"#, "Capabilities"),
    ] {
        let refused = put(query, body).await;
        assert_eq!(refused.status, 400, "{query} {body}");
        assert!(refused.text.contains(part), "{query} {body}: {}", refused.text);
    }
    assert_eq!(world.post("/api/policies?namespace=shop", "{}").await.status, 405);
    let commands = leader.stop().await;
    let expected = Verb::SetPolicy { namespace: "*".to_owned(), policy: Box::new(Policy::of(Level::Restricted)) };
    assert_eq!((commands.len(), &commands[1].verb), (4, &expected));
}
