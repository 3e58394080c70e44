//! Names: what may be called what.
//!
//! One rule serves every name because a name ends up in a container name, an etcd key, a NATS subject,
//! a directory and a URL at the same time. A value of these types has passed the rule, so nobody
//! downstream checks again.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Longest name accepted: with version, instance and drift appended it still fits a file name.
pub const LONGEST_NAME: usize = 128;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is nothing.
    #[error("must not be empty")]
    Empty,
    /// Longer than [`LONGEST_NAME`].
    #[error("is {0} characters long, at most {LONGEST_NAME} are allowed")]
    TooLong(usize),
    /// A character outside the alphabet.
    #[error("contains {0:?}; only letters, digits, '.', '-' and '_' are allowed")]
    Character(char),
    /// An empty part between dots, which would also allow `..`.
    #[error("has an empty part: it must not start or end with '.' nor contain '..'")]
    EmptyPart,
    /// A part that starts with a dash or an underscore.
    #[error("has a part that does not start with a letter or a digit")]
    PartStart,
}

/// Checks the one rule for names.
pub fn check(text: &str) -> Result<(), Error> {
    if text.is_empty() {
        return Err(Error::Empty);
    }
    let length = text.chars().count();
    if length > LONGEST_NAME {
        return Err(Error::TooLong(length));
    }
    if let Some(c) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))) {
        return Err(Error::Character(c));
    }
    for part in text.split('.') {
        match part.chars().next() {
            None => return Err(Error::EmptyPart),
            Some(c) if !c.is_ascii_alphanumeric() => return Err(Error::PartStart),
            Some(_) => {}
        }
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self, Error> {
                check(text).map(|()| Self(text.into()))
            }
        }
        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(text: String) -> Result<Self, Error> {
                text.parse()
            }
        }
        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

name!(
    /// Name of a PodGroup, such as `hello.web.web`.
    GroupName
);
name!(
    /// Name of a node: one agent, one Docker engine.
    NodeName
);
name!(
    /// Id of one command: minted by the apiserver or taken from `Idempotency-Key`.
    CommandId
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_real_clients_are_names() {
        for name in ["hello.web.web", "resource.res.client.web.web", "a.portal.portal-b", "x.web.web_canary", "N1"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn what_could_leave_its_place_is_not_a_name() {
        assert_eq!(check(""), Err(Error::Empty));
        assert_eq!(check("a..b"), Err(Error::EmptyPart));
        assert_eq!(check(".a"), Err(Error::EmptyPart));
        assert_eq!(check("a/b"), Err(Error::Character('/')));
        assert_eq!(check("a b"), Err(Error::Character(' ')));
        assert_eq!(check("a\0"), Err(Error::Character('\0')));
        assert_eq!(check("ä"), Err(Error::Character('ä')));
        assert_eq!(check("a.-b"), Err(Error::PartStart));
        assert_eq!(check(&"x".repeat(300)), Err(Error::TooLong(300)));
    }
}
