//! What is left of a run: a page of tables, the same for programs, and a picture of each figure.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::chart::Chart;
use super::growth::{self, Measured};
use super::machine::Machine;
use super::{svg, table};

/// Everything one run found out.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// Things a reader must know to judge the figures.
    pub(crate) notes: Vec<String>,
    pub(crate) charts: Vec<Chart>,
    pub(crate) scale: Vec<Measured>,
}

/// Why nothing is left.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub(crate) struct Error {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl Report {
    /// Nothing was measured.
    pub(crate) fn is_empty(&self) -> bool {
        self.charts.is_empty() && self.scale.is_empty()
    }

    /// The tables, as they are printed and pasted.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n", self.machine.shown());
        for note in &self.notes {
            text.push_str(&format!("{note}\n"));
        }
        text.push_str(&format!("\n{}", table::tables(&self.charts)));
        if !self.scale.is_empty() {
            text.push_str(&format!("\n{}", growth::table(&self.scale)));
        }
        text
    }

    fn json(&self) -> Value {
        json!({
            "machine": self.machine.json(),
            "notes": self.notes,
            "figures": self.charts.iter().map(Chart::json).collect::<Vec<_>>(),
            "scale": self.scale.iter().map(Measured::json).collect::<Vec<_>>(),
        })
    }

    /// Writes `bench.json`, `bench.md` and one picture per figure.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), Error> {
        let failed = |path: &Path, source| Error { path: path.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
        let grown = growth::charts(&self.scale);
        let pictures = self.charts.iter().chain(&grown).map(|chart| (format!("{}.svg", chart.name), svg::draw(chart)));
        let texts = [("bench.json".to_owned(), format!("{:#}\n", self.json())), ("bench.md".to_owned(), self.text())];
        for (name, text) in texts.into_iter().chain(pictures) {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|source| failed(&path, source))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::chart::tests::race;
    use super::super::growth::tests::measured;
    use super::*;

    #[test]
    fn a_run_leaves_a_page_a_file_for_programs_and_a_picture_per_figure() {
        let machine = Machine::look(super::super::docker::EngineFacts::default());
        let notes = vec!["raw Docker: 8 at a time".to_owned()];
        let scale = vec![measured(2, 10, json!({"running_seconds": 1.5}))];
        let report = Report { machine, notes, charts: vec![race(1.0, 2.0, 1.0)], scale };
        let folder = tempfile::tempdir().unwrap();
        report.write(&folder.path().join("bench")).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join("bench").join(name)).unwrap();
        let value: Value = serde_json::from_str(&read("bench.json")).unwrap();
        assert_eq!((&value["figures"][0]["name"], &value["scale"][0]["nodes"]), (&json!("start-50"), &json!(2)));
        assert!(read("start-50.svg").contains("Swarm mode") && read("agents-running.svg").contains("10 on 2 nodes"));
        let page = read("bench.md");
        assert!(
            page.contains("8 at a time") && page.contains("| 50 instances |") && page.contains("| 1.50 s"),
            "{page}"
        );
    }
}
