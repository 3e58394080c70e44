//! Values as people write them in documents (`always`, `256Mi`, `0.5`, `10s`), and ranges outside of which the cluster would
//! silently use another value. Pure.

use contract::state::RestartPolicy;
use contract::validate::Flaw;
use serde_json::Value;

use super::fields;

/// Cores of one CPU level: a sixteenth of `--quota-cores`, which is 8 unless the cluster is set up otherwise.
const CORES_PER_LEVEL: f64 = 0.5;
/// The highest CPU level.
const HIGHEST_LEVEL: i64 = 8;

/// What a field may hold beside a plain number.
#[derive(Debug, Clone, Copy)]
enum ValueKind {
    /// `always`, `onfail` or `never`.
    Policy,
    /// A size such as `256Mi`.
    Bytes,
    /// A level, or cores with a decimal point.
    Cpu,
    /// A time such as `10s`, within a range.
    Seconds(Range),
    /// A number within a range.
    Number(Range),
}

/// The values that the cluster uses as they are.
#[derive(Debug, Clone, Copy)]
enum Range {
    /// The server's own validation names the range.
    Any,
    /// From the first to the second number.
    Within(i64, i64),
    /// From the first to the second number, or 0 for the first.
    ZeroOr(i64, i64),
}

/// Fields whose values are converted or checked here. A path begins at the group; `[]` means each item.
const FIELDS: [(&str, ValueKind); 20] = [
    ("RestartPolicy", ValueKind::Policy),
    ("MinReadySeconds", ValueKind::Seconds(Range::Any)),
    ("ProgressDeadlineSeconds", ValueKind::Seconds(Range::Any)),
    ("Strategy.UpgradePause", ValueKind::Seconds(Range::Any)),
    ("Drain.GraceSeconds", ValueKind::Seconds(Range::Any)),
    ("Drain.TimeoutSeconds", ValueKind::Seconds(Range::Any)),
    ("Topology.AutoReschedule.InitialDelaySeconds", ValueKind::Seconds(Range::Any)),
    ("Pod.SetupTime", ValueKind::Seconds(Range::Within(0, 300))),
    ("Pod.KillTimeout", ValueKind::Seconds(Range::ZeroOr(10, 120))),
    ("Pod.HealthConfig.options.interval", ValueKind::Seconds(Range::ZeroOr(10, 86_400))),
    ("Pod.HealthConfig.options.timeout", ValueKind::Seconds(Range::ZeroOr(3, 3_600))),
    ("Pod.HealthConfig.options.retries", ValueKind::Number(Range::ZeroOr(3, 1_000))),
    ("Pod.HealthConfig.startup.period", ValueKind::Seconds(Range::Any)),
    ("Pod.HealthConfig.startup.timeout", ValueKind::Seconds(Range::Any)),
    ("Pod.HealthConfig.readiness.period", ValueKind::Seconds(Range::Any)),
    ("Pod.HealthConfig.readiness.timeout", ValueKind::Seconds(Range::Any)),
    ("Pod.HealthConfig.liveness.period", ValueKind::Seconds(Range::Any)),
    ("Pod.HealthConfig.liveness.timeout", ValueKind::Seconds(Range::Any)),
    ("Pod.Containers[].MemoryLimit", ValueKind::Bytes),
    ("Pod.Containers[].CpuLimit", ValueKind::Cpu),
];

/// Converts the values of a group's document to those of the API; gives back what is wrong.
pub(super) fn convert_group(document: &mut Value) -> Vec<Flaw> {
    convert(document, "")
}

/// Converts the values of a pod's document to those of the API; gives back what is wrong.
pub(super) fn convert_pod(document: &mut Value) -> Vec<Flaw> {
    convert(document, "Pod.")
}

fn convert(document: &mut Value, root: &str) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    for (path, kind) in FIELDS {
        let Some(path) = path.strip_prefix(root) else { continue };
        visit(document, path, "", &mut |field, value| match kind.converted(value) {
            Ok(converted) => *value = converted,
            Err(problem) => flaws.push(Flaw { field: field.to_owned(), problem }),
        });
    }
    flaws
}

/// Calls `act` with every value at `path`, and with its path.
fn visit(value: &mut Value, path: &str, at: &str, act: &mut dyn FnMut(&str, &mut Value)) {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let (name, each) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
    let Some(member) = fields::given_mut(value, name) else { return };
    let at = if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    let mut enter = |value: &mut Value, at: &str| match rest {
        Some(rest) => visit(value, rest, at, act),
        None => act(at, value),
    };
    match member {
        Value::Array(items) if each => {
            items.iter_mut().enumerate().for_each(|(index, item)| enter(item, &format!("{at}[{index}]")));
        }
        _ if each => {}
        member => enter(member, &at),
    }
}

impl ValueKind {
    fn converted(self, value: &Value) -> Result<Value, String> {
        match self {
            Self::Policy => policy(value),
            Self::Bytes => bytes(value),
            Self::Cpu => cpu(value),
            Self::Seconds(range) => range.checked(seconds(value)?),
            Self::Number(range) => range.checked(value.clone()),
        }
    }
}

