//! Names of groups, nodes and commands.
//!
//! One rule covers all of them, because a name becomes part of a container name, an etcd key, a NATS subject, a
//! directory and a URL. A value of these types is valid by construction.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Limit of characters: with revision, instance and drift appended the name still fits a file name.
pub const LONGEST_NAME: usize = 128;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is empty.
    #[error("must not be empty")]
    Empty,
    /// Longer than [`LONGEST_NAME`].
    #[error("is {0} characters long, at most {LONGEST_NAME} are allowed")]
    TooLong(usize),
    /// A character that is not allowed.
    #[error("contains {0:?}; only letters, digits, '.', '-' and '_' are allowed")]
    Character(char),
    /// An empty part between dots; this also rejects `..`.
    #[error("has an empty part: it must not start or end with '.' nor contain '..'")]
    EmptyPart,
    /// A part that starts with a dash or an underscore.
    #[error("has a part that does not start with a letter or a digit")]
    PartStart,
}

/// Checks the rule for names.
pub fn check(text: &str) -> Result<(), Error> {
    if text.is_empty() {
        return Err(Error::Empty);
    }
    if is_plain(text.as_bytes()) {
        return Ok(());
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

/// Fast path for valid names: a single pass over the bytes.
fn is_plain(bytes: &[u8]) -> bool {
    let mut begins = true;
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => begins = false,
            b'-' | b'_' if !begins => {}
            b'.' if !begins => begins = true,
            _ => return false,
        }
    }
    !begins && bytes.len() <= LONGEST_NAME
}

/// Parses a borrowed string without copying it first; most names are map keys of a message.
pub(crate) struct Read<T>(pub(crate) std::marker::PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> de::Visitor<'_> for Read<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name(Arc<str>);

        // Comparing pointers first is fast, because equal names usually share their memory.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
            }
        }
        impl Eq for $name {}
        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.0.hash(state);
            }
        }
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
            }
        }
        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Read(std::marker::PhantomData))
            }
        }

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
    /// Id of one command: generated by the apiserver, or the client's `Idempotency-Key`.
    CommandId
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_real_clients_are_valid() {
        for name in ["hello.web.web", "resource.res.client.web.web", "a.portal.portal-b", "x.web.web_canary", "N1"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn equal_names_are_equal_at_any_address() {
        let [a, again, b]: [GroupName; 3] = ["a.b", "a.b", "a.c"].map(|text| text.parse().expect("a name"));
        assert_eq!((a.cmp(&a.clone()), a.cmp(&again), a.cmp(&b)), (Ordering::Equal, Ordering::Equal, Ordering::Less));
        assert!(a == a.clone() && a == again && a != b);
    }

    #[test]
    fn path_traversal_and_separators_are_not_names() {
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
