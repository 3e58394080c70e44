//! Contexts: the clusters that the user has logged in to, in `~/.config/deployd/contexts.json`.

use std::path::PathBuf;

use contract::access::token::Token;
use reqwest::Url;
use serde::{Deserialize, Serialize};

use crate::credential::is_same_origin;
use crate::private_file;

const FILE: &str = "deployd/contexts.json";
/// In the place of a name: no context, but the local cluster.
pub const LOCAL: &str = "local";
const LONGEST_NAME: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    File(#[from] private_file::Error),
    #[error("{path} is not a file of contexts; remove it and run `deployctl login URL` again")]
    Malformed {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error(
        "neither XDG_CONFIG_HOME nor HOME names a directory, so contexts cannot be stored; use --api and --token-file"
    )]
    NoHome,
    #[error(
        "there is no context {0:?}; `deployctl context list` shows those that exist, `deployctl login URL` adds one"
    )]
    Unknown(String),
    #[error("no context is in use; `deployctl login URL` adds one, `deployctl context use NAME` chooses one")]
    NoneInUse,
    #[error(
        "the context {name} is for {url}; choose another name with --name, or remove it with `deployctl logout {name}`"
    )]
    Taken { name: String, url: String },
    #[error(
        "{0:?} is no name of a context; use at most {LONGEST_NAME} letters, digits, dots and dashes, and not {LOCAL:?}"
    )]
    Name(String),
}

/// A cluster, and the token for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub name: String,
    /// Its apiservers.
    #[serde(with = "texts")]
    pub urls: Vec<Url>,
    #[serde(with = "revealed")]
    pub token: Token,
    /// The certificate authorities that its apiservers are checked against, in PEM; none: those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

impl Context {
    /// Whether every URL belongs to the cluster.
    pub fn covers(&self, urls: &[Url]) -> bool {
        urls.iter().all(|url| self.urls.iter().any(|own| is_same_origin(own, url)))
    }

    /// Its URLs as the user writes them.
    pub fn urls(&self) -> String {
        self.urls.iter().map(|url| url.as_str().trim_end_matches('/')).collect::<Vec<_>>().join(",")
    }
}

/// All contexts of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contexts {
    /// Name of the context in use; none: the local cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    #[serde(default)]
    pub contexts: Vec<Context>,
}

impl Contexts {
    /// Reads the user's contexts; none are stored when there is no file, or no home.
    pub fn load() -> Result<Self, Error> {
        let Ok(path) = path() else { return Ok(Self::default()) };
        let Some(text) = private_file::read(&path)? else { return Ok(Self::default()) };
        // The causes of serde_json name lines and fields, not their values.
        serde_json::from_str(&text).map_err(|source| Error::Malformed { path, source })
    }

    pub fn store(&self) -> Result<PathBuf, Error> {
        let path = path()?;
        let text = serde_json::to_string_pretty(self).expect("contexts have string keys only");
        private_file::replace(&path, &format!("{text}\n"))?;
        Ok(path)
    }

    /// The context in use.
    pub fn current(&self) -> Result<Option<&Context>, Error> {
        let Some(name) = &self.current else { return Ok(None) };
        self.find(name).ok_or_else(|| Error::Unknown(name.clone())).map(Some)
    }

    pub fn find(&self, name: &str) -> Option<&Context> {
        self.contexts.iter().find(|context| context.name == name)
    }

    /// Adds a context, or replaces the one of the same name and cluster, and uses it from now on.
    pub fn put(&mut self, context: Context) -> Result<(), Error> {
        check_name(&context.name)?;
        if let Some(other) = self.find(&context.name).filter(|other| !other.covers(&context.urls)) {
            return Err(Error::Taken { name: other.name.clone(), url: other.urls() });
        }
        self.contexts.retain(|other| other.name != context.name);
        self.current = Some(context.name.clone());
        self.contexts.push(context);
        self.contexts.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    /// Uses a context from now on, or none: the local cluster.
    pub fn choose(&mut self, name: &str) -> Result<(), Error> {
        self.current = match name {
            LOCAL => None,
            _ => Some(self.find(name).ok_or_else(|| Error::Unknown(name.to_owned()))?.name.clone()),
        };
        Ok(())
    }

    /// Removes a context with its token: the named one, or the one in use.
    pub fn remove(&mut self, name: Option<&str>) -> Result<String, Error> {
        let name = name.or(self.current.as_deref()).ok_or(Error::NoneInUse)?.to_owned();
        let count = self.contexts.len();
        self.contexts.retain(|context| context.name != name);
        if self.current.as_ref() == Some(&name) {
            self.current = None;
        }
        if self.contexts.len() == count { Err(Error::Unknown(name)) } else { Ok(name) }
    }
}

/// The name of a context for a URL when the user gives none: its host.
pub fn name_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).replace(':', "-");
    if host == LOCAL { format!("{host}-api") } else { host }
}