impl Range {
    /// The value, unless it is a number outside of the range; another type is left to the decoder, which names it.
    fn checked(self, value: Value) -> Result<Value, String> {
        let Some(number) = value.as_i64() else { return Ok(value) };
        match self {
            Self::Within(least, most) if !(least..=most).contains(&number) => {
                Err(format!("must be {least}..{most}, is {number}"))
            }
            Self::ZeroOr(least, most) if number != 0 && !(least..=most).contains(&number) => {
                Err(format!("must be 0 (default {least}) or {least}..{most}, is {number}"))
            }
            Self::Any | Self::Within(..) | Self::ZeroOr(..) => Ok(value),
        }
    }
}

fn policy(value: &Value) -> Result<Value, String> {
    let known = match value {
        Value::String(word) => RestartPolicy::from_word(word).map(|policy| Value::from(policy as u8)),
        number => number.as_i64().filter(|number| (0..=2).contains(number)).map(Value::from),
    };
    known.ok_or_else(|| format!("must be always, onfail or never, is {value}"))
}

fn bytes(value: &Value) -> Result<Value, String> {
    let Value::String(text) = value else { return Ok(value.clone()) };
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let shift = match &text[digits..] {
        "" => Some(0),
        "Ki" => Some(10),
        "Mi" => Some(20),
        "Gi" => Some(30),
        "Ti" => Some(40),
        _ => None,
    };
    let size = shift.and_then(|shift| text[..digits].parse::<i64>().ok()?.checked_mul(1 << shift));
    size.map(Value::from)
        .ok_or_else(|| format!("{text:?} is not a size; write bytes, or a number with Ki, Mi, Gi or Ti, such as 256Mi"))
}

/// An integer is a level, as in the API; a number with a decimal point is cores.
fn cpu(value: &Value) -> Result<Value, String> {
    if let Some(level) = value.as_i64() {
        return if (0..=HIGHEST_LEVEL).contains(&level) {
            Ok(value.clone())
        } else {
            Err(format!(
                "must be a level 0..{HIGHEST_LEVEL}, each half a core, or cores with a decimal point such as 0.5, is {level}"
            ))
        };
    }
    let cores = match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_f64(),
    };
    let Some(cores) = cores else { return Ok(value.clone()) };
    let found = (1..=HIGHEST_LEVEL).zip(1_u8..).find(|(_, level)| f64::from(*level) * CORES_PER_LEVEL == cores);
    found.map(|(level, _)| Value::from(level)).ok_or_else(|| {
        format!("{cores} cores cannot be given; write a multiple of 0.5 from 0.5 to 4.0, or a level 0..{HIGHEST_LEVEL}")
    })
}

fn seconds(value: &Value) -> Result<Value, String> {
    let Value::String(text) = value else { return Ok(value.clone()) };
    let span = fabric::duration::parse(text)?;
    match span.subsec_nanos() {
        0 => Ok(Value::from(span.as_secs())),
        _ => Err(format!("{text:?} is not a whole number of seconds")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        for (text, size) in [("1024", 1_i64 << 10), ("256Mi", 256 << 20), ("2Gi", 2 << 30), ("1Ti", 1 << 40)] {
            assert_eq!(bytes(&json!(text)), Ok(json!(size)), "{text}");
        }
        for text in ["", "Mi", "256M", "256MB", "-1Mi", "1.5Gi", "9999999999Ti"] {
            assert!(bytes(&json!(text)).is_err_and(|why| why.contains("256Mi")), "{text}");
        }
    }

    #[test]
    fn an_integer_is_a_cpu_level_and_a_decimal_point_means_cores() {
        for (written, level) in
            [(json!(0), 0), (json!(1), 1), (json!(8), 8), (json!(0.5), 1), (json!(1.0), 2), (json!("1.5"), 3)]
        {
            assert_eq!(cpu(&written).map(|level| level.as_i64()), Ok(Some(level)), "{written}");
        }
        for wrong in [json!(9), json!(-1), json!(0.0), json!(0.75), json!(4.5), json!(-0.5)] {
            assert!(cpu(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_match_in_any_case_and_every_container_is_converted() {
        let mut pod = json!({"setuptime": "1m30s", "Containers": [{"memorylimit": "8Mi"}, {"MemoryLimit": "9Mi"}, 5]});
        assert_eq!(convert_pod(&mut pod), []);
        let expected = json!({"setuptime": 90, "Containers": [{"memorylimit": 8 << 20}, {"MemoryLimit": 9 << 20}, 5]});
        assert_eq!(pod, expected);
        let mut pod = json!({"Containers": [{}, {"CpuLimit": 9}]});
        assert_eq!(convert_pod(&mut pod)[0].field, "Containers[1].CpuLimit");
        assert_eq!(
            convert_group(&mut json!({"Pod": {"SetupTime": 301}}))[0].to_string(),
            "Pod.SetupTime: must be 0..300, is 301"
        );
    }
}
