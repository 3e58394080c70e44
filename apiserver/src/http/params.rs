//! Parameters of a request, by the original's rules. Pure.
//!
//! A missing, empty or malformed value becomes the default, never an error. Form values come before query values; the first
//! value of a name wins.

use serde::Serialize;
use url::form_urlencoded;

/// In order of precedence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Params(Vec<(String, String)>);

impl Params {
    pub fn new(query: Option<&str>, form: Vec<(String, String)>) -> Self {
        let query = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned();
        Self(form.into_iter().chain(query).collect())
    }

    /// None when missing or empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub fn integer(&self, name: &str, default: i64) -> i64 {
        self.text(name).and_then(|text| text.parse().ok()).unwrap_or(default)
    }

    pub fn boolean(&self, name: &str, default: bool) -> bool {
        match self.text(name) {
            Some("1" | "t" | "T" | "TRUE" | "true" | "True") => true,
            Some("0" | "f" | "F" | "FALSE" | "false" | "False") => false,
            _ => default,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Params {
        Params::new(Some(text), Vec::new())
    }

    #[test]
    fn the_first_value_wins_and_the_body_comes_first() {
        assert_eq!(query("a=1&a=2").text("a"), Some("1"));
        assert_eq!(query("a=&a=2").text("a"), None);
        let both = Params::new(Some("a=query&b=query"), vec![("a".to_owned(), "body".to_owned())]);
        assert_eq!((both.text("a"), both.text("b")), (Some("body"), Some("query")));
    }

    #[test]
    fn percent_escapes_are_decoded() {
        assert_eq!(query("name=a%2eb+c%20d").text("name"), Some("a.b c d"));
        assert_eq!(query("name=%zz").text("name"), Some("%zz"));
    }

    #[test]
    fn integers_are_base_ten_with_a_sign_or_the_default() {
        for (text, expected) in [
            ("n=5", 5),
            ("n=%2B5", 5),
            ("n=-3", -3),
            ("n=", 7),
            ("m=1", 7),
            ("n=1.5", 7),
            ("n=0x10", 7),
            ("n=99999999999999999999", 7),
            ("n=five", 7),
        ] {
            assert_eq!(query(text).integer("n", 7), expected, "{text}");
        }
    }

    #[test]
    fn booleans_are_those_of_go_or_the_default() {
        for word in ["1", "t", "T", "TRUE", "true", "True"] {
            assert!(query(&format!("b={word}")).boolean("b", false), "{word}");
        }
        for word in ["0", "f", "F", "FALSE", "false", "False"] {
            assert!(!query(&format!("b={word}")).boolean("b", true), "{word}");
        }
        for word in ["yes", "tRUE", "", "2"] {
            assert!(query(&format!("b={word}")).boolean("b", true), "{word}");
            assert!(!query(&format!("b={word}")).boolean("b", false), "{word}");
        }
    }
}
