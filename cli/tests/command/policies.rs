//! `deployctl policy`: what it sends and what it prints.

use serde_json::{Value, json};

use crate::server::Server;

#[tokio::test]
async fn a_policy_is_sent_with_its_exceptions_and_shown_as_the_flags_that_set_it() {
    let shop = json!({"Namespace": "shop", "Policy": {
        "Level": "baseline", "HostBinds": [{"Path": "/srv/models", "ReadOnly": true}, {"Path": "/srv/cache", "ReadOnly": false}],
        "Capabilities": ["NET_RAW"], "Quota": {"Instances": 20},
    }});
    let server = Server::start(&[
        ("PUT /api/policies", 202, json!({"operation": "{key}"})),
        ("DELETE /api/policies", 202, json!({"operation": "{key}"})),
        ("GET /api/policies", 200, shop.clone()),
        ("GET /api/policies", 200, json!([{"Namespace": "*", "Policy": {"Level": "restricted"}}, shop])),
    ])
    .await;
    let set = "policy set shop baseline --allow-bind /srv/models:ro --allow-bind /srv/cache --allow-capability NET_RAW \
               --max-instances 20";
    let ended = server.run(&set.split_whitespace().collect::<Vec<_>>()).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "the policy of namespace shop is baseline\n"), "{ended:?}");
    let (line, body) = server.changes().remove(0);
    assert_eq!(line, "PUT /api/policies?namespace=shop");
    assert_eq!(serde_json::from_str::<Value>(&body).expect("JSON"), shop["Policy"]);

    let shown = server.run(&["policy", "show", "shop"]).await;
    let expected = "namespace shop: baseline\n--allow-bind /srv/models:ro\n--allow-bind /srv/cache\n--allow-capability NET_RAW\n\
                    --max-instances 20\n";
    assert_eq!(shown.out, expected);
    let listed = server.run(&["policy", "list"]).await;
    assert!(listed.out.contains("NAMESPACE") && listed.out.contains("restricted"), "{}", listed.out);
    let removed = server.run(&["policy", "remove", "shop"]).await;
    assert_eq!(removed.out, "the policy of namespace shop is that of * again\n");
    assert_eq!(server.run(&["policy", "set", "shop", "open"]).await.code, Some(2));
}
