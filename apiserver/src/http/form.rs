//! Reads the parameters out of a form body, as browsers and curl send them.
//!
//! A broken form is a form without parameters, not an error: deployd never refuses a parameter. Files are not parameters.

use std::convert::Infallible;

use bytes::Bytes;
use multer::Multipart;
use url::form_urlencoded;

/// RFC 2046 allows no longer boundary.
const LONGEST_BOUNDARY: usize = 70;

/// The parameters of a body of this content type; none when it is not a form.
pub async fn read(content_type: Option<&str>, body: Bytes) -> Option<Vec<(String, String)>> {
    let content_type = content_type?;
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Some(form_urlencoded::parse(&body).into_owned().collect());
    }
    if !essence.eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    Some(multipart(content_type, body).await.unwrap_or_default())
}

/// The text parts of a multipart body; an error when the body is broken anywhere.
async fn multipart(content_type: &str, body: Bytes) -> multer::Result<Vec<(String, String)>> {
    let boundary = multer::parse_boundary(content_type)?;
    if !(1..=LONGEST_BOUNDARY).contains(&boundary.len()) {
        return Err(multer::Error::NoBoundary);
    }
    let chunks = futures_util::stream::iter([Ok::<Bytes, Infallible>(body)]);
    let mut parts = Multipart::new(chunks, boundary);
    let mut pairs = Vec::new();
    while let Some(part) = parts.next_field().await? {
        let name = part.name().filter(|_| part.file_name().is_none()).map(str::to_owned);
        let value = part.bytes().await?;
        pairs.extend(name.map(|name| (name, String::from_utf8_lossy(&value).into_owned())));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: Option<&str> = Some("multipart/form-data; charset=utf-8; boundary=\"x;y\"");

    fn pairs(pairs: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[tokio::test]
    async fn only_forms_are_forms() {
        let urlencoded = Some("Application/X-WWW-Form-Urlencoded; charset=utf-8");
        assert_eq!(read(urlencoded, Bytes::from("a=1&b=%20+x")).await, pairs(&[("a", "1"), ("b", "  x")]));
        for other in [Some("application/json"), Some("text/plain"), Some("multipart/mixed; boundary=x"), None] {
            assert_eq!(read(other, Bytes::from("a=1")).await, None, "{other:?}");
        }
    }

    #[tokio::test]
    async fn the_texts_of_a_multipart_body_are_parameters_and_its_files_are_not() {
        let body = b"preamble\r\n--x;y\r\ncontent-disposition: form-data; name=\"cmd\"\r\n\r\nreplica\r\n--x;y  \r\n\
            X: 1\r\nContent-Disposition: form-data; name=bare\r\n\r\ntwo\r\nlines\r\n--x;y\r\n\
            Content-Disposition: form-data; name=\"f\"; filename=\"a;b\\\".txt\"\r\n\r\nfile\r\n--x;y\r\n\
            Content-Disposition: form-data; other=\"name=\\\"no\\\"\"; name=\"q\\\"\"\r\n\r\n\r\n--x;y--\r\nepilogue";
        assert_eq!(
            read(TYPE, Bytes::from_static(body)).await,
            pairs(&[("cmd", "replica"), ("bare", "two\r\nlines"), ("q\"", "")])
        );
    }

    #[tokio::test]
    async fn a_broken_multipart_body_is_a_form_without_parameters() {
        let part = "--x;y\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1";
        assert_eq!(read(TYPE, Bytes::from(format!("{part}\r\n--x;y--"))).await, pairs(&[("a", "1")]));
        for broken in ["", "x", part, &format!("{part}\r\n--x;y"), "--x;y", "--x;y--", "--x;y\r\n\r\n--x;y--"] {
            assert_eq!(read(TYPE, Bytes::from(broken.to_owned())).await, pairs(&[]), "{broken:?}");
        }
        for content_type in ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary"] {
            assert_eq!(read(Some(content_type), Bytes::from(part)).await, pairs(&[]), "{content_type}");
        }
    }
}
