//! Decodes request bodies by the rules of the original API, which was written in Go.
//!
//! Field names match in any case, `null` leaves a field at its default, unknown fields are ignored, and only the first
//! JSON value of the body counts. serde passes the field names to `deserialize_struct`, so one small deserialiser does
//! this for every type and can name the path of a bad field.

use std::fmt;

use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::validate::Flaw;

/// Limit of nesting; the API's bodies need seven levels.
const DEEPEST: usize = 32;

/// Why a body cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    path: Vec<String>,
    reason: String,
}

impl Error {
    fn at(mut self, step: impl Into<String>) -> Self {
        self.path.insert(0, step.into());
        self
    }

    /// The field that cannot be decoded, and why.
    pub fn flaw(&self) -> Flaw {
        Flaw { field: self.field(), problem: self.reason.clone() }
    }

    fn field(&self) -> String {
        self.path.join(".").replace(".[", "[")
    }
}
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.field())?;
        }
        f.write_str(&self.reason)
    }
}
impl std::error::Error for Error {}
impl de::Error for Error {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self { path: Vec::new(), reason: reason.to_string() }
    }
}

/// Decodes the first JSON value of `body`.
pub fn from_slice<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
    match values.next() {
        None => Err(de::Error::custom("EOF")),
        Some(Err(error)) => Err(de::Error::custom(error)),
        Some(Ok(value)) => from_value(value),
    }
}

/// Decodes a JSON value.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    T::deserialize(Loose { value, depth: 0 })
}

struct Loose {
    value: Value,
    depth: usize,
}

impl Loose {
    fn object<'de, V: Visitor<'de>>(
        self,
        fields: Option<&'static [&'static str]>,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.depth >= DEEPEST {
            return Err(de::Error::custom(format!("nested more than {DEEPEST} levels deep")));
        }
        match self.value {
            Value::Null => visitor.visit_map(Fields::new(Map::new(), None, self.depth)),
            Value::Object(map) => visitor.visit_map(Fields::new(map, fields, self.depth)),
            other => Err(mismatch(&other, &visitor)),
        }
    }

    /// `null` in place of a number, string or boolean means zero, empty or false.
    fn or_zero(self, zero: Value) -> Value {
        if self.value.is_null() { zero } else { self.value }
    }
}

fn mismatch<'de, V: Visitor<'de>>(value: &Value, visitor: &V) -> Error {
    struct Expected<'a, V>(&'a V);
    impl<'de, V: Visitor<'de>> fmt::Display for Expected<'_, V> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.expecting(f)
        }
    }
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    de::Error::custom(format!("expected {}, found {found}", Expected(visitor)))
}

