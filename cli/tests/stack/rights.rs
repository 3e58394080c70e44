//! The compose files: every process runs with as few rights as it can.

use serde_json::Value;

use crate::cluster::repository;

/// These reach the engine's socket, which belongs to root.
const ROOT: [&str; 2] = ["agent", "clear"];

fn services(file: &str) -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(repository().join("deploy").join(file)).expect("a compose file");
    let page: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let services = page["services"].as_object().expect("services").clone();
    assert!(services.len() >= 5, "{file}: {services:?}");
    services.into_iter().collect()
}

#[test]
fn the_processes_of_the_compose_files_have_few_rights() {
    for file in ["docker-compose.yml", "docker-compose.ha.yml"] {
        for (name, service) in services(file) {
            // An overlay names only what it changes of a service.
            if service["image"].is_null() {
                continue;
            }
            let what = format!("{file}: {name}");
            assert_eq!(service["read_only"], true, "{what}");
            assert_eq!(service["cap_drop"], serde_json::json!(["ALL"]), "{what}");
            assert!(service["security_opt"].to_string().contains("no-new-privileges"), "{what}");
            assert_eq!(service["ports"].is_null(), name != "api", "{what}: only HAProxy is published");
            match service["user"].as_str() {
                Some(user) => assert_eq!(user.starts_with("0:"), ROOT.contains(&name.as_str()), "{what}: {user}"),
                // The user of the image owns the files in its volume.
                None => assert!(name.starts_with("nats") || name.starts_with("etcd"), "{what} names no user"),
            }
        }
    }
}
