//! Hints after an error: the name that the user may have meant, and commands that other tools have.

use std::time::Duration;

use crate::api::{self, Deadline};
use crate::args::Args;
use crate::document::suggest::distance;
use crate::{Error, endpoint};

/// A hint must not make a failure slow.
const PATIENCE: Duration = Duration::from_secs(2);

/// Words of other tools, and what does that here.
const COMMANDS: [(&str, &str); 18] = [
    ("validate", PLAN),
    ("check", PLAN),
    ("lint", PLAN),
    ("diff", PLAN),
    ("dry-run", PLAN),
    ("top", "`deployctl get nodes` shows what is allocated on each node, `deployctl ps` the instances"),
    ("create", "`deployctl apply -f FILE` creates PodGroups"),
    ("deploy", "`deployctl apply -f FILE` creates or updates PodGroups"),
    ("edit", "`deployctl get podgroup NAME -o yaml` writes a file for `deployctl apply -f FILE`"),
    ("inspect", "`deployctl describe podgroup NAME` shows everything about a PodGroup"),
    ("show", "`deployctl describe podgroup NAME` shows everything about a PodGroup"),
    ("rollback", "`deployctl rollout undo NAME` goes back to an earlier revision"),
    ("undo", "`deployctl rollout undo NAME` goes back to an earlier revision"),
    ("rm", "`deployctl delete NAME` deletes a PodGroup"),
    ("remove", "`deployctl delete NAME` deletes a PodGroup, `deployctl node remove NODE` a node"),
    ("drain", "`deployctl node drain NODE` moves the instances of a node elsewhere"),
    ("cordon", "`deployctl node cordon NODE` keeps new instances off a node"),
    ("version", "`deployctl --version` shows it, `deployctl get nodes` those of the agents"),
];
const PLAN: &str = "`deployctl plan -f FILE` checks a file and shows what it would change";

/// What does the work of a command that does not exist.
pub fn of_command(word: &str) -> Option<&'static str> {
    COMMANDS.iter().find(|(known, _)| *known == word).map(|(_, hint)| *hint)
}

/// The object that the user may have meant, after an error about one that does not exist.
pub async fn of_error(args: &Args, error: &Error) -> Option<String> {
    let api = endpoint::api(&args.endpoint).ok()?.until(Deadline::after(PATIENCE));
    let (name, known): (&str, Vec<String>) = match error.api()? {
        api::Error::NoGroup(name) => (name, api.groups().await.ok()?.into_iter().map(|line| line.name).collect()),
        api::Error::NoNode(name) => (name, api.nodes().await.ok()?.into_iter().map(|node| node.name).collect()),
        _ => return None,
    };
    closest(name, &known).map(|meant| format!("did you mean {meant}?"))
}

/// The known name with the fewest different letters, or the only one that contains the given one.
fn closest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let near = known.iter().map(|other| (distance(&name.to_lowercase(), &other.to_lowercase()), other.as_str()));
    let (letters, meant) = near.min()?;
    if letters <= (name.chars().count() / 4).max(2) {
        return Some(meant);
    }
    let mut containing = known.iter().filter(|other| name.len() >= 2 && other.contains(name));
    match (containing.next(), containing.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_meant() {
        let known = ["ux.web.web", "ux.db.db", "node-1", "shop.cart.web"].map(str::to_owned);
        for (name, expected) in [
            ("ux.wbe.web", Some("ux.web.web")),
            ("UX.DB.DB", Some("ux.db.db")),
            ("node1", Some("node-1")),
            ("cart", Some("shop.cart.web")),
            ("web", None),
            ("something.else", None),
        ] {
            assert_eq!(closest(name, &known), expected, "{name}");
        }
        assert_eq!(closest("a", &[]), None);
    }
}
