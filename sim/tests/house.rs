//! Rules about the source tree, checked by reading the files: where things belong, and how files look.
//!
//! Each rule names the right place, so that a failure reads as advice. The rules look at text, not at types. They apply to
//! tests too unless a rule says otherwise.

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
        let starts = ["", "pub(super) ", "pub(crate) "].map(|public| format!("#[cfg(test)]\n{public}mod "));
        let end = starts.iter().filter_map(|start| self.text.find(start)).min().unwrap_or(self.text.len());
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
    assert!(sources.len() > 50, "the test found only {} source files", sources.len());
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
    let kinds = ["command", "order", "report", "resync", "inspect", "session", "notice", "dead", "query", "event"];
    let literal = |line: &str| kinds.iter().any(|kind| line.contains(&format!("\"deployd.{kind}")));
    assert_none(
        "a NATS subject belongs in crates/contract/src/basics/subjects.rs",
        &places(|s| s.path == "crates/contract/src/basics/subjects.rs", literal),
    );
}

#[test]
fn keys_are_written_in_one_file() {
    let literal = |line: &str| line.contains("\"/deployd/");
    assert_none(
        "an etcd key belongs in crates/contract/src/stored/keys.rs",
        &places(|s| s.path == "crates/contract/src/stored/keys.rs", literal),
    );
}

#[test]
fn container_labels_are_written_in_one_file() {
    let allowed = |s: &Source| s.path == "crates/contract/src/basics/labels.rs" || s.is_test();
    assert_none(
        "a container label belongs in crates/contract/src/basics/labels.rs",
        &places(allowed, |line| line.contains("\"cc.bdp.lain.")),
    );
}

#[test]
fn only_docker_rs_uses_bollard() {
    let literal = |line: &str| line.contains("bollard::");
    assert_none("bollard belongs in a file called docker.rs", &places(|s| s.file_name() == "docker.rs", literal));
}

#[test]
fn contract_and_planner_depend_on_no_runtime() {
    for (krate, banned) in [
        ("crates/contract", &["tokio", "async-nats", "etcd-client", "bollard", "axum", "tracing"][..]),
        ("crates/planner", &["tokio", "async-nats", "etcd-client", "bollard", "axum", "tracing", "fabric"][..]),
        ("crates/fabric", &["planner", "bollard"][..]),
        ("crates/testkit", &["async-nats", "etcd-client", "bollard", "axum", "scheduler"][..]),
        ("sim", &["tokio", "async-nats", "etcd-client", "bollard", "fabric", "reqwest"][..]),
    ] {
        let manifest = fs::read_to_string(root().join(krate).join("Cargo.toml")).expect("a manifest");
        for name in banned {
            assert!(!manifest.lines().any(|line| line.starts_with(&format!("{name} "))), "{krate} must not use {name}");
        }
    }
}

