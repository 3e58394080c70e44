//! Every command of docs/operations.md is one that works: lines of `sh` blocks are run in order, `sh example` blocks are for
//! machines this test does not have.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cluster::{repository, text};
use crate::project::{IMAGE, Project};

/// The commands of the page, in order; a backslash at the end of a line continues it.
fn commands() -> Vec<String> {
    let page = std::fs::read_to_string(repository().join("docs/operations.md")).expect("docs/operations.md");
    let mut commands = Vec::new();
    let mut inside = false;
    for line in page.replace("\\\n", " ").lines() {
        if line.starts_with("```") {
            inside = !inside && line == "```sh";
        } else if inside {
            let command = line.split(" #").next().unwrap_or(line).trim();
            commands.extend((!command.is_empty()).then(|| command.to_owned()));
        }
    }
    commands
}

/// Runs a command of `deployctl` as a user whose contexts are in `home`, against the port of this project.
fn deployctl(project: &Project, home: &Path, command: &str, input: &str) {
    let here = command.replace("http://127.0.0.1:9003", &project.url());
    let words: Vec<&str> = here.split_whitespace().collect();
    assert_eq!(words[0], "deployctl", "{command}");
    let mut deployctl = Command::new(crate::cluster::program("deployctl"));
    deployctl.args(&words[1..]).current_dir(repository()).env("XDG_CONFIG_HOME", home);
    deployctl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = deployctl.spawn().expect("deployctl runs");
    let mut stdin = child.stdin.take().expect("an input");
    // A command that reads no input closes it.
    drop(stdin.write_all(input.as_bytes()));
    drop(stdin);
    let output = child.wait_with_output().expect("deployctl ends");
    assert!(output.status.success(), "{command}: {}", text(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_page_about_operations_works() {
    let project = Project::new("doc", &["docker-compose.yml"]);
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().display().to_string();
    let mut ran = 0;
    for command in commands() {
        // What the command before the bar prints is the input of the one after it.
        let (words, then) = command.split_once(" | ").unwrap_or((&command, ""));
        let words: Vec<&str> = words.split_whitespace().collect();
        match words[0] {
            // This very run came from it.
            "./deploy/images" => assert!(repository().join("deploy/images").exists(), "{IMAGE}"),
            "docker-compose" => {
                let (flag, file, rest) = (words[1], words[2], &words[3..]);
                assert_eq!((flag, file), ("-f", "deploy/docker-compose.yml"), "{command}");
                match rest {
                    // Waits for the demo too.
                    ["up", "--detach"] => project.up().await,
                    _ if then.is_empty() => drop(project.composed(rest)),
                    _ => deployctl(&project, folder.path(), then, &project.composed(rest)),
                }
            }
            "deployctl" => deployctl(&project, folder.path(), &command, ""),
            "deploy/install-agent" => {
                let mut installer = Command::new(repository().join(words[0]));
                let agent = crate::cluster::program("deployd-agent");
                installer.args(&words[1..]).args(["--root", &root]).arg("--binary").arg(agent);
                let output = installer.output().expect("install-agent runs");
                assert!(output.status.success(), "{command}: {}", text(&output));
            }
            other => panic!("{command}: the test cannot run {other}; mark its block as `sh example`"),
        }
        ran += 1;
    }
    assert!(ran >= 6, "only {ran} commands were run");
}
