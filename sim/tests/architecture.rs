//! ARCHITECTURE.md and CONTRIBUTING.md name files and functions: all of them exist.

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

#[test]
fn every_function_of_the_walks_exists_in_the_file_that_is_named() {
    let page = read("ARCHITECTURE.md");
    let mut missing = Vec::new();
    for (title, fewest) in [("Walk: one POST", 30), ("Walk: one rollout", 15), ("Walk: one agent restart", 10)] {
        let hops = hops(&page, title);
        assert!(hops.len() >= fewest, "{title} has only {} hops", hops.len());
        for (_, file, function) in hops {
            let Ok(text) = std::fs::read_to_string(root().join(&file)) else {
                missing.push(format!("{title}: there is no {file}"));
                continue;
            };
            let defines = |line: &str| {
                line.split("fn ").nth(1).is_some_and(|rest| {
                    rest.strip_prefix(function.as_str()).is_some_and(|rest| rest.starts_with(['(', '<']))
                })
            };
            if !text.lines().any(defines) {
                missing.push(format!("{title}: {file} has no fn {function}"));
            }
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

#[test]
fn every_path_in_the_pages_for_engineers_exists() {
    let pages = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/glossary.md", "docs/testing.md", "docs/rollout-rules.md"];
    let is_path = |text: &str| {
        text.contains('/')
            && (text.ends_with(".rs") || text.ends_with('/'))
            && !text.contains(['*', '{', ' ', '<'])
            && !text.starts_with('/')
    };
    let mut missing = Vec::new();
    for page in pages {
        let text = read(page);
        let named = text.split('`').skip(1).step_by(2).filter(|text| is_path(text));
        missing.extend(named.filter(|path| !root().join(path).exists()).map(|path| format!("{page}: {path}")));
    }
    assert!(missing.is_empty(), "these paths do not exist:\n{}", missing.join("\n"));
}
