//! Bearer tokens: `ddt_<id>_<secret>`.
//!
//! The secret has 256 random bits, so a plain SHA-256 protects it. The leader stores `hash = SHA-256(SHA-256(secret) ‖ id)`.
//! An apiserver that checked a token passes `SHA-256(secret)` along with the command, and the leader computes the hash again, so
//! a revoked token changes nothing from then on. The proof is the same for every command: what sees a command of the principal
//! (schedulers, apiservers and NATS servers read the stream) can send others with it until the token is revoked. It cannot use the
//! API, which needs the secret.

use std::fmt;

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use serde::{Deserialize, Serialize};

use super::binding::{AnonymousBinding, Binding, Principal};
use crate::time::Timestamp;

/// Before each token, so that scanners of repositories find them.
const PREFIX: &str = "ddt_";
/// Characters of an id.
const ID_LENGTH: usize = 16;
/// Characters of a secret: 32 bytes as hexadecimal text.
const SECRET_LENGTH: usize = 64;
/// Limit of tokens: an apiserver reads all of them in one answer.
pub const MOST_TOKENS: usize = 1_024;
/// Limit of bindings per token.
pub const MOST_BINDINGS: usize = 16;
/// Limit of the name of a principal, in bytes.
pub const LONGEST_PRINCIPAL: usize = 64;

/// A token as its owner holds it. It is shown once and never stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Public part.
    pub id: String,
    secret: String,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Token {
    /// A token from 40 random bytes: 8 for the id, 32 for the secret.
    pub fn from_random(random: &[u8; 40]) -> Self {
        let (id, secret) = random.split_at(8);
        Self { id: hex(id), secret: hex(secret) }
    }

    /// Reads a token; none when the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        Self::of_parts(text.strip_prefix(PREFIX)?)
    }

    /// Reads `<id>_<secret>`.
    pub(super) fn of_parts(text: &str) -> Option<Self> {
        let (id, secret) = text.split_once('_')?;
        let is_token = id.len() == ID_LENGTH && secret.len() == SECRET_LENGTH && is_hex(id) && is_hex(secret);
        is_token.then(|| Self { id: id.to_owned(), secret: secret.to_owned() })
    }

    /// The text for the owner.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", self.parts())
    }

    /// `<id>_<secret>`.
    pub(super) fn parts(&self) -> String {
        format!("{}_{}", self.id, self.secret)
    }

    /// What proves the token to the leader.
    pub fn proof(&self) -> TokenProof {
        TokenProof { id: self.id.clone(), half: hex(digest(&SHA256, self.secret.as_bytes()).as_ref()) }
    }
}

/// Proves to the leader that a client showed a token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenProof {
    /// The token.
    pub id: String,
    /// SHA-256 of the secret, hexadecimal.
    pub half: String,
}

impl fmt::Debug for TokenProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenProof").field("id", &self.id).finish_non_exhaustive()
    }
}

impl TokenProof {
    /// The hash that the leader stores for this token.
    pub fn hash(&self) -> String {
        hex(digest(&SHA256, format!("{}{}", self.half, self.id).as_bytes()).as_ref())
    }
}

/// A token as it is stored, and as an apiserver reads it: `/deployd/state/access/token/<id>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TokenRecord {
    /// Public part of the token.
    pub id: String,
    /// [`TokenProof::hash`].
    pub hash: String,
    /// Whose actions are recorded under it.
    pub principal: String,
    /// What it allows.
    pub bindings: Vec<Binding>,
    /// The principal that created it.
    pub by: String,
    /// When it was created.
    pub created: Timestamp,
    /// When it ends.
    pub expires: Timestamp,
}

impl TokenRecord {
    /// The principal of the token; none when the proof is wrong or the token has expired.
    pub fn verify(&self, proof: &TokenProof, now: Timestamp) -> Option<Principal> {
        let is_right = self.id == proof.id && is_equal(&self.hash, &proof.hash());
        let bindings = self.bindings.clone();
        (is_right && now < self.expires).then(|| Principal { name: self.principal.clone(), bindings })
    }

    /// Every problem of the record.
    pub fn validate(&self) -> Result<(), String> {
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if self.id.len() != ID_LENGTH || self.hash.len() != 2 * SHA256_OUTPUT_LEN || !is_plain(&self.id) {
            return Err("the id or the hash of the token is malformed".to_owned());
        }
        if self.principal.is_empty() || self.principal.len() > LONGEST_PRINCIPAL || !is_plain(&self.principal) {
            return Err(format!("the principal must have 1 to {LONGEST_PRINCIPAL} plain characters without spaces"));
        }
        match self.bindings.len() {
            0 => Err("a token needs at least one binding, for example deployer@shop".to_owned()),
            count if count > MOST_BINDINGS => Err(format!("{count} bindings, at most {MOST_BINDINGS} are allowed")),
            _ => Ok(()),
        }
    }
}

/// How a client proved who it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proof {
    /// By a token.
    Token(TokenProof),
    /// It has no token: the apiserver found this binding for it, which the leader must have too.
    Anonymous(AnonymousBinding),
}

/// Who sent a command, and through which apiserver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// Name of the apiserver.
    pub apiserver: String,
    /// Address of the client, or `uid:N` over the unix socket.
    pub peer: String,
    /// How the client proved who it is; none while the cluster is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
}

/// Compares in a time that does not depend on where the texts differ.
pub(super) fn is_equal(left: &str, right: &str) -> bool {
    left.len() == right.len() && left.bytes().zip(right.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

pub(super) fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token::from_random(&std::array::from_fn(|index| u8::try_from(index).expect("below 40")))
    }

    fn record(token: &Token) -> TokenRecord {
        TokenRecord {
            id: token.id.clone(),
            hash: token.proof().hash(),
            principal: "alice".to_owned(),
            bindings: vec!["deployer@shop".parse().expect("a binding")],
            by: "root".to_owned(),
            created: Timestamp::from_millis(1),
            expires: Timestamp::from_millis(100),
        }
    }

    #[test]
    fn a_token_is_read_as_it_is_shown_and_never_printed_by_accident() {
        let token = token();
        assert_eq!(Token::parse(&token.reveal()), Some(token.clone()));
        assert!(!format!("{token:?} {:?}", token.proof()).contains(&token.secret));
        for wrong in
            ["", "ddt_", "ddt_a_b", "ddt_0001020304050607", &token.reveal()[1..], &format!("{}0", token.reveal())]
        {
            assert_eq!(Token::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_record_accepts_its_own_token_until_it_expires() {
        let (token, record) = (token(), record(&token()));
        let at = Timestamp::from_millis;
        assert_eq!(record.verify(&token.proof(), at(99)).map(|it| it.name), Some("alice".to_owned()));
        assert_eq!(record.verify(&token.proof(), at(100)), None);
        let other = Token { secret: "0".repeat(SECRET_LENGTH), ..token.clone() };
        assert_eq!(record.verify(&other.proof(), at(1)), None);
        // The stored hash is no proof.
        let stolen = TokenProof { id: token.id, half: record.hash.clone() };
        assert_eq!(record.verify(&stolen, at(1)), None);
    }

    #[test]
    fn a_record_needs_a_principal_and_bindings() {
        let good = record(&token());
        assert_eq!(good.validate(), Ok(()));
        for wrong in [
            TokenRecord { principal: String::new(), ..good.clone() },
            TokenRecord { principal: "a b".to_owned(), ..good.clone() },
            TokenRecord { bindings: Vec::new(), ..good.clone() },
            TokenRecord { hash: "0".to_owned(), ..good },
        ] {
            assert!(wrong.validate().is_err(), "{wrong:?}");
        }
    }
}
