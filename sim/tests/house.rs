//! The walls of the house: what may stand where, checked by reading the sources.
//!
//! Each rule names the place a thing belongs, so a failure reads as advice. The rules look at text, not at types:
//! cheap, complete, and they hold for tests too unless said otherwise.

use std::fs;
use std::path::{Path, PathBuf};

struct Source {
    path: String,
    text: String,
}

impl Source {
    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("tests.rs")
    }
    fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
    /// Lines before the first test module, without comments, with their numbers.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = self.text.find("#[cfg(test)]\nmod ").unwrap_or(self.text.len());
        self.text[..end]
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn files(extension: &str) -> Vec<Source> {
    fn walk(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a readable folder").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let hidden = name.to_string_lossy().starts_with('.');
            if path.is_dir() && !hidden && name != "target" {
                walk(&path, extension, found);
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    let (root, mut found) = (root(), Vec::new());
    walk(&root, extension, &mut found);
    found.sort();
    let relative = |path: &Path| path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
    found.iter().map(|path| Source { path: relative(path), text: fs::read_to_string(path).expect("text") }).collect()
}

fn sources() -> Vec<Source> {
    let sources = files("rs");
    assert!(sources.len() > 50, "the walk found only {} files: it is broken", sources.len());
    sources.into_iter().filter(|s| s.path != "sim/tests/house.rs").collect()
}

fn places(allowed: impl Fn(&Source) -> bool, found: impl Fn(&str) -> bool) -> Vec<String> {
    let mut places = Vec::new();
    for source in sources().iter().filter(|s| !allowed(s)) {
        places.extend(
            source
                .code()
                .filter(|(_, line)| found(line))
                .map(|(n, line)| format!("{}:{n}: {}", source.path, line.trim())),
        );
    }
    places
}

fn assert_none(rule: &str, places: &[String]) {
    assert!(places.is_empty(), "{rule}\n  {}", places.join("\n  "));
}

#[test]
fn subjects_are_written_in_one_file() {
    let kinds = ["command", "order", "report", "resync", "inspect", "notice", "dead", "query", "event"];
    let literal = |line: &str| kinds.iter().any(|kind| line.contains(&format!("\"deployd.{kind}")));
    assert_none(
        "a NATS subject belongs in contract/subjects.rs",
        &places(|s| s.path == "crates/contract/src/subjects.rs", literal),
    );
}

#[test]
fn keys_are_written_in_one_file() {
    let literal = |line: &str| line.contains("\"/deployd/");
    assert_none(
        "an etcd key belongs in contract/keys.rs",
        &places(|s| s.path == "crates/contract/src/keys.rs", literal),
    );
}

#[test]
fn container_labels_are_written_in_one_file() {
    let allowed = |s: &Source| s.path == "crates/contract/src/labels.rs" || s.is_test();
    assert_none(
        "a container label belongs in contract/labels.rs",
        &places(allowed, |line| line.contains("\"cc.bdp.lain.")),
    );
}

#[test]
fn docker_is_spoken_in_one_file_of_a_crate() {
    let literal = |line: &str| line.contains("bollard::");
    assert_none("bollard belongs in a file called docker.rs", &places(|s| s.file_name() == "docker.rs", literal));
}

#[test]
fn the_words_and_the_decisions_know_no_runtime() {
    for (krate, banned) in [
        ("crates/contract", &["tokio", "async-nats", "etcd-client", "bollard", "axum", "tracing"][..]),
        ("crates/planner", &["tokio", "async-nats", "etcd-client", "bollard", "axum", "tracing", "fabric"][..]),
        ("crates/fabric", &["planner", "bollard"][..]),
        ("sim", &["tokio", "async-nats", "etcd-client", "bollard", "fabric", "reqwest"][..]),
    ] {
        let manifest = fs::read_to_string(root().join(krate).join("Cargo.toml")).expect("a manifest");
        for name in banned {
            assert!(!manifest.lines().any(|line| line.starts_with(&format!("{name} "))), "{krate} must not use {name}");
        }
    }
}

#[test]
fn the_processes_do_not_know_each_other() {
    let processes = ["apiserver", "scheduler", "agent", "notifier"];
    for krate in processes.into_iter().chain(["cli"]) {
        let manifest = fs::read_to_string(root().join(krate).join("Cargo.toml")).expect("a manifest");
        for other in processes.iter().filter(|other| **other != krate) {
            assert!(
                !manifest.lines().any(|line| line.starts_with(&format!("{other} "))),
                "{krate} must not depend on {other}"
            );
        }
    }
}

#[test]
fn decisions_are_synchronous_and_ordered() {
    let decides = |s: &Source| s.path.starts_with("crates/planner/src") || s.path.contains("/src/core/");
    let banned = ["HashMap", "HashSet", ".await", "async fn", "SystemTime", "Instant::now", "rand::"];
    let found = |line: &str| banned.iter().any(|word| line.contains(word));
    assert_none("decisions take facts and time and return a plan", &places(|s| !decides(s), found));
}

#[test]
fn nothing_unwraps_or_is_left_undone_outside_tests() {
    assert_none(
        "say why it cannot fail, or return the error",
        &places(Source::is_test, |line| line.contains(".unwrap()")),
    );
    let undone = ["todo!(", "unimplemented!(", "FIXME", "TODO", "dbg!("];
    assert_none("finish it", &places(|_| false, |line| undone.iter().any(|word| line.contains(word))));
    assert_none("a test that does not run proves nothing", &places(|_| false, |line| line.contains("#[ignore")));
}

#[test]
fn a_file_has_at_most_800_lines_a_header_and_a_telling_name() {
    let vague = ["utils.rs", "util.rs", "common.rs", "helpers.rs", "helper.rs", "manager.rs", "misc.rs"];
    let mut places = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if lines > 800 {
            places.push(format!("{}: {lines} lines, look for the seam", source.path));
        }
        if !source.text.starts_with("//!") {
            places.push(format!("{}: no //! header", source.path));
        }
        if vague.contains(&source.file_name()) {
            places.push(format!("{}: name the file by its content", source.path));
        }
    }
    assert_none("150 to 400 lines per file, 800 at most, with a //! header and a telling name", &places);
}

#[test]
fn unsafe_is_forbidden_everywhere() {
    for manifest in files("toml").iter().filter(|f| f.file_name() == "Cargo.toml" && f.path != "Cargo.toml") {
        assert!(
            manifest.text.contains("[lints]\nworkspace = true"),
            "{} does not take the workspace's lints",
            manifest.path
        );
    }
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace manifest");
    assert!(workspace.contains("unsafe_code = \"forbid\""));
}

#[test]
fn a_build_finds_its_protoc_though_nobody_has_put_it_on_the_path() {
    let setting = fs::read_to_string(root().join(".cargo/config.toml")).expect("settings of cargo");
    assert!(setting.contains(r#"PROTOC = { value = "deploy/protoc", relative = true }"#), "{setting}");
    let mut protoc = std::process::Command::new(root().join("deploy/protoc"));
    let said = protoc.arg("--version").env("PATH", "/usr/local/bin:/usr/bin:/bin").output().expect("it runs");
    assert!(String::from_utf8_lossy(&said.stdout).starts_with("libprotoc"), "{said:?}");
}
