//! The accounts of a NATS server: one for each kind of process, and a user with its permissions for each process.
//!
//! Users are public keys (nkeys): the file holds no secret, so it can be copied to every server. The permissions come from the
//! table in `contract::bus`.
//!
//! The users of agents may stand in a file of their own, [`AGENTS_FILE`], which the accounts include. Schedulers add the nodes that joined
//! with a token to it.

use std::collections::BTreeSet;
use std::fmt::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use contract::bus::{ALL_SERVERS, Account, Export, Identity, Passes, SERVER_RELOADS, SERVER_SETTINGS, exports};

/// The file with the users of agents, in the folder of the file that includes it.
pub const AGENTS_FILE: &str = "nats-agents.conf";
/// What stands before this line belongs to the operator.
const JOINED: &str = "  # Schedulers replace what follows with the nodes that joined with a token.";
/// Before the name of the store that the nodes joined.
const STORE: &str = "  # store: ";

/// What schedulers may ask the servers themselves; every server of a cluster answers the second call.
const SYSTEM_CALLS: [(&str, &str); 3] =
    [(SERVER_SETTINGS, ""), (ALL_SERVERS, ", response_type: stream"), (SERVER_RELOADS, "")];

/// A process and its public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub identity: Identity,
    pub public_key: String,
}

/// A new key: the seed, which only its process may have, and the public key.
pub fn generate_key() -> (String, String) {
    let pair = nkeys::KeyPair::new_user();
    // A key that was generated as a pair has its seed.
    (pair.seed().unwrap_or_default(), pair.public_key())
}

/// The public key of a seed; none when it is not one.
pub fn public_key(seed: &str) -> Option<String> {
    nkeys::KeyPair::from_seed(seed).ok().map(|pair| pair.public_key())
}

/// Proves that the owner of a seed wrote a text (base64); none when it is no seed.
pub fn sign(seed: &str, text: &str) -> Option<String> {
    let pair = nkeys::KeyPair::from_seed(seed).ok()?;
    pair.sign(text.as_bytes()).ok().map(|signature| BASE64.encode(signature))
}

/// Whether the owner of this key signed the text.
pub fn is_signed(public_key: &str, text: &str, signature: &str) -> bool {
    let Ok(signature) = BASE64.decode(signature) else { return false };
    nkeys::KeyPair::from_public_key(public_key).is_ok_and(|pair| pair.verify(text.as_bytes(), &signature).is_ok())
}

/// The accounts with their users, for `include` or as part of a whole configuration.
pub fn config(users: &[User]) -> String {
    layout(users, false)
}

/// The same with the users of agents in [`AGENTS_FILE`]: the text of the accounts, and that of the file.
pub fn config_with_agents_file(users: &[User]) -> (String, String) {
    let agents = users.iter().filter(|user| user.identity.member.account() == Account::Agents);
    let entries: String = agents.map(user_entry).collect();
    (layout(users, true), format!("users: [\n{entries}{JOINED}\n]\n"))
}

/// Whether NATS takes the text for the key of a user, checksum included.
fn is_user_key(text: &str) -> bool {
    text.starts_with('U') && nkeys::KeyPair::from_public_key(text).is_ok()
}

/// [`AGENTS_FILE`] with other nodes that joined; none when it is no such file. `accounts` is the text of the files beside it.
pub fn with_joined(file: &str, accounts: &str, (store, joined): (&str, &[User])) -> Option<String> {
    let (fixed, _) = file.split_once(JOINED)?;
    // No server starts with a configuration that has a key twice, or one that is no key: such a node must not stop the others.
    let (mut entries, mut added) = (String::new(), BTreeSet::new());
    for user in joined {
        let key = user.public_key.as_str();
        // The name of an operator's user stays with its key: a token gives no second key to another agent's orders.
        let label = format!("# {}\n", user.identity.user());
        let is_new = |text: &str| !text.contains(key) && !text.contains(&label);
        if is_user_key(key) && is_new(fixed) && is_new(accounts) && added.insert(key) {
            entries.push_str(&user_entry(user));
        }
    }
    Some(format!("{fixed}{JOINED}\n{STORE}{store}\n{entries}]\n"))
}

/// The store whose nodes are in [`AGENTS_FILE`]; none when there are none yet.
pub fn store_of(file: &str) -> Option<&str> {
    file.split_once(JOINED)?.1.lines().find_map(|line| line.strip_prefix(STORE))
}

