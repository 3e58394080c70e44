//! Callback URLs: which ones a user may register, and how they are shown. The path and the query of a callback often hold a
//! token, so logs, events and dead letters show neither.

use std::fmt;

use serde_json::Value;
use url::Url;

/// Longest callback URL in bytes: the common limit of browsers and proxies.
pub const LONGEST: usize = 2048;
/// Stands for a user and password.
const MASK: &str = "***";
/// The field of a notice that holds its callback.
const CALLBACK: &str = "callback";

/// Why a URL cannot be a callback.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlFlaw {
    /// Longer than [`LONGEST`].
    #[error("is {0} bytes long, at most {LONGEST} are allowed")]
    TooLong(usize),
    /// Not an absolute URL with a host.
    #[error("{0}")]
    Malformed(url::ParseError),
    /// Neither `http` nor `https`.
    #[error("must start with http:// or https://, not {0}:")]
    Scheme(String),
    /// Parsers drop blanks and line ends silently, but the text itself is stored and compared.
    #[error("must not contain blanks or control characters")]
    Blanks,
    /// A user or a password before the host.
    #[error("must not contain a user or a password; let the receiver check the webhook-signature header instead")]
    UserInfo,
}

/// Checks a URL that a user wants to register.
pub fn check(text: &str) -> Result<Url, UrlFlaw> {
    if text.len() > LONGEST {
        return Err(UrlFlaw::TooLong(text.len()));
    }
    let url = parse(text)?;
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(UrlFlaw::Blanks);
    }
    // The parser drops an empty user (`http://@host`), so the text is checked too.
    if !url.username().is_empty() || url.password().is_some() || authority(text).is_some_and(|it| it.contains('@')) {
        return Err(UrlFlaw::UserInfo);
    }
    Ok(url)
}

/// Reads a stored callback. Earlier versions stored URLs with a user and a password, which still work.
pub fn parse(text: &str) -> Result<Url, UrlFlaw> {
    let url = Url::parse(text).map_err(UrlFlaw::Malformed)?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(UrlFlaw::Scheme(other.to_owned())),
    }
}

/// Shows a callback as `scheme://host[:port]/…`.
pub fn shown(text: &str) -> Shown<'_> {
    Shown(text)
}

/// Displays a callback without user, password, path and query.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Url::parse(self.0).ok().as_ref().and_then(|url| Some((url, url.host_str()?))) {
            Some((url, host)) => {
                write!(f, "{}://{host}", url.scheme())?;
                url.port().map_or(Ok(()), |port| write!(f, ":{port}"))?;
                f.write_str("/…")
            }
            None => f.write_str("(not a URL)"),
        }
    }
}

/// The URL with `***` in the place of a user and password. Anything else stays byte for byte, because users delete callbacks by
/// the text they see.
pub fn without_userinfo(text: &str) -> String {
    match authority(text).and_then(|authority| Some((authority, authority.rsplit_once('@')?.1))) {
        Some((authority, host)) => text.replacen(authority, &format!("{MASK}@{host}"), 1),
        None => text.to_owned(),
    }
}

/// The message of a notice with its callback as [`shown`], for dead letters.
pub fn shown_in_notice(payload: &[u8]) -> Vec<u8> {
    let Ok(Value::Object(mut notice)) = serde_json::from_slice(payload) else { return payload.to_vec() };
    if let Some(Value::String(url)) = notice.get_mut(CALLBACK) {
        *url = shown(url).to_string();
    }
    Value::Object(notice).to_string().into_bytes()
}

/// The text between the scheme and the path, as URL parsers see it: they take `\` for `/` and accept any number of them.
fn authority(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(':')?;
    rest.trim_start_matches(['/', '\\']).split(['/', '\\', '?', '#']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_http_urls_are_callbacks() {
        for good in
            ["http://a", "https://a.b:8443/x?y=z", "HTTP://127.0.0.1/", "http://a/b@c", "http://a?b@c", "http://a/#@"]
        {
            assert!(check(good).is_ok(), "{good}");
        }
        let long = format!("http://a/{}", "x".repeat(3000));
        for bad in
            ["", "/x", "a.b/c", "ftp://a/", "file:///etc/passwd", "http://", "http://a/ b", "javascript:x", &long]
        {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_user_or_a_password_is_refused_in_every_notation() {
        for bad in [
            "http://a@b/",
            "http://a:c@b/",
            "http://:c@b/",
            "http://@b/",
            "http://:@b/",
            "http:/a@b/",
            "http:\\\\a@b",
            "https:a@b",
        ] {
            assert_eq!(check(bad), Err(UrlFlaw::UserInfo), "{bad}");
        }
    }

    #[test]
    fn a_callback_is_shown_by_scheme_and_host() {
        for (text, expected) in [
            ("https://user:secret@hooks.example:8443/path?token=x#y", "https://hooks.example:8443/…"),
            ("http://hooks.example", "http://hooks.example/…"),
            ("http://[::1]:80/x", "http://[::1]/…"),
            ("http://user:secret@", "(not a URL)"),
            ("data:secret", "(not a URL)"),
        ] {
            assert_eq!(shown(text).to_string(), expected);
        }
    }

    #[test]
    fn only_the_user_and_the_password_of_a_stored_url_are_masked() {
        for (text, expected) in [
            ("http://a:b@c:80/d?e=f@g", "http://***@c:80/d?e=f@g"),
            ("http://a@b@c/d", "http://***@c/d"),
            ("HTTP://c/d@e", "HTTP://c/d@e"),
            ("http:a:b@c", "http:***@c"),
            ("no url", "no url"),
        ] {
            assert_eq!(without_userinfo(text), expected);
        }
    }

    #[test]
    fn a_dead_letter_names_only_the_host_of_the_callback() {
        let payload = br#"{"callback":"http://u:p@h/secret","body":{"Message":"down"}}"#;
        let shown = String::from_utf8(shown_in_notice(payload)).unwrap();
        assert_eq!(shown, r#"{"body":{"Message":"down"},"callback":"http://h/…"}"#);
        assert_eq!(shown_in_notice(b"\"text\""), b"\"text\"");
    }
}
