//! The accounts of a NATS server: one for each kind of process, and a user with its permissions for each process.
//!
//! Users are public keys (nkeys): the file holds no secret, so it can be copied to every server. The permissions come from the
//! table in `contract::bus`.

use std::fmt::Write;

use contract::bus::{Account, Export, Identity, Passes, SERVER_SETTINGS, exports};

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

/// The accounts with their users, for `include` or as part of a whole configuration.
pub fn config(users: &[User]) -> String {
    let control = Account::Control.name();
    let mut text = format!(
        "accounts {{\n  SYS {{\n    exports: [ {{ service: \"{SERVER_SETTINGS}\", accounts: [{control}] }} ]\n  }}\n"
    );
    let exports = exports();
    for account in Account::ALL {
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {} {{", account.name());
        if account == Account::Control {
            text.push_str("    jetstream: enabled\n");
        }
        text.push_str("    users: [\n");
        for user in users.iter().filter(|user| user.identity.member.account() == account) {
            text.push_str(&user_entry(user));
        }
        text.push_str("    ]\n    exports: [\n");
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
            let _ = writeln!(text, "      {{ service: {{ account: SYS, subject: \"{SERVER_SETTINGS}\" }} }}");
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
