//! Block devices of this node and the limits of one container on each.
//!
//! They belong to the node, not to a spec: a change of the list does not recreate containers. Sizes are in the original's
//! format: whole numbers, decimal units.

/// Default percentage of a device that one container may use.
const USUAL_PERCENT: u64 = 70;

/// A block device and its capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    path: String,
    rate: Option<u64>,
    iops: Option<u64>,
    percent: u64,
}

/// Limits of one container on a device, for reads and for writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Throttle {
    pub path: String,
    /// Bytes per second; none means unlimited.
    pub rate: Option<i64>,
    /// Operations per second; none means unlimited.
    pub iops: Option<i64>,
}

impl Device {
    /// Parses `path=/dev/sda,rate=100mb,iops=1000,percent=70`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut path, mut rate, mut iops, mut percent) = (None, None, None, None);
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is not KEY=VALUE"))?;
            let before = match key.trim() {
                "path" => path.replace(device_path(value)?).is_some(),
                "rate" => rate.replace(size(value)?).is_some(),
                "iops" => iops.replace(number("iops", value)?).is_some(),
                "percent" => percent.replace(share(value)?).is_some(),
                other => return Err(format!("{other:?} is not known; write path, rate, iops or percent")),
            };
            if before {
                return Err(format!("{} is given twice", key.trim()));
            }
        }
        let path = path.ok_or("path= is missing")?;
        if rate.is_none() && iops.is_none() {
            return Err(format!("{path} has neither rate= nor iops="));
        }
        Ok(Self { path, rate, iops, percent: percent.unwrap_or(USUAL_PERCENT) })
    }

    /// The limits of one container.
    pub fn throttle(&self) -> Throttle {
        // 128 bits, because petabytes times 100 overflow 64. At least 1, because 0 means unlimited.
        let part =
            |whole: u64| i64::try_from(u128::from(whole) * u128::from(self.percent) / 100).unwrap_or(i64::MAX).max(1);
        Throttle { path: self.path.clone(), rate: self.rate.map(part), iops: self.iops.map(part) }
    }
}

fn device_path(text: &str) -> Result<String, String> {
    let path = text.trim();
    if path.len() > 1 && path.starts_with('/') { Ok(path.to_owned()) } else { Err(format!("path {text:?} is no path")) }
}

fn share(text: &str) -> Result<u64, String> {
    match number("percent", text)? {
        percent @ 1..=100 => Ok(percent),
        other => Err(format!("percent must be 1 to 100, is {other}")),
    }
}

fn number(what: &str, text: &str) -> Result<u64, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| plain && *number > 0);
    number.ok_or_else(|| format!("{what} {text:?} is no whole number above 0"))
}

/// Bytes: digits, an optional decimal unit (k, m, g, t, p), an optional `b`.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("rate {text:?} is no size; write a whole number and k, m, g, t or p, such as 100mb");
    let lower = text.to_ascii_lowercase();
    let bare = lower.strip_suffix('b').unwrap_or(&lower);
    let units = [("k", 1_000), ("m", 1_000_000), ("g", 1_000_000_000), ("t", 1_000_000_000_000)];
    let units = units.into_iter().chain([("p", 1_000_000_000_000_000)]);
    let unit = units.into_iter().find_map(|(unit, times)| Some((bare.strip_suffix(unit)?, times)));
    let (digits, times) = unit.unwrap_or((bare, 1_u64));
    number("rate", digits).ok().and_then(|count| count.checked_mul(times)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle(text: &str) -> Throttle {
        Device::parse(text).expect("a device").throttle()
    }

    #[test]
    fn a_container_gets_its_percentage_of_rate_and_operations() {
        let sda = |rate, iops| Throttle { path: "/dev/sda".to_owned(), rate, iops };
        assert_eq!(throttle("path=/dev/sda,rate=100mb,iops=1000"), sda(Some(70_000_000), Some(700)));
        assert_eq!(throttle("path=/dev/sda,rate=100mb,iops=1000,percent=50"), sda(Some(50_000_000), Some(500)));
        assert_eq!(throttle("path=/dev/sda,iops=1"), sda(None, Some(1)));
        assert_eq!(throttle("iops=10,path=/dev/sda,percent=100"), sda(None, Some(10)));
        assert_eq!(throttle("path=/dev/sda,rate=1g"), sda(Some(700_000_000), None));
    }

    #[test]
    fn sizes_are_whole_numbers_with_decimal_units() {
        let rates = ["7", "7b", "7k", "7KB", "7m", "7Gb", "7t", "7p", "7PB"];
        let expected: [u64; 9] = [
            7,
            7,
            7_000,
            7_000,
            7_000_000,
            7_000_000_000,
            7_000_000_000_000,
            7_000_000_000_000_000,
            7_000_000_000_000_000,
        ];
        assert_eq!(rates.map(|rate| size(rate).expect("a size")), expected);
        for wrong in ["", "b", "k", "fast", "-1", "+1", "1.5m", "1 m", "1mbb", "1e3", "0", "99999p"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_invalid_device_is_refused_with_the_reason() {
        let error = |text: &str| Device::parse(text).expect_err("a flaw");
        assert_eq!(error("/dev/sda"), "\"/dev/sda\" is not KEY=VALUE");
        assert_eq!(error("rate=1m"), "path= is missing");
        assert_eq!(error("path=sda,rate=1m"), "path \"sda\" is no path");
        assert_eq!(error("path=/dev/sda"), "/dev/sda has neither rate= nor iops=");
        assert_eq!(error("path=/dev/sda,rate=1m,rate=2m"), "rate is given twice");
        assert_eq!(error("path=/dev/sda,iops=x"), "iops \"x\" is no whole number above 0");
        assert_eq!(error("path=/dev/sda,iops=1,percent=101"), "percent must be 1 to 100, is 101");
        assert_eq!(error("path=/dev/sda,speed=1"), "\"speed\" is not known; write path, rate, iops or percent");
    }
}
