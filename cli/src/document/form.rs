//! Decides in which form a document is written. Pure.
//!
//! `Pod` or `NumInstances`, in any case, makes it a PodGroupSpec; `image` or `containers` makes it the short form. A document
//! with neither is a PodGroupSpec if its first key begins with a capital letter, else the short form.

use super::problem::DocumentProblem;
use super::tree::{YamlMember, YamlNode};

/// The form of a document that describes a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentForm {
    /// A PodGroupSpec, as the API takes it.
    Spec,
    Short,
}

const KUBERNETES: &str = "this looks like a Kubernetes manifest, which deployd does not run; `deployctl init` writes an example \
    of the form that it takes, and docs/spec.md explains every key";
const COMPOSE: &str = "this looks like a compose file, which describes several services; `deployctl convert --from compose -f FILE` \
    converts each of them and says what it leaves out";

/// The form, or why it is none.
pub(super) fn of(document: &YamlNode) -> Result<DocumentForm, DocumentProblem> {
    let foreign = |key: &str, problem: &str| document.member(key).map(|member| refused(member, problem.to_owned()));
    if let (Some(problem), true) = (foreign("apiVersion", KUBERNETES), document.member("kind").is_some()) {
        return Err(problem);
    }
    let long = ["Pod", "NumInstances"].into_iter().find_map(|key| document.member_in_any_case(key));
    let short = ["image", "containers"].into_iter().find_map(|key| document.member(key));
    match (long, short, document.members().first()) {
        (None, None, _) if document.member("services").is_some() => {
            foreign("services", COMPOSE).map_or(Ok(DocumentForm::Short), Err)
        }
        (Some(long), Some(short), _) => Err(mixed(long, short)),
        (Some(_), None, _) => Ok(DocumentForm::Spec),
        (None, Some(_), _) => Ok(DocumentForm::Short),
        (None, None, Some(first)) if !first.key.starts_with(char::is_uppercase) => Ok(DocumentForm::Short),
        (None, None, _) => Ok(DocumentForm::Spec),
    }
}

fn mixed(long: &YamlMember, short: &YamlMember) -> DocumentProblem {
    let problem = format!(
        "mixes the two forms: {} is a field of a PodGroupSpec, {} a key of the short form; use one of them (`deployctl convert` \
         converts)",
        long.key, short.key
    );
    let later = [long, short].into_iter().max_by_key(|member| member.position.map(|at| (at.line, at.column)));
    refused(later.unwrap_or(short), problem)
}

fn refused(member: &YamlMember, problem: String) -> DocumentProblem {
    DocumentProblem { position: member.position, field: String::new(), problem }
}