#[test]
fn processes_do_not_depend_on_each_other() {
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
fn only_tests_and_test_tools_use_the_test_kit() {
    for manifest in files("toml").iter().filter(|f| f.file_name() == "Cargo.toml" && f.path != "Cargo.toml") {
        let is_tool = ["sim/Cargo.toml", "e2e/Cargo.toml"].contains(&manifest.path.as_str());
        let product = manifest.text.split("[dev-dependencies]").next().unwrap_or_default();
        assert!(is_tool || !product.contains("\ntestkit "), "{}: testkit belongs in [dev-dependencies]", manifest.path);
    }
}

#[test]
fn decisions_are_synchronous_and_ordered() {
    // Fakes too: a test with the same inputs must always run the same way.
    let folders = ["crates/planner/src", "crates/testkit/src"];
    let decides = |s: &Source| folders.iter().any(|f| s.path.starts_with(f)) || s.path.contains("/src/core/");
    let banned = ["HashMap", "HashSet", ".await", "async fn", "SystemTime", "Instant::now", "rand::"];
    let found = |line: &str| banned.iter().any(|word| line.contains(word));
    assert_none("decisions take facts and time and return a plan", &places(|s| !decides(s), found));
}

#[test]
fn no_unwrap_outside_tests_no_todo_and_no_ignored_test() {
    assert_none(
        "use expect with the reason why it cannot fail, or return the error",
        &places(Source::is_test, |line| line.contains(".unwrap()")),
    );
    let undone = ["todo!(", "unimplemented!(", "FIXME", "TODO", "dbg!("];
    assert_none("finish it", &places(|_| false, |line| undone.iter().any(|word| line.contains(word))));
    assert_none("an ignored test proves nothing", &places(|_| false, |line| line.contains("#[ignore")));
}

/// Lines per file.
const LONGEST_FILE: usize = 800;

#[test]
fn a_file_has_at_most_800_lines_a_header_and_a_telling_name() {
    let vague = ["utils.rs", "util.rs", "common.rs", "helpers.rs", "helper.rs", "manager.rs", "misc.rs"];
    let mut places = Vec::new();
    for source in sources() {
        // Split by concept, not to satisfy the number: a type's methods live in its own file or folder.
        let lines = source.text.lines().count();
        if lines > LONGEST_FILE {
            places.push(format!("{}: {lines} lines, split it", source.path));
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
fn a_build_finds_protoc_without_one_on_the_path() {
    let setting = fs::read_to_string(root().join(".cargo/config.toml")).expect("settings of cargo");
    assert!(setting.contains(r#"PROTOC = { value = "deploy/protoc", relative = true }"#), "{setting}");
    let mut protoc = std::process::Command::new(root().join("deploy/protoc"));
    let version = protoc.arg("--version").env("PATH", "/usr/local/bin:/usr/bin:/bin").output().expect("it runs");
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("libprotoc"), "{version:?}");
}

/// Idioms that hide the actor or the action: each first word with each second word. Name the leader, the agent, the
/// planner or the user, and use the words of docs/glossary.md. Joined by `_`, so that this list has no idiom itself.
const IDIOMS: &[(&str, &str)] = &[
    ("whoever_nobody_somebody_whom", ""),
    ("who", "is_was_has_had_are_were_does_did_serves_waits_ends_ended_asks_leads"),
    ("is_are_was_were_be", "told"),
    ("go_goes", "on"),
    ("made", "anew"),
    ("for", "good"),
    ("so", "many_long_often"),
    ("under", "way"),
    ("turned", "to"),
    ("all the", "same"),
];

fn idioms() -> impl Iterator<Item = String> {
    IDIOMS.iter().flat_map(|(first, second)| {
        let phrase = move |first: &str, second: &str| format!("{first} {second}").trim_end().to_owned();
        first.split('_').flat_map(move |first| second.split('_').map(move |second| phrase(first, second)))
    })
}

/// Splits an identifier into words: `OldPodsFirst` and `old_pods_first` become `old pods first`.
fn split_identifiers(text: &str) -> String {
    let mut words = String::new();
    for letter in text.chars() {
        if letter.is_uppercase() && words.ends_with(char::is_lowercase) {
            words.push(' ');
        }
        words.push(if letter == '_' { ' ' } else { letter });
    }
    words.to_lowercase()
}

fn has_idiom(text: &str) -> bool {
    let text = split_identifiers(text);
    let is_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    idioms().any(|idiom| {
        text.match_indices(&idiom).any(|(start, _)| {
            let (before, after) = (&text[..start], &text[start + idiom.len()..]);
            !is_word(before.chars().next_back()) && !is_word(after.chars().next())
        })
    })
}

/// The identifiers of a line of code, without its string literals, comma separated: an idiom is found within one of them.
fn identifiers(line: &str) -> String {
    let code = line.split('"').step_by(2);
    let words = code.flat_map(|code| code.split(|letter: char| !letter.is_alphanumeric() && letter != '_'));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
}

/// The string literals that begin and end on this line, with their quotes.
fn literals(line: &str) -> impl Iterator<Item = String> {
    line.split('"').skip(1).step_by(2).map(|literal| format!("\"{literal}\""))
}

/// `file:line: text` of every line, or part of a line, that `parts` returns and that has an idiom.
fn idioms_in(sources: &[Source], parts: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        for (index, line) in source.text.lines().enumerate() {
            let bad = parts(line.trim()).into_iter().filter(|part| has_idiom(part));
            found.extend(bad.map(|part| format!("{}:{}: {part}", source.path, index + 1)));
        }
    }
    found
}

#[test]
fn comments_name_the_actor() {
    let comment = |line: &str| line.starts_with("//").then(|| line.to_owned()).into_iter().collect();
    assert_none("comment lines that hide the actor", &idioms_in(&sources(), comment));
}

#[test]
fn help_errors_and_logs_name_the_actor() {
    let literal = |line: &str| if line.starts_with("//") { Vec::new() } else { literals(line).collect() };
    assert_none("string literals that hide the actor", &idioms_in(&sources(), literal));
}

#[test]
fn identifiers_name_the_actor() {
    let code = |line: &str| if line.starts_with("//") { Vec::new() } else { vec![identifiers(line)] };
    assert_none("names of types, functions, tests and values that hide the actor", &idioms_in(&sources(), code));
}

#[test]
fn docs_name_the_actor() {
    let pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
    let is_page = |file: &Source| pages.contains(&file.path.as_str()) || file.path.starts_with("docs/");
    let docs: Vec<Source> = files("md").into_iter().filter(is_page).collect();
    assert!(docs.len() > pages.len(), "found only {} pages", docs.len());
    assert_none("lines of the docs that hide the actor", &idioms_in(&docs, |line| vec![line.to_owned()]));
}

#[test]
fn an_idiom_is_found_as_whole_words() {
    assert_eq!(idioms().count(), 33);
    for idiom in idioms() {
        assert!(has_idiom(&format!("The pod {idiom}, then")) && has_idiom(&idiom.to_uppercase()), "{idiom}");
        assert!(has_idiom(&format!("the_pod_{}_then", idiom.replace(' ', "_"))), "{idiom}");
        assert!(!has_idiom(&format!("x{idiom}")) && !has_idiom(&format!("{idiom}x")), "{idiom}");
    }
    assert!(has_idiom("AgentGoesOnWorking") && !has_idiom("AgentGoesOnce"));
    assert!(!has_idiom("The agent reports the exit."));
    assert_eq!(identifiers(r#"a_b("c", D::e)"#), "a_b, D, e");
    assert_eq!(literals(r#"error!(pod, "a", "b")"#).collect::<Vec<_>>(), ["\"a\"", "\"b\""]);
}

/// Holes that docs/security.md leaves out: secrets and private registries.
const OPEN_HOLES: [u32; 2] = [12, 35];

#[test]
fn every_closed_hole_names_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/security.md")).expect("docs/security.md");
    let sources = files("rs");
    let exists = |name: &str| {
        let function = format!("fn {name}(");
        root().join(name).is_file() || sources.iter().any(|source| source.text.contains(&function))
    };
    let hole = |line: &str| line.strip_prefix("| V")?.split_once(" |")?.0.parse::<u32>().ok();
    let rows: Vec<(u32, &str)> = page.lines().filter_map(|line| Some((hole(line)?, line))).collect();
    let closed: Vec<u32> = (1..=36).filter(|number| !OPEN_HOLES.contains(number)).collect();
    assert_eq!(rows.iter().map(|(number, _)| *number).collect::<Vec<_>>(), closed);
    let mut missing = Vec::new();
    for (number, line) in rows {
        let tests = line.rsplit(" | ").next().unwrap_or_default();
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "V{number} names no test");
        missing.extend(names.into_iter().filter(|name| !exists(name)).map(|name| format!("V{number}: {name}")));
    }
    assert_none("docs/security.md names tests that do not exist", &missing);
}
