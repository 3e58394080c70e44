//! `deployctl bus-keys`: the files that processes on several machines need.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fabric::local::{NatsServer, Syncing};
use fabric::nats::{Args, Bus};
use fabric::signing::{OrderKeys, OrderSigner};

use crate::cluster::{program, text};

const NAMES: [&str; 8] =
    ["--scheduler", "s1,s2", "--apiserver", "a1", "--notifier", "n1", "--agent", "node-1,node-2.example"];

async fn write(folder: &Path, names: &[&str]) -> String {
    let mut command = tokio::process::Command::new(program("deployctl"));
    let output = command.arg("bus-keys").arg(folder).args(names).output().await.expect("deployctl runs");
    assert!(output.status.success(), "{}", text(&output));
    text(&output)
}

/// A real server with the written accounts.
async fn nats(dir: &Path, keys: &Path) -> NatsServer {
    let accounts = std::fs::read_to_string(keys.join("nats-accounts.conf")).expect("accounts");
    std::fs::create_dir_all(dir).expect("a folder");
    std::fs::copy(keys.join("nats-agents.conf"), dir.join("nats-agents.conf")).expect("agents");
    NatsServer::start_configured(dir, 0, Syncing::Always, &accounts).await.expect("a server")
}

async fn connects(nats: &NatsServer, file: &Path) -> bool {
    let args = Args { credentials_file: Some(file.to_owned()), ..Args::at(nats.url()) };
    Bus::connect(&args, "test").await.is_ok()
}

#[tokio::test]
async fn every_process_gets_in_with_its_file_and_a_removed_one_loses_access() {
    let dir = tempfile::tempdir().expect("a folder");
    let keys = dir.path().join("keys");
    assert!(write(&keys, &NAMES).await.starts_with("6 users"));
    let first = nats(&dir.path().join("first"), &keys).await;
    for user in
        ["scheduler.s1", "scheduler.s2", "apiserver.a1", "notifier.n1", "agent.node-1", "agent.node-2%2eexample"]
    {
        let file = keys.join("bus").join(user);
        assert_eq!(std::fs::metadata(&file).expect("a key").permissions().mode() & 0o777, 0o600, "{user}");
        assert!(connects(&first, &file).await, "{user}");
    }
    let public = std::fs::read_to_string(keys.join("orders.pub")).expect("public keys");
    let orders = OrderKeys::load(&keys.join("orders.pub")).expect("readable");
    let signer = OrderSigner::load(&keys.join("orders/s2")).expect("a key");
    let node = "node-1".parse().expect("a name");
    assert_eq!(orders.check(&node, Some(&signer.header(&node, b"order")), b"order"), Ok(()));

    let copy = dir.path().join("copy");
    std::fs::copy(keys.join("bus/agent.node-2%2eexample"), &copy).expect("copied");
    // The processes that have keys keep them; only node-2 is removed.
    write(&keys, &["--remove", "agent.node-2%2eexample", "--agent", "node-3"]).await;
    assert_eq!(std::fs::read_to_string(keys.join("orders.pub")).expect("public keys"), public);
    let second = nats(&dir.path().join("second"), &keys).await;
    assert!(connects(&second, &keys.join("bus/agent.node-1")).await);
    assert!(!connects(&second, &copy).await);
}
