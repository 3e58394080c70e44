//! Finds duplicate field names in a JSON document. Parsers use one of the two values without saying which:
//! `{"NumInstances": 2, "NumInstances": 0}` could scale a service to 0.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// The first duplicate name in one JSON document or several in sequence. None for any other text, invalid JSON
/// included.
pub fn problem(documents: &[u8]) -> Option<String> {
    let mut documents = serde_json::Deserializer::from_slice(documents).into_iter::<Unique>();
    let error = documents.find_map(Result::err)?;
    error.is_data().then(|| error.to_string())
}

/// A JSON value without duplicate names.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Names)
    }
}

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Unique;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Unique, A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = members.next_key::<String>()? {
            let Unique = members.next_value()?;
            if let Some(twice) = names.replace(name) {
                return Err(A::Error::custom(format!("{twice} is given twice")));
            }
        }
        Ok(Unique)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Unique, A::Error> {
        while let Some(Unique) = elements.next_element()? {}
        Ok(Unique)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique)
    }
    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_name_is_found_at_every_depth() {
        for text in [r#"{"N":2,"N":0}"#, r#"{"Pod":{"a":[{"x":1,"y":null,"x":1.5}]}}"#] {
            assert!(problem(text.as_bytes()).is_some_and(|it| it.contains("is given twice")), "{text}");
        }
        for text in [r#"{"N":2,"n":0,"list":[{"a":true},{"a":"b"}]}"#, "{", "[]", "-3"] {
            assert_eq!(problem(text.as_bytes()), None, "{text}");
        }
    }
}
