//! The commands that write, convert and explain documents: `init`, `run`, `set`, `convert`, `explain`.

mod init;
mod run;
mod set;

pub use init::init;
pub use run::run;
pub use set::set;

use std::path::{Path, PathBuf};

use crate::args::{Convert, ConvertFrom, ConvertTo, Explain};
use crate::commands::apply;
use crate::document::{self, Document};
use crate::output::terminal;
use crate::short;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The flags make no valid document.
    #[error("the flags do not describe a valid PodGroup")]
    Flags(#[source] document::Error),
    #[error("{key}: unknown key; {hint}")]
    Key { key: String, hint: String },
    #[error("{0}")]
    Value(String),
    #[error("PodGroup {name} has {count} containers; choose one with --container 0..{last}", last = .count.saturating_sub(1))]
    Container { name: String, count: usize },
    #[error(
        "PodGroup {name} exists and differs in {fields}; change it with `deployctl set` or `deployctl apply`, or choose another \
         name with --name"
    )]
    Exists { name: String, fields: String },
    #[error("{0} exists; edit it, or name another directory")]
    FileExists(PathBuf),
    #[error("cannot write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// `deployctl convert`
pub fn convert(asked: &Convert) -> Result<(), crate::Error> {
    if asked.from == ConvertFrom::Compose {
        return compose(asked);
    }
    show(&apply::documents(&asked.file, document::read)?, asked.to.unwrap_or(ConvertTo::Spec));
    Ok(())
}

/// Prints the documents of a compose file, and reports what they leave out.
fn compose(asked: &Convert) -> Result<(), crate::Error> {
    let text = apply::read(&asked.file)?;
    let wrong = |source| apply::Error::Document { path: asked.file.clone(), source };
    let folder = asked.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let project = asked.project.clone().or_else(|| directory_name(folder)).unwrap_or_else(|| "app".to_owned());
    let (documents, reports) = document::read_compose(&text, &project).map_err(wrong)?;
    for report in &reports {
        eprintln!("{}: {report}", asked.file.display());
    }
    let text = documents.join("---\n");
    match asked.to.unwrap_or(ConvertTo::Short) {
        ConvertTo::Short => println!("{}", text.trim_end()),
        to @ ConvertTo::Spec => show(&document::read(&text).map_err(wrong)?, to),
    }
    Ok(())
}

fn show(documents: &[Document], to: ConvertTo) {
    for (index, document) in documents.iter().enumerate() {
        match to {
            ConvertTo::Spec => {
                let json = serde_json::to_string_pretty(&document.spec).expect("a spec has string keys only");
                terminal::print_json(&json);
            }
            ConvertTo::Short => {
                let mark = if index == 0 { "" } else { "---\n" };
                println!("{mark}{}", short::to_short_yaml(&document.spec).trim_end());
            }
        }
    }
}

/// The name of a directory with the letters that names of groups may have.
fn directory_name(dir: &Path) -> Option<String> {
    let full = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let name = full.file_name()?.to_string_lossy().to_lowercase();
    let name: String = name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect();
    Some(name.trim_matches('-').to_owned()).filter(|name| !name.is_empty())
}

/// `deployctl explain`
pub fn explain(asked: &Explain) -> Result<(), crate::Error> {
    if asked.schema {
        terminal::print_json(&format!("{:#}", short::schema()));
        return Ok(());
    }
    if asked.markdown {
        println!("{}", short::reference().trim_end());
        return Ok(());
    }
    let explained = short::explain(asked.key.as_deref());
    let text = explained.map_err(|hint| Error::Key { key: asked.key.clone().unwrap_or_default(), hint })?;
    println!("{text}");
    Ok(())
}
