//! Reads the parameters out of a body that is a form, as browsers and curl send them. Pure.
//!
//! The surprise: a form that is broken is a form without parameters, not an error, because deployd never refuses a
//! parameter. Files in a form are not parameters.

use url::form_urlencoded;

/// What stands between the parts of a multipart body is at most this long.
const LONGEST_BOUNDARY: usize = 70;

/// The parameters of a body of this content type; none when it is not a form.
pub fn read(content_type: Option<&str>, body: &[u8]) -> Option<Vec<(String, String)>> {
    let content_type = content_type?;
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Some(form_urlencoded::parse(body).into_owned().collect());
    }
    if !essence.eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameter(content_type, "boundary").unwrap_or_default();
    let sensible = (1..=LONGEST_BOUNDARY).contains(&boundary.len());
    Some(sensible.then(|| multipart(body, &boundary)).flatten().unwrap_or_default())
}

/// The parts that are texts; none at all when the body breaks off or is no multipart body.
fn multipart(body: &[u8], boundary: &str) -> Option<Vec<(String, String)>> {
    let delimiter = format!("\r\n--{boundary}");
    let delimiter = delimiter.as_bytes();
    // The first boundary may begin the body, without the end of a line before it.
    let (_, mut rest) = match body.strip_prefix(&delimiter[2..]) {
        Some(rest) => (&body[..0], rest),
        None => cut(body, delimiter)?,
    };
    let mut pairs = Vec::new();
    while !rest.starts_with(b"--") {
        let (_, after) = cut(rest, b"\r\n")?;
        let (part, next) = cut(after, delimiter)?;
        pairs.extend(text_of(part));
        rest = next;
    }
    Some(pairs)
}

/// Name and value of a part that is a text.
fn text_of(part: &[u8]) -> Option<(String, String)> {
    let (head, value) = cut(part, b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(head);
    let disposition = head.split("\r\n").find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    })?;
    if parameter(disposition, "filename").is_some() {
        return None;
    }
    Some((parameter(disposition, "name")?, String::from_utf8_lossy(value).into_owned()))
}

/// The value of `; name=value` or `; name="value"` in a header.
fn parameter(header: &str, name: &str) -> Option<String> {
    let (_, mut rest) = header.split_once(';')?;
    loop {
        let (key, after) = rest.split_once('=')?;
        let (value, next) = value(after.trim_start());
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = next;
    }
}

/// A value, quoted or bare, and what stands after its semicolon.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, next) = text.split_once(';').unwrap_or((text, ""));
        return (value.trim().to_owned(), next);
    };
    let (mut value, mut escaped) = (String::new(), false);
    for (index, c) in quoted.char_indices() {
        match (escaped, c) {
            (false, '\\') => escaped = true,
            (false, '"') => return (value, quoted[index + 1..].split_once(';').map_or("", |(_, next)| next)),
            (_, c) => {
                value.push(c);
                escaped = false;
            }
        }
    }
    (value, "")
}

/// What stands before and after the first `mark`.
fn cut<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = bytes.windows(mark.len()).position(|window| window == mark)?;
    Some((&bytes[..at], &bytes[at + mark.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: Option<&str> = Some("multipart/form-data; charset=utf-8; boundary=\"x;y\"");

    fn pairs(pairs: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn only_forms_are_forms() {
        let urlencoded = Some("Application/X-WWW-Form-Urlencoded; charset=utf-8");
        assert_eq!(read(urlencoded, b"a=1&b=%20+x"), pairs(&[("a", "1"), ("b", "  x")]));
        for other in [Some("application/json"), Some("text/plain"), Some("multipart/mixed; boundary=x"), None] {
            assert_eq!(read(other, b"a=1"), None, "{other:?}");
        }
    }

    #[test]
    fn the_texts_of_a_multipart_body_are_parameters_and_its_files_are_not() {
        let body = b"preamble\r\n--x;y\r\ncontent-disposition: form-data; name=\"cmd\"\r\n\r\nreplica\r\n--x;y  \r\n\
            X: 1\r\nContent-Disposition: form-data; name=bare\r\n\r\ntwo\r\nlines\r\n--x;y\r\n\
            Content-Disposition: form-data; name=\"f\"; filename=\"a;b\\\".txt\"\r\n\r\nfile\r\n--x;y\r\n\
            Content-Disposition: form-data; other=\"name=\\\"no\\\"\"; name=\"q\\\"\"\r\n\r\n\r\n--x;y--\r\nepilogue";
        assert_eq!(read(TYPE, body), pairs(&[("cmd", "replica"), ("bare", "two\r\nlines"), ("q\"", "")]));
    }

    #[test]
    fn a_broken_multipart_body_is_a_form_without_parameters() {
        let part = "--x;y\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1";
        assert_eq!(read(TYPE, format!("{part}\r\n--x;y--").as_bytes()), pairs(&[("a", "1")]));
        for broken in ["", "x", part, &format!("{part}\r\n--x;y"), "--x;y", "--x;y--", "--x;y\r\n\r\n--x;y--"] {
            assert_eq!(read(TYPE, broken.as_bytes()), pairs(&[]), "{broken:?}");
        }
        for content_type in ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary"] {
            assert_eq!(read(Some(content_type), part.as_bytes()), pairs(&[]), "{content_type}");
        }
    }
}
