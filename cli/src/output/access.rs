//! Tables about access: tokens, roles and the audit log.

use contract::access::audit::{AuditRecord, RefusedRequests};
use contract::access::join::JoinTokenView;
use contract::access::routes::{ROUTES, RouteRight};
use contract::access::table::{AccessView, TokenView};
use contract::access::{Binding, Right, Role};
use contract::time::Timestamp;

use super::list::Column::Usual;
use super::list::{Column, List};
use super::table::{dash, one_line, plain, text};

/// What an open cluster means, and the remedy.
pub const OPEN: &str = "the cluster is open: every client that reaches the API may do everything; `deployctl auth enforce` asks \
    them for tokens (docs/operations.md, Access)";

/// A table of these rows.
pub fn rows<const N: usize>(header: &[&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut table = plain(header);
    rows.for_each(|row| table.add_row(row));
    text(&table)
}

/// A principal with what it may do: `alice (deployer@shop, viewer@*)`.
pub fn principal(name: &str, bindings: &[Binding]) -> String {
    let bindings = if bindings.is_empty() { "no roles".to_owned() } else { listed(bindings) };
    format!("{name} ({bindings})")
}

fn listed(bindings: &[Binding]) -> String {
    bindings.iter().map(Binding::to_string).collect::<Vec<_>>().join(", ")
}

const TOKENS: [Column; 6] =
    [Usual("id"), Usual("principal"), Usual("bindings"), Usual("created by"), Usual("created"), Usual("expires")];

/// All tokens.
pub(crate) fn tokens(tokens: &[TokenView], now: Timestamp) -> List {
    let mut list = List::new(&TOKENS, "no tokens; `deployctl token create PRINCIPAL --role ROLE` makes one");
    for token in tokens {
        let expired = if token.expires <= now { " (expired)" } else { "" };
        let cells = [
            token.id.clone(),
            token.principal.clone(),
            listed(&token.bindings),
            dash(&token.by),
            token.created.to_string(),
            format!("{}{expired}", token.expires),
        ];
        list.add(&token.id, token, cells);
    }
    list
}

const JOIN_TOKENS: [Column; 7] = [
    Usual("id"),
    Usual("names"),
    Usual("labels"),
    Usual("uses left"),
    Usual("replaces"),
    Usual("created by"),
    Usual("expires"),
];

/// All join tokens.
pub(crate) fn join_tokens(tokens: &[JoinTokenView], now: Timestamp) -> List {
    let mut list = List::new(&JOIN_TOKENS, "no join tokens; `deployctl node token create` makes one");
    for token in tokens {
        let labels: Vec<String> = token.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let expired = if token.expires <= now { " (expired)" } else { "" };
        let cells = [
            token.id.clone(),
            token.names.clone(),
            dash(&labels.join(",")),
            token.uses.to_string(),
            if token.replace { "yes" } else { "no" }.to_owned(),
            dash(&token.by),
            format!("{}{expired}", token.expires),
        ];
        list.add(&token.id, token, cells);
    }
    list
}

/// Whether access control is enforced, and which clients need no token.
pub fn status(view: &AccessView) -> String {
    let mode = if view.enforced {
        "access control is enforced: a request needs a token, or a binding for clients without one"
    } else {
        OPEN
    };
    let mut lines = vec![mode.to_owned(), format!("you are {}", principal(&view.principal, &view.bindings))];
    if view.anonymous.is_empty() {
        lines.push("no bindings for clients without a token, or only admins see them".to_owned());
    } else {
        lines.push("clients without a token:".to_owned());
        lines.extend(view.anonymous.iter().map(|binding| format!("  {binding}")));
    }
    lines.join("\n")
}

/// What each role may do.
pub fn matrix() -> String {
    let header: Vec<&str> = std::iter::once("right").chain(Role::ALL.map(Role::word)).chain(["reaches"]).collect();
    let mut table = plain(&header);
    for right in Right::ALL {
        let reaches = match right {
            Right::Status => "everywhere",
            _ if right.is_per_namespace() => "the namespaces of the binding",
            _ => "the cluster; needs a binding for *",
        };
        let marks = Role::ALL.map(|role| mark(role.has(right)));
        table.add_row(std::iter::once(right.word().to_owned()).chain(marks).chain([reaches.to_owned()]));
    }
    let sees = Role::ALL.map(|role| mark(role.sees_environment()));
    let environment = "the namespaces of the binding".to_owned();
    table.add_row(std::iter::once("environment values".to_owned()).chain(sees).chain([environment]));
    text(&table)
}

/// Which role may use each route.
pub fn routes() -> String {
    let header: Vec<&str> = ["method", "path", "right"].into_iter().chain(Role::ALL.map(Role::word)).collect();
    let mut table = plain(&header);
    for RouteRight { path, method, right } in ROUTES {
        let marks = Role::ALL.map(|role| mark(role.has(right)));
        table.add_row([method, path, right.word()].map(str::to_owned).into_iter().chain(marks));
    }
    text(&table)
}

fn mark(has: bool) -> String {
    if has { "x" } else { "-" }.to_owned()
}

/// Requests that an apiserver refused before they became commands.
fn refused(record: &AuditRecord, requests: &RefusedRequests) -> [String; 8] {
    let RefusedRequests { peer, principal, route, status, count } = requests;
    let route = if route.is_empty() { "other requests" } else { route };
    let outcome = format!("{count} answered {status}");
    let (number, at) = (record.number.to_string(), record.at.to_string());
    [number, at, dash(principal), dash(peer), route.to_owned(), dash(""), dash(""), outcome]
}

/// Audited commands, and the requests that apiservers refused.
pub fn audited(records: &[AuditRecord]) -> String {
    let cells = |record: &AuditRecord| {
        let outcome = record.refused.as_deref().map_or_else(|| "accepted".to_owned(), |why| format!("refused: {why}"));
        [
            record.number.to_string(),
            record.at.to_string(),
            dash(&record.principal),
            dash(&record.peer),
            record.verb.clone(),
            dash(&record.object),
            dash(&one_line(&record.details)),
            one_line(&outcome),
        ]
    };
    let all = records.iter().flat_map(|record| {
        let refused = record.requests.iter().map(|requests| refused(record, requests));
        // A report of an apiserver is one row for each client and route that it refused.
        let command = record.requests.is_empty().then(|| cells(record));
        command.into_iter().chain(refused)
    });
    rows(&["number", "at", "principal", "from", "command", "object", "details", "outcome"], all)
}
