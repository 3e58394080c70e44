//! The flags of `scale`.

use std::str::FromStr;

use clap::Args as ClapArgs;

use super::Waiting;

/// `deployctl scale`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  deployctl scale demo.web.web 5
  deployctl scale demo.web.web +2
  deployctl scale demo.web.web -1 --detach")]
pub struct Scale {
    /// Name of the PodGroup
    pub name: String,
    /// Number of instances, or how many more (+2) or fewer (-1) than now
    #[arg(allow_negative_numbers = true, value_name = "NUMBER")]
    pub instances: InstanceCount,
    #[command(flatten)]
    pub waiting: Waiting,
}

/// A number of instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceCount {
    To(u32),
    /// More or fewer than now.
    By(i32),
}

impl InstanceCount {
    /// The number for a group that has `present` instances; never below 0.
    pub fn of(self, present: i64) -> u32 {
        match self {
            Self::To(number) => number,
            Self::By(change) => {
                u32::try_from(present.saturating_add(i64::from(change)).clamp(0, u32::MAX.into())).unwrap_or(0)
            }
        }
    }
}

impl FromStr for InstanceCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_relative = text.starts_with(['+', '-']);
        let number = if is_relative { text.parse().ok().map(Self::By) } else { text.parse().ok().map(Self::To) };
        number.ok_or_else(|| format!("{text:?} is not a number of instances; write 5, +2 or -1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_makes_a_number_relative() {
        let of = |text: &str| text.parse::<InstanceCount>().map(|count| count.of(3));
        assert_eq!((of("5"), of("+2"), of("-1"), of("-9")), (Ok(5), Ok(5), Ok(2), Ok(0)));
        assert!(of("many").is_err() && of("1.5").is_err());
    }
}
