//! Engines that are not there or do not answer.

use std::path::PathBuf;
use std::time::Duration;

use agent::container::Host;
use agent::core::io::ActionFailure;
use agent::docker::Engine;
use agent::engine_health::EngineHealth;
use contract::labels::Owner;
use contract::report::EngineState;
use tokio::net::UnixListener;

const LIMIT: Duration = Duration::from_millis(200);

fn engine(socket: PathBuf) -> (Engine, EngineHealth, tokio::sync::mpsc::Receiver<EngineState>) {
    let host = Host {
        owner: Owner { cluster: "c".to_owned(), node: "n1".parse().expect("a name") },
        volume_root: String::new(),
        cloud_volume_root: String::new(),
        quota_cores: 8,
        publish_ip: String::new(),
        throttles: Vec::new(),
    };
    let (health, states) = EngineHealth::new();
    (Engine::new(socket, host, 6, health.clone()), health, states)
}

#[tokio::test]
async fn an_engine_without_a_socket_is_down() {
    let home = tempfile::tempdir().expect("a directory");
    let (engine, health, mut states) = engine(home.path().join("docker.sock"));
    let failure = ActionFailure::from(engine.start("x").await.expect_err("there is no engine"));
    assert!(matches!(failure, ActionFailure::Unreachable(_)), "{failure:?}");
    assert_eq!((health.state(), states.recv().await), (EngineState::Down, Some(EngineState::Down)));
}

#[tokio::test]
async fn an_engine_that_left_its_socket_behind_is_down() {
    let home = tempfile::tempdir().expect("a directory");
    let socket = home.path().join("docker.sock");
    drop(UnixListener::bind(&socket).expect("binds"));
    let (engine, health, _states) = engine(socket);
    assert!(engine.ping(LIMIT).await.is_err());
    assert_eq!(health.state(), EngineState::Down);
}

#[tokio::test]
async fn an_engine_that_never_answers_is_hung_after_three_tries() {
    let home = tempfile::tempdir().expect("a directory");
    let socket = home.path().join("docker.sock");
    let _listener = UnixListener::bind(&socket).expect("binds");
    let (engine, health, mut states) = engine(socket);
    for expected in [EngineState::Up, EngineState::Up, EngineState::Hung] {
        assert!(engine.ping(LIMIT).await.is_err());
        assert_eq!(health.state(), expected);
    }
    assert_eq!(states.recv().await, Some(EngineState::Hung));
}
