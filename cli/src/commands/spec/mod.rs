//! The commands that write, convert and explain documents: `init`, `run`, `set`, `convert`, `explain`.

mod init;
mod run;
mod set;

pub use init::init;
pub use run::run;
pub use set::set;

use std::path::PathBuf;

use crate::args::{Convert, ConvertTo, Explain};
use crate::commands::apply;
use crate::document;
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
    let documents = apply::documents(&asked.file, document::read)?;
    for (index, document) in documents.iter().enumerate() {
        match asked.to {
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
    Ok(())
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
