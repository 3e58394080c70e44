//! Signatures of orders: an agent obeys only schedulers whose public keys it has, whatever the servers in between let through.
//!
//! A fence alone protects nothing against forgery: one forged order with a high term would make a node refuse its real leader.
//! So an agent with keys checks the signature before it looks at anything in the order. The text that is signed contains the
//! node, so an order cannot be played to another node; the fence inside the order keeps old ones out.
//!
//! Key files are text. Of a scheduler: one line `ID SECRET`. Of an agent: one line `ID PUBLIC` for each scheduler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use contract::name::NodeName;
use contract::progress::Progress;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, ED25519_PUBLIC_KEY_LEN, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

/// Names what is signed, so that no other signature of the same key can pass for an order.
const PURPOSE: &[u8] = b"deployd-order-1\0";

/// Names the signed progress of a store, which a node returns to prove which commits a scheduler named to it.
const PURPOSE_OF_PROGRESS: &[u8] = b"deployd-progress-1\0";

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read keys from {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path}: line {line} is not `ID KEY`; remove the file and write it again with deployctl bus-keys")]
    Malformed { path: PathBuf, line: usize },
    #[error("{path} holds no key; write it again with deployctl bus-keys")]
    Empty { path: PathBuf },
    #[error("cannot generate a key: the system has no randomness")]
    Generate,
}

/// Why an order is not obeyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    #[error("the order has no signature, or not a readable one")]
    Unsigned,
    #[error(
        "the order is signed with a key that this agent does not have; add the scheduler's key to --order-keys-file"
    )]
    UnknownKey,
    #[error("the signature does not belong to this order and node")]
    Wrong,
}

/// The private key of a scheduler.
pub struct OrderSigner {
    id: String,
    pair: Ed25519KeyPair,
}

impl std::fmt::Debug for OrderSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OrderSigner").field("id", &self.id).finish_non_exhaustive()
    }
}

impl OrderSigner {
    /// A new key, as the text of its file.
    pub fn generate(id: &str) -> Result<String, Error> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| Error::Generate)?;
        Ok(format!("{id} {}\n", BASE64.encode(document.as_ref())))
    }

    pub fn load(path: &Path) -> Result<Self, Error> {
        let malformed = || Error::Malformed { path: path.to_owned(), line: 1 };
        let (id, secret) = lines(path)?.into_iter().next().ok_or_else(malformed)?;
        let pair = Ed25519KeyPair::from_pkcs8(&secret).map_err(|_| malformed())?;
        Ok(Self { id, pair })
    }

    /// The line for the agents' files.
    pub fn public_line(&self) -> String {
        format!("{} {}\n", self.id, BASE64.encode(self.pair.public_key().as_ref()))
    }

    /// Signs a text that begins with its own purpose, as the checkpoint of the audit log does.
    pub fn sign_text(&self, text: &str) -> String {
        format!("{} {}", self.id, BASE64.encode(self.pair.sign(text.as_bytes()).as_ref()))
    }

    /// The value of the signature header.
    pub fn header(&self, node: &NodeName, payload: &[u8]) -> String {
        self.sign(&signed_text(node, payload))
    }

    /// The progress with its proof.
    pub fn prove(&self, progress: Progress) -> Progress {
        let proof = self.sign(&[PURPOSE_OF_PROGRESS, &progress.signed_text()].concat());
        Progress { proof: proof.into(), ..progress }
    }

    fn sign(&self, text: &[u8]) -> String {
        format!("{} {}", self.id, BASE64.encode(self.pair.sign(text).as_ref()))
    }
}

/// The public keys of the schedulers.
#[derive(Debug, Clone)]
pub struct OrderKeys(BTreeMap<String, Vec<u8>>);

impl OrderKeys {
    pub fn load(path: &Path) -> Result<Self, Error> {
        let keys = lines(path)?;
        if let Some(index) = keys.iter().position(|(_, key)| key.len() != ED25519_PUBLIC_KEY_LEN) {
            return Err(Error::Malformed { path: path.to_owned(), line: index + 1 });
        }
        match keys.is_empty() {
            true => Err(Error::Empty { path: path.to_owned() }),
            false => Ok(Self(keys.into_iter().collect())),
        }
    }

    /// The text of their file.
    pub fn text(&self) -> String {
        self.0.iter().map(|(id, key)| format!("{id} {}\n", BASE64.encode(key))).collect()
    }

    /// Checks the signature of an order for `node`.
    pub fn check(&self, node: &NodeName, header: Option<&str>, payload: &[u8]) -> Result<(), Rejected> {
        self.verify(header.unwrap_or_default(), &signed_text(node, payload))
    }

    /// Checks a signature of [`OrderSigner::sign_text`].
    pub fn check_text(&self, text: &str, signed: &str) -> Result<(), Rejected> {
        self.verify(signed, text.as_bytes())
    }

    /// Whether a scheduler has signed this progress.
    pub fn proves(&self, progress: &Progress) -> bool {
        self.verify(&progress.proof, &[PURPOSE_OF_PROGRESS, &progress.signed_text()].concat()).is_ok()
    }