fn layout(users: &[User], has_agents_file: bool) -> String {
    let control = Account::Control.name();
    let mut text = "accounts {\n  SYS {\n    exports: [\n".to_owned();
    for (subject, kind) in SYSTEM_CALLS {
        let _ = writeln!(text, "      {{ service: \"{subject}\"{kind}, accounts: [{control}] }}");
    }
    text.push_str("    ]\n  }\n");
    let exports = exports();
    for account in Account::ALL {
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {} {{", account.name());
        if account == Account::Control {
            text.push_str("    jetstream: enabled\n");
        }
        if account == Account::Agents && has_agents_file {
            let _ = writeln!(text, "    include \"{AGENTS_FILE}\"");
        } else {
            let own = users.iter().filter(|user| user.identity.member.account() == account);
            let _ = writeln!(text, "    users: [\n{}    ]", own.map(user_entry).collect::<String>());
        }
        text.push_str("    exports: [\n");
        let own: Vec<&Export> = exports.iter().filter(|export| export.from == account).collect();
        for (index, export) in own.iter().enumerate() {
            let is_same = |other: &&&Export| other.subject == export.subject;
            if !own[..index].iter().any(|other| is_same(&other)) {
                let to: Vec<&str> = own.iter().filter(is_same).map(|same| same.to.name()).collect();
                text.push_str(&exported(export, &to.join(", ")));
            }
        }
        text.push_str("    ]\n    imports: [\n");
        if account == Account::Control {
            for (subject, _) in SYSTEM_CALLS {
                let _ = writeln!(text, "      {{ service: {{ account: SYS, subject: \"{subject}\" }} }}");
            }
        }
        for export in exports.iter().filter(|export| export.to == account) {
            text.push_str(&imported(export));
        }
        text.push_str("    ]\n  }\n");
    }
    text.push_str("}\nsystem_account: SYS\n");
    text
}

fn user_entry(user: &User) -> String {
    let list = |subjects: Vec<String>| {
        let quoted: Vec<String> = subjects.iter().map(|subject| format!("{subject:?}")).collect();
        quoted.join(", ")
    };
    format!(
        "      # {}\n      {{ nkey: {}, permissions: {{\n          publish: {{ allow: [{}] }}\n          subscribe: {{ allow: [{}] }} }} }}\n",
        user.identity.user(),
        user.public_key,
        list(user.identity.publishes()),
        list(user.identity.subscribes()),
    )
}

fn exported(export: &Export, to: &str) -> String {
    let subject = &export.subject;
    match export.what {
        Passes::Messages => format!("      {{ stream: \"{subject}\", accounts: [{to}] }}\n"),
        Passes::Requests => format!("      {{ service: \"{subject}\", accounts: [{to}] }}\n"),
        Passes::RequestsWithParts => {
            format!("      {{ service: \"{subject}\", response_type: stream, accounts: [{to}] }}\n")
        }
    }
}

fn imported(export: &Export) -> String {
    let (subject, from) = (&export.subject, export.from.name());
    let what = match export.what {
        Passes::Messages => "stream",
        Passes::Requests | Passes::RequestsWithParts => "service",
    };
    format!("      {{ {what}: {{ account: {from}, subject: \"{subject}\" }} }}\n")
}

#[cfg(test)]
mod tests {
    use contract::bus::Member;

    use super::*;

    fn user(name: &str) -> User {
        let identity = Identity { member: Member::Agent, name: name.parse().unwrap() };
        User { identity, public_key: generate_key().1 }
    }

    #[test]
    fn nodes_that_joined_are_replaced_and_the_users_of_the_operator_stay() {
        let (fixed, first, second) = (user("node-1"), user("node-2"), user("node-3"));
        let (accounts, file) = config_with_agents_file(std::slice::from_ref(&fixed));
        assert!(accounts.contains(AGENTS_FILE) && !accounts.contains(&fixed.public_key));
        assert_eq!(store_of(&file), None);
        let same = User { public_key: fixed.public_key.clone(), ..user("node-4") };
        let with_first = with_joined(&file, &accounts, ("store-1", &[first.clone(), same])).unwrap();
        assert_eq!(store_of(&with_first), Some("store-1"));
        assert_eq!(with_first.matches(&fixed.public_key).count(), 1, "a key twice would stop the server");
        let with_second = with_joined(&with_first, &accounts, ("store-1", std::slice::from_ref(&second))).unwrap();
        let has = |user: &User| with_second.contains(&user.public_key);
        assert!(has(&fixed) && !has(&first) && has(&second));
        let second_key = [user("node-1"), user("node-10")];
        let without = with_joined(&file, &accounts, ("store-1", &second_key)).unwrap();
        assert!(!without.contains(&second_key[0].public_key), "the operator gave node-1 a key");
        assert!(without.contains(&second_key[1].public_key));
        assert_eq!(with_joined("users: []", "", ("store-1", &[])), None);
    }

    #[test]
    fn a_key_that_would_stop_a_server_is_left_out() {
        let (apiserver, twice, good) = (user("apiserver-1"), user("node-1"), user("node-2"));
        let (_, file) = config_with_agents_file(&[]);
        let accounts = format!("users: [{{ nkey: {} }}]", apiserver.public_key);
        let other_key = |key: &str| User { public_key: key.to_owned(), ..user("bad") };
        let not_a_checksum = format!("U{}", "A".repeat(55));
        let joined = [
            other_key(&not_a_checksum),
            other_key("U }] } injected: {"),
            other_key(&apiserver.public_key),
            twice.clone(),
            other_key(&twice.public_key),
            good.clone(),
        ];
        let text = with_joined(&file, &accounts, ("store-1", &joined)).unwrap();
        let expected = with_joined(&file, &accounts, ("store-1", &[twice, good])).unwrap();
        assert_eq!(text, expected);
    }

    #[test]
    fn a_signature_is_that_of_one_key_over_one_text() {
        let ((seed, public), (_, other)) = (generate_key(), generate_key());
        let signature = sign(&seed, "text").unwrap();
        assert!(is_signed(&public, "text", &signature));
        assert!(!is_signed(&public, "texts", &signature) && !is_signed(&other, "text", &signature));
        assert!(!is_signed("U", "text", &signature) && !is_signed(&public, "text", "?"));
        assert_eq!(sign(&public, "text"), None);
    }
}
