//! Engines that are not there or do not answer.

use std::path::PathBuf;
use std::time::Duration;

use agent::container::Host;
use agent::core::io::StepFailure;
use agent::docker::Engine;
use agent::pulse::Pulse;
use contract::labels::Owner;
use contract::report::EngineState;
use tokio::net::UnixListener;

const LIMIT: Duration = Duration::from_millis(200);

fn engine(socket: PathBuf) -> (Engine, Pulse, tokio::sync::mpsc::Receiver<EngineState>) {
    let host = Host {
        owner: Owner { cluster: "c".to_owned(), node: "n1".parse().expect("a name") },
        volume_root: String::new(),
        cloud_volume_root: String::new(),
        quota_cores: 8,
        publish_ip: String::new(),
        throttles: Vec::new(),
    };
    let (pulse, states) = Pulse::new();
    (Engine::new(socket, host, 6, pulse.clone()), pulse, states)
}

#[tokio::test]
async fn an_engine_without_a_socket_is_down() {
    let home = tempfile::tempdir().expect("a directory");
    let (engine, pulse, mut states) = engine(home.path().join("docker.sock"));
    let failure = StepFailure::from(engine.start("x").await.expect_err("there is no engine"));
    assert!(matches!(failure, StepFailure::Unreachable(_)), "{failure:?}");
    assert_eq!((pulse.state(), states.recv().await), (EngineState::Down, Some(EngineState::Down)));
}

#[tokio::test]
async fn an_engine_that_left_its_socket_behind_is_down() {
    let home = tempfile::tempdir().expect("a directory");
    let socket = home.path().join("docker.sock");
    drop(UnixListener::bind(&socket).expect("binds"));
    let (engine, pulse, _states) = engine(socket);
    assert!(engine.ping(LIMIT).await.is_err());
    assert_eq!(pulse.state(), EngineState::Down);
}

#[tokio::test]
async fn an_engine_that_never_answers_is_hung_after_three_tries() {
    let home = tempfile::tempdir().expect("a directory");
    let socket = home.path().join("docker.sock");
    let _listener = UnixListener::bind(&socket).expect("binds");
    let (engine, pulse, mut states) = engine(socket);
    for expected in [EngineState::Up, EngineState::Up, EngineState::Hung] {
        assert!(engine.ping(LIMIT).await.is_err());
        assert_eq!(pulse.state(), expected);
    }
    assert_eq!(states.recv().await, Some(EngineState::Hung));
}
