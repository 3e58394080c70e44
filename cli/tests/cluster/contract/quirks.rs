//! Each known defect of the original has a row: the defect, and the behaviour here.

use crate::cluster::repository;

/// The last of the Q numbers.
const LAST: u32 = 51;

#[test]
fn every_quirk_is_in_the_compatibility_table_and_none_is_left_for_later() {
    let page = std::fs::read_to_string(repository().join("docs/compatibility.md")).expect("the page");
    let number = |line: &str| line.strip_prefix("| ")?.split(' ').next()?.parse::<u32>().ok();
    let lines: Vec<(u32, &str)> = page.lines().filter_map(|line| Some((number(line)?, line))).collect();
    let numbers: Vec<u32> = lines.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=LAST).collect::<Vec<u32>>(), "one line each, in order");
    for (_, line) in lines {
        assert!(
            !line.contains("later (") && line.matches(" | ").count() == 2,
            "three columns, and nothing for later: {line}"
        );
    }
}

/// A row or a scenario that follows a quirk's recommendation names it; the page says which test shows it otherwise.
#[test]
fn what_the_tests_call_a_quirk_is_one() {
    let folders = ["cli/tests/cluster/contract", "apiserver/tests/api/contract/rows"];
    let files = folders.into_iter().flat_map(|folder| std::fs::read_dir(repository().join(folder)).expect("a folder"));
    let mut named = std::collections::BTreeSet::new();
    for file in files.flatten() {
        let text = std::fs::read_to_string(file.path()).expect("text");
        named.extend(text.split("Q-").skip(1).filter_map(|rest| rest.get(..2)?.parse::<u32>().ok()));
    }
    assert!(named.iter().all(|number| (1..=LAST).contains(number)), "{named:?}");
    assert!(named.len() >= 15, "only {named:?}");
}
