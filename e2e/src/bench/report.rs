//! The result of a run: `bench.json`, and plain lines for the terminal. `deploy/bench-table` makes Markdown from the JSON.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::figure::Figure;
use super::fleet::Measured;
use super::machine::Machine;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// What a reader must know to judge the figures.
    pub(crate) notes: Vec<String>,
    pub(crate) figures: Vec<Figure>,
    /// Simulated agents, one run per size.
    pub(crate) simulated: Vec<Measured>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub(crate) struct Error {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl Report {
    pub(crate) fn is_empty(&self) -> bool {
        self.figures.is_empty() && self.simulated.is_empty()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let first = std::iter::once(self.machine.shown()).chain(self.notes.iter().cloned());
        first
            .chain(self.figures.iter().flat_map(Figure::lines))
            .chain(self.simulated.iter().flat_map(Measured::lines))
            .collect()
    }

    /// Writes `bench.json` into `folder` and returns its path.
    pub(crate) fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        let failed = |path: &Path, source| Error { path: path.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
        let path = folder.join("bench.json");
        let text = serde_json::to_vec_pretty(self).map_err(|error| failed(&path, error.into()))?;
        std::fs::write(&path, text).map_err(|source| failed(&path, source))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::figure::tests::race;
    use super::super::fleet::Fleet;
    use super::*;

    #[test]
    fn a_run_leaves_one_json_file_whose_rows_have_sample_size_and_spread() {
        let machine = Machine::look(super::super::docker::EngineFacts::default());
        let fleet = Fleet { nodes: 2, instances: 10 };
        let simulated = vec![Measured { fleet, figures: json!({"running_seconds": 1.5}) }];
        let report = Report { machine, notes: vec!["a note".to_owned()], figures: vec![race(10, 20, 10)], simulated };
        let folder = tempfile::tempdir().unwrap();
        let path = report.write(&folder.path().join("bench")).unwrap();
        let value: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let row = json!({"label": "Swarm mode", "n": 1, "min": 2.0, "p50": 2.0, "p99": 2.0, "max": 2.0});
        assert_eq!((&value["figures"][0]["name"], &value["figures"][0]["rows"][1]), (&json!("start-50"), &row));
        assert_eq!(value["simulated"][0], json!({"nodes": 2, "instances": 10, "figures": {"running_seconds": 1.5}}));
        let lines = report.lines();
        assert!(lines.contains(&"a note".to_owned()), "{lines:?}");
        assert!(lines.contains(&"2 nodes, 10 instances: running_seconds 1.5".to_owned()), "{lines:?}");
    }
}
