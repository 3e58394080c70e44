//! docs/operations.md explains every metric and every kind of event, and every `deployctl` command in it parses.

use std::path::{Path, PathBuf};

use clap::Parser;
use cli::args::Args;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn page() -> String {
    std::fs::read_to_string(repository().join("docs/operations.md")).expect("docs/operations.md")
}

/// What stands between the quotes that follow each `before`.
fn quoted(text: &str, before: &str) -> Vec<String> {
    let after = text.split(before).skip(1);
    after.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next().map(str::to_owned)).collect()
}

#[test]
fn every_metric_of_every_process_is_explained() {
    let page = page();
    let mut known = 0;
    for process in ["apiserver", "scheduler", "agent", "notifier"] {
        let path = repository().join(process).join("src/metrics.rs");
        let source = std::fs::read_to_string(&path).expect("the figures of a process");
        let prefix = quoted(&source, "with_prefix(").into_iter().next().expect("a prefix");
        for name in quoted(&source, ".register(") {
            // After one full metric name the page may list others without the prefix.
            let statuses = [format!("`{prefix}_{name}`"), format!("`_{name}`")].iter().any(|name| page.contains(name));
            assert!(statuses, "docs/operations.md, What to do for each alert, does not name {prefix}_{name}");
            known += 1;
        }
    }
    assert!(known > 25, "only {known} metrics were found: the search of the sources is broken");
}

#[test]
fn every_kind_of_event_is_explained() {
    let page = page();
    let (_, alerts) = page.split_once("## What to do for each alert").expect("the section");
    for kind in contract::event::Kind::ALL {
        assert!(alerts.contains(&format!("`{}`", kind.word())), "{} is not explained", kind.word());
    }
}

#[test]
fn every_command_of_the_page_exists() {
    let page = page();
    let advised = page.split('`').filter(|text| text.starts_with("deployctl ") && !text.contains('\n'));
    let mut tried = 0;
    for text in advised {
        // Text that names a command by its first words only, or with flags to choose from, is no line to type.
        let line = text.replace("URL,URL", "http://a:1").replace("URL", "http://a:1").replace("NODE", "node-1");
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Err(error) = Args::try_parse_from(&words) {
            let lacks = [clap::error::ErrorKind::MissingRequiredArgument, clap::error::ErrorKind::MissingSubcommand];
            let help = clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
            assert!(lacks.contains(&error.kind()) || error.kind() == help, "{text}: {error}");
        }
        tried += 1;
    }
    assert!(tried > 15, "only {tried} commands were tried");
}