fn check_name(name: &str) -> Result<(), Error> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    let is_name = (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(is_plain) && name != LOCAL;
    if is_name { Ok(()) } else { Err(Error::Name(name.to_owned())) }
}

/// `$XDG_CONFIG_HOME/deployd/contexts.json`, else the same below `~/.config`. A relative path is ignored, as the XDG
/// specification says.
fn path() -> Result<PathBuf, Error> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    config.map(|config| config.join(FILE)).ok_or(Error::NoHome)
}

/// A token in the file, which only its owner can read.
mod revealed {
    use contract::access::token::Token;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(token: &Token, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&token.reveal())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Token, D::Error> {
        let text = String::deserialize(deserializer)?;
        Token::parse(&text).ok_or_else(|| de::Error::custom("a token is malformed"))
    }
}

/// URLs as texts.
mod texts {
    use reqwest::Url;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(urls: &[Url], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(urls.iter().map(Url::as_str))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Url>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| Url::parse(text).map_err(de::Error::custom)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(name: &str, url: &str) -> Context {
        let token = Token::from_random(&[1; 40]);
        Context { name: name.to_owned(), urls: vec![url.parse().unwrap()], token, ca: None }
    }

    #[test]
    fn the_context_that_was_added_last_is_in_use_until_another_is_chosen() {
        let mut all = Contexts::default();
        for name in ["b", "a"] {
            all.put(context(name, &format!("https://{name}.example"))).unwrap();
        }
        assert_eq!(all.current().unwrap().map(|it| it.name.as_str()), Some("a"));
        all.choose("b").unwrap();
        assert_eq!(all.current().unwrap().map(|it| it.name.as_str()), Some("b"));
        assert!(matches!(all.choose("c"), Err(Error::Unknown(_))));
        all.choose(LOCAL).unwrap();
        assert_eq!((all.current().unwrap(), all.contexts.len()), (None, 2));
    }

    #[test]
    fn a_name_stays_with_its_cluster() {
        let mut all = Contexts::default();
        all.put(context("prod", "https://a.example")).unwrap();
        all.put(context("prod", "https://a.example/")).unwrap();
        assert!(matches!(all.put(context("prod", "https://b.example")), Err(Error::Taken { .. })));
        for name in ["", "local", "a b", "a/b", &"x".repeat(65)] {
            assert!(matches!(all.put(context(name, "https://a.example")), Err(Error::Name(_))), "{name:?}");
        }
        assert_eq!(all.contexts.len(), 1);
    }

    #[test]
    fn a_removed_context_is_no_longer_in_use() {
        let mut all = Contexts::default();
        assert!(matches!(all.remove(None), Err(Error::NoneInUse)));
        all.put(context("prod", "https://a.example")).unwrap();
        assert_eq!(all.remove(None).unwrap(), "prod");
        assert_eq!(all, Contexts::default());
        assert!(matches!(all.remove(Some("prod")), Err(Error::Unknown(_))));
    }

    #[test]
    fn contexts_are_read_back_as_they_were_written() {
        let mut all = Contexts::default();
        all.put(Context { ca: Some("PEM".to_owned()), ..context("prod", "https://a.example") }).unwrap();
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Contexts>(&text).unwrap(), all);
        let broken = serde_json::from_str::<Contexts>(&text.replace("ddt_", "ddx_")).unwrap_err().to_string();
        assert!(broken.contains("a token is malformed") && !broken.contains("0101"), "{broken}");
    }

    #[test]
    fn a_context_is_named_after_its_host() {
        for (url, name) in
            [("https://api.example:9003", "api.example"), ("https://[::1]:9003", "--1"), ("https://local", "local-api")]
        {
            assert_eq!(name_of(&url.parse().unwrap()), name);
        }
    }
}