    fn verify(&self, signed: &str, text: &[u8]) -> Result<(), Rejected> {
        let (id, signature) = signed.split_once(' ').ok_or(Rejected::Unsigned)?;
        let signature = BASE64.decode(signature.as_bytes()).map_err(|_| Rejected::Unsigned)?;
        let key = self.0.get(id).ok_or(Rejected::UnknownKey)?;
        UnparsedPublicKey::new(&ED25519, key).verify(text, &signature).map_err(|_| Rejected::Wrong)
    }
}

fn signed_text(node: &NodeName, payload: &[u8]) -> Vec<u8> {
    // No name contains a zero byte, so the parts cannot run into each other.
    [PURPOSE, node.as_str().as_bytes(), b"\0", payload].concat()
}

fn lines(path: &Path) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let numbered = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = |line: &str| {
        let (id, key) = line.trim().split_once(' ')?;
        Some((id.to_owned(), BASE64.decode(key.trim().as_bytes()).ok()?))
    };
    let malformed = |index: usize| Error::Malformed { path: path.to_owned(), line: index + 1 };
    numbered.map(|(index, line)| read(line).ok_or_else(|| malformed(index))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn node(name: &str) -> NodeName {
        name.parse().expect("a name")
    }

    fn keys(names: &[&str]) -> (Vec<OrderSigner>, OrderKeys, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let signers: Vec<OrderSigner> = names
            .iter()
            .map(|name| {
                let path = dir.path().join(name);
                std::fs::write(&path, OrderSigner::generate(name).unwrap()).unwrap();
                OrderSigner::load(&path).unwrap()
            })
            .collect();
        let public = dir.path().join("public");
        std::fs::write(&public, signers.iter().map(OrderSigner::public_line).collect::<String>()).unwrap();
        let keys = OrderKeys::load(&public).unwrap();
        assert_eq!(keys.text(), std::fs::read_to_string(&public).unwrap());
        (signers, keys, dir)
    }

    #[test]
    fn an_order_is_obeyed_only_as_it_was_signed_for_its_node() {
        let (signers, keys, _dir) = keys(&["scheduler-1", "scheduler-2"]);
        let header = signers[1].header(&node("node-1"), b"order");
        let check = |name: &str, header: Option<&str>, payload: &[u8]| keys.check(&node(name), header, payload);
        assert_eq!(check("node-1", Some(&header), b"order"), Ok(()));
        assert_eq!(check("node-2", Some(&header), b"order"), Err(Rejected::Wrong), "played to another node");
        assert_eq!(check("node-1", Some(&header), b"orders"), Err(Rejected::Wrong), "changed");
        assert_eq!(check("node-1", Some(&header.replace('2', "1")), b"order"), Err(Rejected::Wrong), "other key");
        assert_eq!(check("node-1", None, b"order"), Err(Rejected::Unsigned));
        let unknown = header.replace("scheduler-2", "scheduler-3");
        assert_eq!(check("node-1", Some(&unknown), b"order"), Err(Rejected::UnknownKey));
    }

    #[test]
    fn no_header_of_five_hundred_forged_ones_is_accepted() {
        let (signers, keys, _dir) = keys(&["scheduler-1"]);
        let good = signers[0].header(&node("node-1"), b"order");
        let mut forged: Vec<String> = (0..good.len()).map(|end| good[..end].to_owned()).collect();
        for index in 0..good.len() {
            for replacement in ['A', '/', ' ', '=', 'z'] {
                let mut text: Vec<char> = good.chars().collect();
                if text[index] != replacement {
                    text[index] = replacement;
                    forged.push(text.into_iter().collect());
                }
            }
        }
        assert!(forged.len() >= 500, "{}", forged.len());
        for header in forged {
            assert!(keys.check(&node("node-1"), Some(&header), b"order").is_err(), "{header:?}");
        }
    }

    #[test]
    fn an_optimised_build_verifies_an_order_in_a_tenth_of_a_millisecond() {
        let (signers, keys, _dir) = keys(&["scheduler-1"]);
        // An instance takes 128 to 364 bytes of an order (docs/performance.md): a change of one, and a node of a hundred.
        for bytes in [400, 36_000] {
            let order = vec![b'x'; bytes];
            let header = signers[0].header(&node("node-1"), &order);
            let mut times: Vec<Duration> = (0..1_000)
                .map(|_| {
                    let started = Instant::now();
                    assert_eq!(keys.check(&node("node-1"), Some(&header), &order), Ok(()));
                    started.elapsed()
                })
                .collect();
            times.sort_unstable();
            let (least, half) = (times[0], times[500]);
            println!("an order of {bytes} bytes is verified in {half:.1?} (p50), {least:.1?} at best");
            // In a debug build ring is not optimised either, and other tests run beside this one.
            let most = Duration::from_micros(if cfg!(debug_assertions) { 1_000 } else { 100 });
            assert!(half <= most, "{half:?}");
        }
    }

    #[test]
    fn a_broken_or_empty_key_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        let load = |text: &str| {
            std::fs::write(&path, text).unwrap();
            OrderKeys::load(&path)
        };
        assert!(matches!(load("scheduler-1 AAAA\nnonsense\n"), Err(Error::Malformed { line: 2, .. })));
        assert!(matches!(load("scheduler-1 AAAA\n"), Err(Error::Malformed { line: 1, .. })), "too short for a key");
        assert!(matches!(load("\n"), Err(Error::Empty { .. })));
        assert!(matches!(OrderSigner::load(&path), Err(Error::Malformed { line: 1, .. })));
    }
}
