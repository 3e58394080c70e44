//! Parses placement expressions such as `constraint:group==default` and `affinity:image!=~redis*`.
//!
//! The syntax is Swarm's: a value between slashes is a regular expression that may match anywhere, any other value is a glob
//! that must match the whole; `~` after the operator makes the expression soft. An invalid text becomes an expression that no
//! node meets, so a typing error appears among the reasons and is never ignored.

use regex::bytes::{Regex, RegexBuilder};

#[derive(Debug, Clone)]
pub struct Expression {
    text: String,
    soft: bool,
    kind: ExpressionKind,
}

/// What an expression is compared with.
#[derive(Debug, Clone)]
pub enum ExpressionKind {
    /// The node: its name (key `node`) or one of its labels.
    Constraint(LabelTest),
    /// The pods on the node: `container`, `image` or a container label.
    Affinity(LabelTest),
    /// Invalid, with the reason.
    Unreadable(String),
}

/// A key compared with a pattern.
#[derive(Debug, Clone)]
pub struct LabelTest {
    pub key: String,
    /// The operator is `==`, not `!=`.
    pub equal: bool,
    pattern: Pattern,
}

#[derive(Debug, Clone)]
enum Pattern {
    Exact(String),
    Glob(Vec<String>),
    Search(Regex),
}

impl Expression {
    /// Parses an expression; an invalid one becomes [`ExpressionKind::Unreadable`].
    pub fn parse(text: &str) -> Self {
        let (soft, kind) = match read(text) {
            Ok(read) => read,
            Err(reason) => (false, ExpressionKind::Unreadable(reason)),
        };
        Self { text: text.to_owned(), soft, kind }
    }

    /// The expression as written.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// A preference, not a requirement.
    pub fn is_soft(&self) -> bool {
        self.soft
    }
    pub fn kind(&self) -> &ExpressionKind {
        &self.kind
    }
}

impl LabelTest {
    /// Whether the value matches the pattern; the operator is not considered.
    pub fn matches(&self, value: &str) -> bool {
        match &self.pattern {
            Pattern::Exact(text) => text == value,
            Pattern::Glob(parts) => glob(parts, value),
            Pattern::Search(regex) => regex.is_match(value.as_bytes()),
        }
    }
}

fn read(text: &str) -> Result<(bool, ExpressionKind), String> {
    let (family, rest) = text.split_once(':').ok_or("it does not start with constraint: or affinity:")?;
    let at = rest.find(['=', '!']).ok_or("it has neither == nor !=")?;
    let (key, tail) = rest.split_at(at);
    let (equal, tail) = match (tail.strip_prefix("=="), tail.strip_prefix("!=")) {
        (Some(tail), _) => (true, tail),
        (None, Some(tail)) => (false, tail),
        (None, None) => return Err("its operator is neither == nor !=".to_owned()),
    };
    let (soft, value) = tail.strip_prefix('~').map_or((false, tail), |value| (true, value));
    check_key(key)?;
    let test = LabelTest { key: key.to_owned(), equal, pattern: pattern(value)? };
    match family {
        "constraint" => Ok((soft, ExpressionKind::Constraint(test))),
        "affinity" => Ok((soft, ExpressionKind::Affinity(test))),
        other => Err(format!("{other:?} is neither constraint nor affinity")),
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let mut characters = key.chars();
    let first = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if first && characters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/')) {
        Ok(())
    } else {
        Err(format!("its key {key:?} is not made of letters, digits, '-', '_' and '.'"))
    }
}

fn pattern(value: &str) -> Result<Pattern, String> {
    if value.len() >= 2 && value.starts_with('/') && value.ends_with('/') {
        let inner = &value[1..value.len() - 1];
        // The size is limited because users write the text and it is compiled for each plan of the group.
        let built = RegexBuilder::new(inner).unicode(false).size_limit(64 * 1024).build();
        return built.map(Pattern::Search).map_err(|_| format!("{inner:?} is not a regular expression"));
    }
    if value.contains('*') {
        return Ok(Pattern::Glob(value.split('*').map(str::to_owned).collect()));
    }
    Ok(Pattern::Exact(value.to_owned()))
}

/// Matches the whole value against the literal parts between the stars.
fn glob(parts: &[String], value: &str) -> bool {
    let [first, middle @ .., last] = parts else { return false };
    let Some(rest) = value.strip_prefix(first.as_str()) else { return false };
    let Some(mut rest) = rest.strip_suffix(last.as_str()) else { return false };
    for part in middle {
        let Some(at) = rest.find(part.as_str()) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constraint(text: &str) -> LabelTest {
        match Expression::parse(text).kind {
            ExpressionKind::Constraint(test) => test,
            ExpressionKind::Affinity(_) | ExpressionKind::Unreadable(_) => panic!("{text} is no constraint"),
        }
    }

    #[test]
    fn a_plain_value_matches_the_whole_and_a_star_matches_anything() {
        assert!(constraint("constraint:group==default").matches("default"));
        assert!(!constraint("constraint:group==default").matches("default2"));
        let test = constraint("constraint:node==web-*-b*");
        assert!(test.matches("web-1-b") && test.matches("web-x-y-b2"));
        assert!(!test.matches("web-1-c") && !test.matches("aweb-1-b"));
        assert!(!constraint("constraint:node==a*a").matches("a"));
    }

    #[test]
    fn a_value_between_slashes_is_a_regular_expression() {
        let test = constraint("constraint:node!=/^n[12]$/");
        assert!(test.matches("n1") && !test.matches("n3") && !test.equal);
        assert!(constraint("constraint:node==/b/").matches("abc"));
        assert!(constraint(r"constraint:node==/^\w[^x]\d+$/").matches("na42"));
    }

    #[test]
    fn a_tilde_makes_an_expression_soft() {
        assert!(Expression::parse("constraint:node!=~n1").is_soft());
        assert!(!Expression::parse("constraint:node!=n1").is_soft());
    }

    #[test]
    fn an_invalid_expression_keeps_its_reason() {
        for text in ["", "group==default", "constraint:group", "constraint:=x", "reschedule:on==x", "constraint:a==/(/"]
        {
            assert!(matches!(Expression::parse(text).kind(), ExpressionKind::Unreadable(_)), "{text}");
        }
    }
}
