//! Runs every curl line of docs/api.md, in order.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::leader::{Leader, Manner};
use crate::world::World;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The lines of `sh` blocks.
fn commands() -> Vec<String> {
    let document = std::fs::read_to_string(repository().join("docs/api.md")).unwrap();
    let mut inside = false;
    let mut commands = Vec::new();
    for line in document.lines() {
        if line.starts_with("```") {
            inside = !inside && line == "```sh";
        } else if inside {
            commands.push(line.to_owned());
        }
    }
    commands
}

async fn run(command: &str) -> Output {
    tokio::process::Command::new("sh").arg("-c").arg(command).current_dir(repository()).output().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_of_the_documentation_is_taken() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let commands = commands();
    for command in &commands {
        assert!(command.starts_with("curl -fsS ") && command.contains("http://127.0.0.1:9003/"), "{command}");
        let output = run(&command.replace("http://127.0.0.1:9003", &world.base)).await;
        let (told, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{command}: {wrong}");
        assert!(told.starts_with('{'), "{command}: {told}");
    }
    let changes = commands.iter().filter(|command| !command.contains("/api/r") && !command.contains("/plan")).count();
    assert_eq!(leader.stop().await.len(), changes, "each of {commands:?} but the questions is one command");
    assert!(changes > 8, "{commands:?}");
}
