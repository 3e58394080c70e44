//! The flags that all lists share.

use clap::{Args as ClapArgs, ValueEnum};

/// How a list is shown.
#[derive(Debug, Clone, Copy, ClapArgs)]
pub struct Listing {
    /// Output format
    #[arg(long, short, value_enum, default_value_t = ListOutput::Table)]
    pub output: ListOutput,
    /// Print the list, then each row that changes, until Ctrl-C
    #[arg(long, short)]
    pub watch: bool,
}

/// Which namespaces a list covers.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Scope {
    /// Only this namespace [default: all of them]
    #[arg(long, short, env = "DEPLOYD_NAMESPACE", value_name = "NAME")]
    pub namespace: Option<String>,
    /// All namespaces, whatever DEPLOYD_NAMESPACE says
    #[arg(long, short = 'A')]
    pub all_namespaces: bool,
}

impl Scope {
    /// The namespace to list; none for all.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref().filter(|name| !self.all_namespaces && !name.is_empty())
    }
}

/// Output format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListOutput {
    /// Table
    Table,
    /// Table with more columns
    Wide,
    /// YAML
    Yaml,
    /// Raw JSON
    Json,
    /// Names only, one a line
    Name,
}

/// A condition on labels: `key=value`, `key!=value`, or `key` for any value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Vec<Condition>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    key: String,
    /// None: any value.
    value: Option<String>,
    is_equal: bool,
}

impl Selector {
    /// Whether all conditions hold; `label` returns the value of a label.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|Condition { key, value, is_equal }| match value {
            None => label(key).is_some(),
            Some(value) => (label(key) == Some(value.as_str())) == *is_equal,
        })
    }
}

impl std::str::FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let condition = |part: &str| {
            let (key, value, is_equal) = match (part.split_once("!="), part.split_once('=')) {
                (Some((key, value)), _) => (key, Some(value), false),
                (None, Some((key, value))) => (key, Some(value.trim_start_matches('=')), true),
                (None, None) => (part, None, true),
            };
            match key.trim() {
                "" => Err(format!("{part:?} has no label; write KEY=VALUE, KEY!=VALUE or KEY")),
                key => Ok(Condition { key: key.to_owned(), value: value.map(|it| it.trim().to_owned()), is_equal }),
            }
        };
        text.split(',').map(condition).collect::<Result<_, _>>().map(Self)
    }
}

/// Whether a name matches a pattern in which `*` stands for any text; without `*` the name must be equal.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, expected) in [
            ("shop.*", "shop.web.web", true),
            ("*.web", "shop.web.web", true),
            ("s*p.*.web", "shop.a.web", true),
            ("*", "a", true),
            ("a*a", "a", false),
            ("shop.web", "shop.web.web", false),
            ("shop.web.web", "shop.web.web", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_selector_demands_all_its_conditions() {
        let label = |key: &str| [("zone", "a"), ("disk", "ssd")].into_iter().find(|it| it.0 == key).map(|it| it.1);
        for (text, expected) in [
            ("zone=a", true),
            ("zone==a,disk", true),
            ("zone=b", false),
            ("zone!=b", true),
            ("zone!=a", false),
            ("rack", false),
            ("rack!=1", true),
        ] {
            assert_eq!(text.parse::<Selector>().unwrap().matches(label), expected, "{text}");
        }
        assert!("=a".parse::<Selector>().is_err());
    }
}
