//! Signs notices by the Standard Webhooks specification (standardwebhooks.com), so that a receiver knows the sender.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// Before the base64 text of a secret.
const PREFIX: &str = "whsec_";
/// Bytes of a secret, by the specification.
const LENGTH: std::ops::RangeInclusive<usize> = 24..=64;

/// Why a file holds no secret. The text of the file is in no message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the webhook secret in {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "{} holds no webhook secret; write whsec_ and the base64 text of 24 to 64 random bytes: \
         echo \"whsec_$(head -c 32 /dev/urandom | base64)\"",
        path.display()
    )]
    Malformed { path: PathBuf },
}

/// The secrets that notices are signed with: several while receivers change from one to the next.
#[derive(Debug, Default)]
pub struct Secrets {
    /// ring shows the algorithm of a key, never its bytes.
    keys: Vec<hmac::Key>,
}

impl Secrets {
    /// Reads one secret from each file.
    pub fn read(files: &[PathBuf]) -> Result<Self, Error> {
        let keys: Result<Vec<_>, _> = files.iter().map(|path| read(path)).collect();
        Ok(Self { keys: keys? })
    }

    /// The header `webhook-signature`: one signature for each secret, none without secrets.
    pub fn signature(&self, id: &str, seconds: i64, body: &[u8]) -> Option<String> {
        let signed = [format!("{id}.{seconds}.").as_bytes(), body].concat();
        let sign = |key: &hmac::Key| format!("v1,{}", STANDARD.encode(hmac::sign(key, &signed)));
        let signatures: Vec<String> = self.keys.iter().map(sign).collect();
        (!signatures.is_empty()).then(|| signatures.join(" "))
    }
}

fn read(path: &Path) -> Result<hmac::Key, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    parse(&text).ok_or_else(|| Error::Malformed { path: path.to_owned() })
}

fn parse(text: &str) -> Option<hmac::Key> {
    let bytes = STANDARD.decode(text.trim().strip_prefix(PREFIX)?).ok()?;
    LENGTH.contains(&bytes.len()).then(|| hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(texts: &[&str]) -> Secrets {
        Secrets { keys: texts.iter().map(|text| parse(text).unwrap()).collect() }
    }

    /// The example of the specification and its reference libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn of_example(secrets: &Secrets) -> Option<String> {
        secrets.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#)
    }

    #[test]
    fn the_example_of_the_specification_gets_its_signature() {
        assert_eq!(of_example(&secrets(&[SECRET])).as_deref(), Some(SIGNATURE));
        assert_eq!(of_example(&secrets(&[])), None);
    }

    #[test]
    fn each_secret_signs_during_a_rotation() {
        let next = format!("whsec_{}\n", STANDARD.encode([7; 32]));
        let both = of_example(&secrets(&[&next, SECRET])).unwrap();
        let (first, second) = both.split_once(' ').unwrap();
        assert!(first.starts_with("v1,") && first != SIGNATURE && second == SIGNATURE, "{both}");
    }

    #[test]
    fn a_file_without_a_secret_is_refused_and_its_text_is_not_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let short = format!("whsec_{}", STANDARD.encode([7; 23]));
        for text in ["", "hunter2", "whsec_", "whsec_hunter2!", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &short] {
            std::fs::write(file.path(), text).unwrap();
            let error = Secrets::read(&[file.path().to_owned()]).unwrap_err();
            assert!(matches!(error, Error::Malformed { .. }), "{text}");
            assert!(text.len() < 7 || !format!("{error} {error:?}").contains(text), "{error}");
        }
        assert!(matches!(Secrets::read(&["/no/such/file".into()]), Err(Error::Read { .. })));
    }
}
