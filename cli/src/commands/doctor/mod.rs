//! `doctor`: checks this machine, the connection to the cluster, and the cluster.

mod cluster;
mod machine;

use serde::Serialize;

use crate::args::{Endpoint, Output};
use crate::output::{print_json, print_yaml, table};

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    /// It may be meant.
    Warning,
    Failed,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Check {
    name: &'static str,
    verdict: Verdict,
    /// What was found, and what helps.
    detail: String,
}

impl Check {
    /// The check passes, or `verdict` and the remedy.
    fn new(name: &'static str, otherwise: Verdict, result: Result<String, String>) -> Self {
        match result {
            Ok(detail) => Self { name, verdict: Verdict::Ok, detail },
            Err(detail) => Self { name, verdict: otherwise, detail },
        }
    }

    fn warn(name: &'static str, result: Result<String, String>) -> Self {
        Self::new(name, Verdict::Warning, result)
    }

    fn fail(name: &'static str, result: Result<String, String>) -> Self {
        Self::new(name, Verdict::Failed, result)
    }
}

/// `deployctl doctor`; returns whether no check failed.
pub async fn doctor(endpoint: &Endpoint, output: Output) -> bool {
    let mut checks = machine::checks(endpoint).await;
    checks.extend(cluster::checks(endpoint).await);
    match output {
        Output::Json => print_json(&checks),
        Output::Yaml => print_yaml(&checks),
        Output::Table => print(&checks),
    }
    !checks.iter().any(|check| check.verdict == Verdict::Failed)
}

fn print(checks: &[Check]) {
    let mut table = table::plain(&["check", "state", "detail"]);
    for Check { name, verdict, detail } in checks {
        table.add_row([(*name).to_owned(), word(*verdict).to_owned(), detail.clone()]);
    }
    table.print();
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    let (warnings, failed) = (count(Verdict::Warning), count(Verdict::Failed));
    println!("{} checks: {warnings} warnings, {failed} failed", checks.len());
    // The table may be cut; a remedy must be readable.
    for Check { name, verdict, detail } in checks.iter().filter(|check| check.verdict == Verdict::Failed) {
        println!("{}: {name}: {detail}", word(*verdict));
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Warning => "warning",
        Verdict::Failed => "failed",
    }
}
