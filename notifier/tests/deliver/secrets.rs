//! Secrets in callback URLs and in answers stay out of logs and dead letters. The notifier runs as a process here, because
//! its log is the thing under test.

use std::process::Stdio;

use tokio::process::{Child, Command};

use crate::receiver::{Manner, Receiver};
use crate::world::{World, eventually, notice};

/// Starts `deployd-notifier` with its log in a file; dropping it kills it.
fn process(world: &World, flags: &[&str], environment: &[(&str, &str)]) -> Child {
    let log = std::fs::File::create(log_file(world)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_deployd-notifier"));
    command
        .args(["--listen", "127.0.0.1:0", "--nats", &world.nats.url()])
        .args(flags)
        .envs(environment.iter().copied());
    command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null()).kill_on_drop(true);
    command.spawn().unwrap()
}

fn log_file(world: &World) -> std::path::PathBuf {
    world.directory.path().join("notifier.log")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_of_a_url_or_an_answer_is_in_the_log_or_in_a_dead_letter() {
    let world = World::start().await;
    let telling = Receiver::start(Manner::Answers(403, "canary-answer")).await;
    let taking = Receiver::start(Manner::Takes).await;
    let address = |receiver: &Receiver| receiver.url().split('/').nth(2).unwrap().to_owned();
    let with_secrets =
        |host: &str| format!("http://canary-user:canary-password@{host}/canary-path?token=canary-query#canary-part");
    let closed = format!("127.0.0.1:{}", fabric::local::free_port());
    let callbacks = [
        with_secrets(&address(&telling)),
        with_secrets(&address(&taking)),
        with_secrets(&closed),
        with_secrets(&closed.replace("127.0.0.1", "127.0.0.2")),
        "ftp://canary-user:canary-password@a/canary-path".to_owned(),
        "http://canary-user:canary-password@[/canary-path".to_owned(),
    ];
    let _notifier =
        process(&world, &["--timeout", "2s", "--retry-delays", "100ms", "--callback-allow", "127.0.0.1"], &[]);
    for callback in &callbacks {
        world.publish(&notice(callback, 1)).await;
    }
    let unreadable = serde_json::json!({ "callback": callbacks[0], "body": 7 });
    world.publish(&unreadable).await;
    let log = eventually("every notice settled and logged", async || {
        let log = std::fs::read_to_string(log_file(&world)).unwrap();
        (log.matches("given up").count() >= 6 && world.unsettled().await == 0).then_some(log)
    })
    .await;
    assert!(log.contains("notice delivered") && log.contains("403"), "the log names the outcome: {log}");
    assert!(log.contains(&format!("http://{}/…", address(&taking))), "the log names scheme and host: {log}");
    assert!(!log.contains("canary"), "{log}");
    for number in 1..=6 {
        let letter = world.dead_letter(number).await;
        assert!(!format!("{letter:?}").contains("canary"), "{letter:?}");
    }
    assert_eq!(taking.posted().len(), 1, "a stored URL with a user and a password still works");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_in_the_environment_is_not_used() {
    let world = World::start().await;
    let (proxy, receiver) = (Receiver::start(Manner::Takes).await, Receiver::start(Manner::Takes).await);
    let variables = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"].map(|name| (name, proxy.url()));
    let environment: Vec<(&str, &str)> = variables.iter().map(|(name, url)| (*name, url.as_str())).collect();
    let _notifier = process(&world, &["--callback-allow", "127.0.0.1"], &environment);
    world.publish(&notice(&receiver.url(), 1)).await;
    receiver.wait_for(1).await;
    assert_eq!(proxy.posted().len(), 0);
}
