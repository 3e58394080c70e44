//! The programs that deployd ships contain no mutants.
//!
//! Cargo enables a feature for every package of one build. A build that includes `sim` would therefore put the mutants into the
//! scheduler and the agent, so `sim` is no default member of the workspace, and the scripts in `deploy` name their packages.

use std::fs;
use std::path::{Path, PathBuf};

/// Programs and the text that each contains only if it was built with the mutants.
const MARKERS: [(&str, &str); 2] = [
    ("deployd-scheduler", scheduler::core::mutants::PANIC_MESSAGE),
    ("deployd-agent", agent::core::mutants::PANIC_MESSAGE),
];

fn contains(program: &Path, marker: &str) -> bool {
    let bytes = fs::read(program).unwrap_or_else(|error| panic!("cannot read {}: {error}", program.display()));
    bytes.windows(marker.len()).any(|window| window == marker.as_bytes())
}

/// The folder of this build, which must hold the programs, and the other folders that `deploy` builds programs in.
fn folders() -> (PathBuf, Vec<PathBuf>) {
    let here = Path::new(env!("CARGO_BIN_EXE_sim")).parent().expect("a folder of programs").to_owned();
    let target = here.parent().expect("a target folder");
    let others = ["debug", "release", "trial", "static/debug", "static/release"].map(|folder| target.join(folder));
    let others = others.into_iter().filter(|folder| *folder != here).collect();
    (here, others)
}

#[test]
fn the_search_finds_the_mutants_in_the_simulator() {
    let simulator = Path::new(env!("CARGO_BIN_EXE_sim"));
    for (_, marker) in MARKERS {
        assert!(contains(simulator, marker), "{} lacks `{marker}`, so the search proves nothing", simulator.display());
    }
}

#[test]
fn the_shipped_programs_contain_no_mutants() {
    let (here, others) = folders();
    for (name, marker) in MARKERS {
        let program = here.join(name);
        assert!(program.exists(), "{} is missing: cargo build --bins", program.display());
        let programs = others.iter().map(|folder| folder.join(name)).filter(|program| program.exists());
        for program in programs.chain([program]) {
            let advice = "build it without `sim`: cargo build --bins, without --workspace";
            assert!(!contains(&program, marker), "{} contains the mutants; {advice}", program.display());
        }
    }
}
