//! Converts a compose file to documents of the short form, one for each service. Pure.
//!
//! What deployd has no counterpart for is reported with its path and place, so that nothing is lost silently.

mod parts;
mod service;

use crate::document::problem::DocumentProblem;
use crate::document::tree::{TextPosition, YamlMember, YamlNode, YamlTree};

use super::values::Written;

/// The documents of a compose file, and what they leave out.
pub(crate) struct ConvertedCompose {
    pub(crate) documents: Vec<Written>,
    pub(crate) reports: Vec<DocumentProblem>,
}

/// Converts the services of a file. `project` is the name of the project when the file names none.
pub(crate) fn compose(file: &YamlNode, project: &str) -> Result<ConvertedCompose, DocumentProblem> {
    let Some(services) = file.member("services").filter(|services| matches!(services.node.tree, YamlTree::Map(_)))
    else {
        let problem = "a compose file has a mapping `services`".to_owned();
        return Err(DocumentProblem { position: file.position, field: String::new(), problem });
    };
    let mut reports = Reports::default();
    let named = file.member("name").and_then(|name| reports.text(&name.node, "name"));
    let project = named.unwrap_or_else(|| project.to_owned());
    for member in file.members() {
        match member.key.as_str() {
            "services" | "name" | "version" => {}
            "volumes" => reports.volumes(member),
            other if is_extension(other) => {}
            other => reports.unsupported(member, other),
        }
    }
    let documents = services.node.members().iter();
    let documents = documents.filter(|service| !is_extension(&service.key));
    let documents: Vec<Written> = documents.map(|member| service::service(member, &project, &mut reports)).collect();
    if documents.len() > 1 {
        let problem = "a service does not reach another one by its name: deployd has no service discovery";
        reports.add(services.position, "services", problem);
    }
    reports.found.sort_by_key(|report| report.position.map(|at| (at.line, at.column)));
    Ok(ConvertedCompose { documents, reports: reports.found })
}

/// Keys that begin with `x-` are for other programs.
fn is_extension(key: &str) -> bool {
    key.starts_with("x-")
}

#[derive(Default)]
struct Reports {
    found: Vec<DocumentProblem>,
}

impl Reports {
    fn add(&mut self, position: Option<TextPosition>, field: impl Into<String>, problem: impl Into<String>) {
        self.found.push(DocumentProblem { position, field: field.into(), problem: problem.into() });
    }

    /// A key without a counterpart; with the reason where there is one.
    fn unsupported(&mut self, member: &YamlMember, path: &str) {
        let reason = match path.rsplit('.').next().unwrap_or(path) {
            "build" => "build the image and push it to a registry that the nodes reach",
            "depends_on" => "services start in any order and restart until what they need is there",
            "networks" | "links" | "network_mode" => "the groups of a namespace share one network",
            "secrets" | "configs" => "write the values into env, or into the image",
            "container_name" | "hostname" => "deployd names the containers of an instance",
            "env_file" => "write its variables into env",
            _ => "deployd has no counterpart",
        };
        self.add(member.position, path, format!("not supported; {reason}"));
    }

    /// The keys of a mapping that nothing reads.
    fn others(&mut self, node: &YamlNode, path: &str, known: &[&str]) {
        for member in node.members().iter().filter(|member| !known.contains(&member.key.as_str())) {
            if !is_extension(&member.key) {
                self.unsupported(member, &format!("{path}.{}", member.key));
            }
        }
    }

    /// A scalar as text. A variable is reported, because its value is not in the file.
    fn text(&mut self, node: &YamlNode, path: &str) -> Option<String> {
        let text = match &node.tree {
            YamlTree::Text(text) => text.clone(),
            YamlTree::Flag(_) | YamlTree::Integer(_) | YamlTree::Float(_) => node.raw.clone(),
            YamlTree::Null => return None,
            YamlTree::List(_) | YamlTree::Map(_) => {
                self.add(node.position, path, "not supported; a plain value is");
                return None;
            }
        };
        let plain = text.replace("$$", "");
        let mut after = plain.match_indices('$').filter_map(|(at, _)| plain[at + 1..].chars().next());
        if after.any(|letter| letter == '{' || letter == '_' || letter.is_ascii_alphabetic()) {
            self.add(node.position, path, "holds a variable, which is not replaced; write its value");
        }
        Some(text.replace("$$", "$"))
    }

    /// Named volumes become directories of the instances; their settings have no counterpart.
    fn volumes(&mut self, volumes: &YamlMember) {
        for volume in volumes.node.members() {
            self.others(&volume.node, &format!("volumes.{}", volume.key), &["name"]);
        }
    }
}
