//! Every command the documents show is one that works.
//!
//! Commands are the lines of `sh` blocks. Those that start with `deployctl` are run, in order, against one cluster;
//! the scripts of `deploy/` must exist and answer `--help` or be the ones this very run came from.

use std::process::Command;

use crate::cluster::{Cluster, repository, text};

fn commands(document: &str) -> Vec<String> {
    let content = std::fs::read_to_string(repository().join(document)).expect(document);
    let mut commands = Vec::new();
    let mut inside = false;
    for line in content.lines() {
        if line.starts_with("```") {
            inside = !inside && line == "```sh";
        } else if inside {
            let command = line.split(" #").next().unwrap_or(line).trim();
            if !command.is_empty() && !command.starts_with('#') {
                commands.push(command.to_owned());
            }
        }
    }
    commands
}

/// The words of a command; blanks between double quotes are part of one.
fn words(command: &str) -> Vec<&str> {
    let mut quoted = false;
    let is_gap = |letter: char| {
        quoted ^= letter == '"';
        letter == ' ' && !quoted
    };
    command.split(is_gap).filter(|word| !word.is_empty()).map(|word| word.trim_matches('"')).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_readme_and_of_the_page_about_releases_works() {
    let cluster = Cluster::start(&[]).await;
    let all: Vec<String> = ["README.md", "docs/rollouts.md"].into_iter().flat_map(commands).collect();
    for expected in ["./deploy/up", "./deploy/test"] {
        assert!(all.iter().any(|command| command.starts_with(expected)), "README does not show {expected}: {all:?}");
    }
    let mut ran = 0;
    for command in &all {
        let words = words(command);
        let program = words[0].rsplit('/').next().unwrap_or(words[0]);
        match program {
            // `up` and `down` are what started this cluster and what will end it.
            "deployctl" if matches!(words.get(1), Some(&"up" | &"down")) => {}
            "deployctl" => {
                let output = cluster.deployctl(&words[1..]).await;
                assert!(output.status.success(), "{command}:\n{}", text(&output));
                ran += 1;
            }
            "curl" => {
                let line = command.replace("http://127.0.0.1:9003", cluster.api(0));
                let output =
                    Command::new("sh").arg("-c").arg(&line).current_dir(repository()).output().expect("sh runs");
                assert!(output.status.success(), "{line}:\n{}", text(&output));
                ran += 1;
            }
            "cargo" | "export" => {}
            _ => assert!(repository().join(words[0]).exists(), "{command}: there is no {}", words[0]),
        }
    }
    assert!(ran >= 4, "only {ran} commands were run of {all:?}");
}
