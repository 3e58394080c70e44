//! All paths that the docs name exist, and all functions that ARCHITECTURE.md and CONTRIBUTING.md name with their file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Following one POST must not take more files than this.
const MOST_FILES_OF_A_POST: usize = 60;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The rows of a walk, `| 1 | text | `file` | `function` |`: label, file and function. A label such as `8a` marks a check or a
/// record on the side.
fn hops(page: &str, title: &str) -> Vec<(String, String, String)> {
    let section = page.split("\n## ").find(|section| section.starts_with(title));
    let section = section.unwrap_or_else(|| panic!("ARCHITECTURE.md has no section '{title}'"));
    let cell = |cell: &str| Some(cell.trim().strip_prefix('`')?.strip_suffix('`')?.to_owned());
    let hop = |line: &str| {
        let cells: Vec<&str> = line.split('|').collect();
        let [_, number, .., file, function, _] = cells.as_slice() else { return None };
        number.trim().trim_end_matches(char::is_alphabetic).parse::<u32>().ok()?;
        Some((number.trim().to_owned(), cell(file)?, cell(function)?))
    };
    section.lines().filter_map(hop).collect()
}

/// What is wrong with the claim that the file defines the function.
fn flaw(file: &str, function: &str) -> Option<String> {
    let Ok(text) = std::fs::read_to_string(root().join(file)) else { return Some(format!("there is no {file}")) };
    let defines = |line: &str| {
        let rest = line.split("fn ").nth(1).and_then(|rest| rest.strip_prefix(function));
        rest.is_some_and(|rest| rest.starts_with(['(', '<']))
    };
    (!text.lines().any(defines)).then(|| format!("{file} has no fn {function}"))
}

/// The pairs `` `file.rs`: `function` ``.
fn pairs(page: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = page.split('`').collect();
    let pair = |parts: &[&'_ str]| parts[1] == ": " && parts[0].ends_with(".rs");
    parts.windows(3).filter(|parts| pair(parts)).map(|parts| (parts[0], parts[2])).collect()
}

#[test]
fn every_function_that_contributing_names_exists_in_its_file() {
    let page = read("CONTRIBUTING.md");
    let pairs = pairs(&page);
    assert!(pairs.len() >= 3, "CONTRIBUTING.md has only {} pairs", pairs.len());
    let missing: Vec<String> = pairs.into_iter().filter_map(|(file, function)| flaw(file, function)).collect();
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_function_of_the_walks_exists_in_the_file_that_is_named() {
    let page = read("ARCHITECTURE.md");
    let mut missing = Vec::new();
    for (title, fewest) in [("Walk: one POST", 30), ("Walk: one rollout", 15), ("Walk: one agent restart", 10)] {
        let hops = hops(&page, title);
        assert!(hops.len() >= fewest, "{title} has only {} hops", hops.len());
        for (_, file, function) in hops {
            missing.extend(flaw(&file, &function).map(|flaw| format!("{title}: {flaw}")));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn a_post_can_be_followed_through_few_files() {
    let hops = hops(&read("ARCHITECTURE.md"), "Walk: one POST");
    let files: BTreeSet<String> =
        hops.into_iter().filter(|(label, ..)| label.parse::<u32>().is_ok()).map(|(_, file, _)| file).collect();
    assert!(files.len() <= MOST_FILES_OF_A_POST, "the walk of a POST names {} files", files.len());
}

/// The pages in the root and in `docs`.
fn pages() -> Vec<String> {
    let in_folder = |folder: &str| {
        let entries = std::fs::read_dir(root().join(folder)).expect("a folder").flatten();
        entries.map(move |entry| format!("{folder}{}", entry.file_name().to_string_lossy())).collect::<Vec<_>>()
    };
    [in_folder(""), in_folder("docs/")].concat().into_iter().filter(|path| path.ends_with(".md")).collect()
}

#[test]
fn every_repository_path_in_the_docs_exists() {
    // The first word of a command too: `./deploy/test quick`.
    let path = |quoted: &str| quoted.split_whitespace().next().unwrap_or_default().trim_start_matches("./").to_owned();
    let is_path = |path: &String| {
        let Some((folder, _)) = path.split_once('/').filter(|(folder, _)| !folder.is_empty()) else { return false };
        let is_ours = root().join(folder).is_dir() || path.ends_with(".rs") || path.ends_with('/');
        let is_built = ["target", ".deployd"].contains(&folder);
        is_ours && !is_built && !path.contains(['*', '{', '<', '…', ':'])
    };
    let (mut seen, mut missing) = (0, Vec::new());
    for page in pages() {
        let text = read(&page);
        let paths: Vec<String> = text.split('`').skip(1).step_by(2).map(path).filter(is_path).collect();
        seen += paths.len();
        missing.extend(paths.iter().filter(|path| !root().join(path).exists()).map(|path| format!("{page}: {path}")));
    }
    assert!(seen > 200, "found only {seen} paths");
    assert!(missing.is_empty(), "these paths do not exist:\n{}", missing.join("\n"));
}