macro_rules! plain {
    ($($method:ident => $zero:expr),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.or_zero($zero).$method(visitor).map_err(|e| de::Error::custom(e))
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Loose {
    type Error = Error;

    plain! {
        deserialize_bool => Value::Bool(false),
        deserialize_i8 => 0.into(), deserialize_i16 => 0.into(), deserialize_i32 => 0.into(), deserialize_i64 => 0.into(),
        deserialize_u8 => 0.into(), deserialize_u16 => 0.into(), deserialize_u32 => 0.into(), deserialize_u64 => 0.into(),
        deserialize_f32 => 0.into(), deserialize_f64 => 0.into(),
        deserialize_str => "".into(), deserialize_string => "".into(), deserialize_char => "".into(),
        deserialize_bytes => "".into(), deserialize_byte_buf => "".into(),
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(_) => self.object(None, visitor),
            plain => plain.deserialize_any(visitor).map_err(de::Error::custom),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.object(Some(fields), visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.object(None, visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.depth >= DEEPEST {
            return Err(de::Error::custom(format!("nested more than {DEEPEST} levels deep")));
        }
        match self.value {
            Value::Null => visitor.visit_seq(Items { rest: Vec::new().into_iter(), index: 0, depth: self.depth }),
            Value::Array(items) => visitor.visit_seq(Items { rest: items.into_iter(), index: 0, depth: self.depth }),
            other => Err(mismatch(&other, &visitor)),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.value.deserialize_enum(name, variants, visitor).map_err(de::Error::custom)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! { i128 u128 unit unit_struct tuple tuple_struct identifier }
}

/// The fields of an object. With `known`, keys match in any case and other keys are dropped.
struct Fields {
    rest: std::vec::IntoIter<(String, Value)>,
    current: Option<(String, Value)>,
    depth: usize,
}

impl Fields {
    fn new(map: Map<String, Value>, known: Option<&'static [&'static str]>, depth: usize) -> Self {
        let mut members: Vec<(String, Value)> = Vec::with_capacity(map.len());
        for (key, value) in map {
            let Some(known) = known else {
                members.push((key, value));
                continue;
            };
            let Some(name) = known.iter().find(|name| name.eq_ignore_ascii_case(&key)) else { continue };
            if value.is_null() || members.iter().any(|(seen, _)| seen == name) {
                continue;
            }
            members.push(((*name).to_owned(), value));
        }
        Self { rest: members.into_iter(), current: None, depth }
    }
}

impl<'de> MapAccess<'de> for Fields {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.current = self.rest.next();
        match &self.current {
            None => Ok(None),
            Some((key, _)) => seed.deserialize(key.clone().into_deserializer()).map(Some),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (key, value) =
            self.current.take().ok_or_else(|| <Error as de::Error>::custom("a value without its key"))?;
        seed.deserialize(Loose { value, depth: self.depth + 1 }).map_err(|e| e.at(key))
    }
}

struct Items {
    rest: std::vec::IntoIter<Value>,
    index: usize,
    depth: usize,
}

impl<'de> SeqAccess<'de> for Items {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(value) = self.rest.next() else { return Ok(None) };
        let index = self.index;
        self.index += 1;
        seed.deserialize(Loose { value, depth: self.depth + 1 }).map(Some).map_err(|e| e.at(format!("[{index}]")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::PodGroupSpec;
    use crate::state::RestartPolicy;

    fn decode(body: &str) -> Result<PodGroupSpec, String> {
        from_slice(body.as_bytes()).map_err(|e| e.to_string())
    }

    #[test]
    fn keys_match_in_any_case_and_unknown_ones_are_ignored() {
        let spec = decode(r#"{"NAME":"a","namespace":"b","CreateAt":null,"pod":{"CONTAINERS":[{"image":"i"}]}}"#)
            .expect("decodes");
        assert_eq!((spec.name.as_str(), spec.namespace.as_str()), ("a", "b"));
        assert_eq!(spec.pod.containers[0].image, "i");
    }

    #[test]
    fn null_leaves_the_default_everywhere() {
        let body = r#"{"Name":"a","RestartPolicy":null,"CreatedAt":null,"Pod":{"Labels":null,"HealthConfig":null,
            "Containers":[{"Entrypoint":null,"LogConfig":null,"Env":null}]}}"#;
        let spec = decode(body).expect("decodes");
        assert_eq!(spec.restart_policy, RestartPolicy::Never);
        assert_eq!(spec.pod.containers[0].entrypoint, None);
    }

    #[test]
    fn the_keys_of_maps_keep_their_case() {
        let spec = decode(r#"{"Pod":{"Labels":{"Team":"x","team":"y"}}}"#).expect("decodes");
        assert_eq!(spec.pod.labels.len(), 2);
    }

    #[test]
    fn trailing_bytes_are_ignored_and_an_empty_body_is_eof() {
        assert!(decode(r#"{"Name":"a"} trailing"#).is_ok());
        assert_eq!(decode(""), Err("EOF".to_owned()));
    }

    #[test]
    fn an_error_names_the_field() {
        let error = decode(r#"{"Pod":{"Containers":[{"MemoryLimit":"1"}]}}"#).expect_err("a string is no integer");
        assert!(error.starts_with("Pod.Containers[0].MemoryLimit: "), "{error}");
        for number in ["1.5", "1e0"] {
            let error = decode(&format!(r#"{{"NumInstances":{number}}}"#)).expect_err("not an integer");
            assert!(error.starts_with("NumInstances: "), "{error}");
        }
        let error = decode(r#"{"RestartPolicy":9}"#).expect_err("no such policy");
        assert!(error.starts_with("RestartPolicy: "), "{error}");
        let error = decode(r#"{"Pod":[]}"#).expect_err("an array is no object");
        assert!(error.starts_with("Pod: "), "{error}");
    }

    #[test]
    fn depth_is_bounded() {
        let body = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert!(from_slice::<Value>(body.as_bytes()).is_err());
    }
}
