//! Access control of a local cluster: its own user needs no token, other users do, and every change is in the audit log.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use crate::cluster::{Cluster, demo_group, eventually, text};

/// Neither root nor the user of the tests.
const OTHER: u32 = 65_533;

/// The status line of the answer to another user of this machine. Only root can start a program of another user.
async fn as_another_user(address: &str, request: &str) -> String {
    let host = address.strip_prefix("http://").expect("a URL");
    let script = format!(
        "exec 3<>/dev/tcp/{}; printf '{request} HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\nContent-Length: 0\\r\\n\\r\\n' >&3; cat <&3",
        host.replace(':', "/")
    );
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &script]).uid(OTHER).gid(OTHER).current_dir("/").stdin(Stdio::null());
    let output = tokio::process::Command::from(command).output().await.expect("bash runs, as root");
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
}

/// Runs deployctl with a token; its exit code and what it said.
async fn with_token(cluster: &Cluster, token: &Path, words: &[&str]) -> (Option<i32>, String) {
    let token = token.to_str().expect("a path");
    let output = cluster.deployctl(&[&["--token-file", token], words].concat()).await;
    (output.status.code(), text(&output))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_own_user_needs_no_token_others_do_and_a_token_allows_what_its_roles_allow() {
    let cluster = Cluster::start(&[]).await;
    let said = text(&cluster.deployctl(&["auth", "status"]).await);
    assert!(said.contains("access control is enforced") && said.contains("admin@* from uid:self"), "{said}");
    cluster.accepted(Method::POST, "/api/podgroups", Some(&demo_group("shop.web.web", 0))).await;
    for request in ["GET /api/nodes", "GET /api/tokens", "DELETE /api/podgroups?name=shop.web.web"] {
        let answer = as_another_user(cluster.api(0), request).await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{request}: {answer:?}");
    }

    let token = cluster.folder().join("bob.token");
    let path = token.to_str().expect("a path");
    let created = cluster.deployctl(&["token", "create", "bob", "--role", "deployer@shop", "--output", path]).await;
    assert!(created.status.success(), "{}", text(&created));
    let (code, said) = with_token(&cluster, &token, &["auth", "whoami"]).await;
    assert!(code == Some(0) && said.contains("bob (deployer@shop)"), "{said}");
    let (code, said) = with_token(&cluster, &token, &["scale", "shop.web.web", "0", "--detach"]).await;
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = with_token(&cluster, &token, &["scale", "bank.web.web", "0", "--detach"]).await;
    assert_eq!(code, Some(3), "a foreign group looks like one that does not exist: {said}");
    let (code, said) = with_token(&cluster, &token, &["node", "cordon", "node-1"]).await;
    assert!(code == Some(7) && said.contains("not allowed (403)"), "{said}");

    let tokens = cluster.deployctl(&["token", "list", "-o", "json"]).await;
    let tokens: Value = serde_json::from_slice(&tokens.stdout).expect("JSON");
    let id = tokens[0]["Id"].as_str().expect("an id").to_owned();
    assert!(cluster.deployctl(&["token", "revoke", &id]).await.status.success());
    eventually(Duration::from_secs(5), "a revoked token is refused within 5 s", async || {
        let (code, said) = with_token(&cluster, &token, &["get", "podgroup"]).await;
        (code == Some(7) && said.contains("does not accept the token")).then_some(())
    })
    .await;
    the_log_has_every_change(&cluster).await;
}

async fn the_log_has_every_change(cluster: &Cluster) {
    let verified = cluster.deployctl(&["audit", "verify"]).await;
    assert!(verified.status.success() && text(&verified).contains("records verified: 1 to"), "{}", text(&verified));
    let listed = cluster.deployctl(&["audit", "list", "-o", "json"]).await;
    let records: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let found = |verb: &str, principal: &str| {
        let is_it = |record: &&Value| {
            record["Verb"] == verb && record["Principal"].as_str().is_some_and(|it| it.contains(principal))
        };
        records.as_array().is_some_and(|all| all.iter().any(|record| is_it(&record)))
    };
    for (verb, principal) in [("CreateGroup", "uid:self"), ("CreateToken", "uid:self"), ("Replica", "bob")] {
        assert!(found(verb, principal), "{verb} of {principal}: {records}");
    }
    assert!(found("RevokeToken", "uid:self"), "{records}");
}
