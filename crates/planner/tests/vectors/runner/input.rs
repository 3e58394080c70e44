//! Reads the named inputs of a vector.
//!
//! An input that is not given has the default its function names; one that is given must be of the right kind. Times are
//! seconds and may have a fraction: their digits are read, not a float, for buckets of age have edges at nanoseconds.

use std::time::Duration;

use planner::rollout::moment::Moment;
use planner::rollout::numbers::Amount;
use serde_json::{Map, Value};

/// Why an input is not one.
#[derive(Debug)]
pub(crate) struct InputError(pub(crate) String);

pub(crate) fn invalid<T>(text: impl Into<String>) -> Result<T, InputError> {
    Err(InputError(text.into()))
}

/// An object of named inputs.
pub(crate) struct VectorInput(pub(crate) Map<String, Value>);

impl VectorInput {
    fn of(value: &Value) -> Result<Self, InputError> {
        value.as_object().map_or_else(|| invalid(format!("{value} is no object")), |object| Ok(Self(object.clone())))
    }

    /// What is given and not null.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn need<T>(&self, name: &str, found: Result<Option<T>, InputError>) -> Result<T, InputError> {
        found?.map_or_else(|| invalid(format!("no {name:?}")), Ok)
    }

    fn read<T>(&self, name: &str, kind: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>, InputError> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => {
                read(value).map_or_else(|| invalid(format!("{name:?} is {value}, not {kind}")), |it| Ok(Some(it)))
            }
        }
    }

    pub(crate) fn count(&self, name: &str) -> Result<i64, InputError> {
        self.need(name, self.maybe_count(name))
    }
    pub(crate) fn count_or(&self, name: &str, default: i64) -> Result<i64, InputError> {
        Ok(self.maybe_count(name)?.unwrap_or(default))
    }
    pub(crate) fn maybe_count(&self, name: &str) -> Result<Option<i64>, InputError> {
        self.read(name, "a whole number", Value::as_i64)
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, InputError> {
        self.need(name, self.read(name, "true or false", Value::as_bool))
    }
    pub(crate) fn flag_or(&self, name: &str, default: bool) -> Result<bool, InputError> {
        Ok(self.read(name, "true or false", Value::as_bool)?.unwrap_or(default))
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str, InputError> {
        self.maybe_text(name)?.map_or_else(|| invalid(format!("no {name:?}")), Ok)
    }
    pub(crate) fn text_or<'a>(&'a self, name: &str, default: &'a str) -> Result<&'a str, InputError> {
        Ok(self.maybe_text(name)?.unwrap_or(default))
    }
    pub(crate) fn maybe_text(&self, name: &str) -> Result<Option<&str>, InputError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(value) => invalid(format!("{name:?} is {value}, not a text")),
        }
    }

    /// A count or a percentage; none when it is null or not given.
    pub(crate) fn amount(&self, name: &str) -> Result<Option<Amount>, InputError> {
        self.get(name).map(amount).transpose()
    }
    /// The same with a default for an input that is not given; null is still none.
    pub(crate) fn amount_or(&self, name: &str, default: Amount) -> Result<Option<Amount>, InputError> {
        if self.0.contains_key(name) { self.amount(name) } else { Ok(Some(default)) }
    }

    pub(crate) fn moment(&self, name: &str) -> Result<Moment, InputError> {
        self.need(name, self.maybe_moment(name))
    }
    pub(crate) fn moment_or(&self, name: &str, default: i64) -> Result<Moment, InputError> {
        Ok(self.maybe_moment(name)?.unwrap_or_else(|| Moment::from_secs(default)))
    }
    pub(crate) fn maybe_moment(&self, name: &str) -> Result<Option<Moment>, InputError> {
        Ok(self.read(name, "a time in seconds", nanos)?.map(Moment::from_nanos))
    }
    pub(crate) fn span_or(&self, name: &str, default: u64) -> Result<Duration, InputError> {
        let nanos = self.read(name, "a number of seconds", nanos)?;
        let seconds = || Duration::from_secs(default);
        Ok(nanos.map_or_else(seconds, |nanos| Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))))
    }

    /// A list; empty when it is not given.
    pub(crate) fn list(&self, name: &str) -> Result<&[Value], InputError> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Value::Array(list)) => Ok(list),
            Some(value) => invalid(format!("{name:?} is {value}, not a list")),
        }
    }
    pub(crate) fn objects(&self, name: &str) -> Result<Vec<Self>, InputError> {
        self.list(name)?.iter().map(Self::of).collect()
    }
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<&str>, InputError> {
        let texts: Option<Vec<&str>> = self.list(name)?.iter().map(Value::as_str).collect();
        texts.map_or_else(|| invalid(format!("{name:?} holds something that is no text")), Ok)
    }
    /// A text, or the digits of a number; none when it is neither.
    pub(crate) fn digits(&self, name: &str) -> Option<String> {
        let value = self.get(name)?;
        value.as_str().map(str::to_owned).or_else(|| value.as_number().map(ToString::to_string))
    }
    /// An object; empty when it is not given.
    pub(crate) fn object(&self, name: &str) -> Result<Self, InputError> {
        self.get(name).map_or_else(|| Ok(Self(Map::new())), Self::of)
    }
}

/// A whole number is a count, a text a percentage.
fn amount(value: &Value) -> Result<Amount, InputError> {
    match (value.as_i64(), value.as_str()) {
        (Some(count), _) => Ok(Amount::Count(count)),
        (None, Some(text)) => Amount::parse(text).map_err(|e| InputError(e.to_string())),
        (None, None) => invalid(format!("{value} is neither a count nor a percentage")),
    }
}

/// Seconds as whole nanoseconds; what is finer is dropped, what is too large saturates.
fn nanos(value: &Value) -> Option<i64> {
    let text = value.as_number()?.to_string();
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    let (size, negative) = mantissa.strip_prefix('-').map_or((mantissa, false), |size| (size, true));
    let (whole, fraction) = size.split_once('.').unwrap_or((size, ""));
    let places = exponent.saturating_add(9).saturating_sub(i32::try_from(fraction.len()).ok()?);
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let power = 10i128.checked_pow(places.unsigned_abs());
    let nanos = if places >= 0 {
        power.and_then(|power| digits.checked_mul(power)).unwrap_or(if digits == 0 { 0 } else { i128::MAX })
    } else {
        power.map_or(0, |power| digits / power)
    };
    let nanos = i64::try_from(nanos).unwrap_or(i64::MAX);
    Some(if negative { -nanos } else { nanos })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn seconds_are_read_to_the_nanosecond() {
        let seconds = [json!(2), json!(-1), json!(0.25), json!(1e-9), json!(1.5e3), json!(1e-12), json!(1e300)];
        let expected = [2_000_000_000, -1_000_000_000, 250_000_000, 1, 1_500_000_000_000, 0, i64::MAX];
        assert_eq!(seconds.map(|value| nanos(&value)), expected.map(Some));
        assert_eq!(nanos(&json!("2")), None);
    }
}
