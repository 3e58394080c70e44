//! Reads the token of a request. Pure.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use contract::access::token::Token;

/// Before a token in the header; clients write it in any case.
const SCHEME: &str = "bearer";

/// Why the header holds no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderFlaw {
    /// Two readers could take different ones.
    Twice,
    /// Another scheme, or text that no token can be.
    Malformed,
}

/// The token of a request; none when it carries no `Authorization`.
pub(super) fn read(headers: &HeaderMap) -> Result<Option<Token>, HeaderFlaw> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(HeaderFlaw::Twice);
    }
    let text = value.to_str().map_err(|_| HeaderFlaw::Malformed)?;
    let (scheme, token) = text.trim().split_once(' ').ok_or(HeaderFlaw::Malformed)?;
    let is_bearer = scheme.eq_ignore_ascii_case(SCHEME);
    Token::parse(token.trim()).filter(|_| is_bearer).map(Some).ok_or(HeaderFlaw::Malformed)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn read_all(values: &[&str]) -> Result<Option<Token>, HeaderFlaw> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(value.as_bytes()).expect("a header"));
        }
        read(&headers)
    }

    #[test]
    fn a_token_is_read_whatever_the_case_of_its_scheme() {
        let token = Token::from_random(&[7; 40]);
        for scheme in ["Bearer ", "bearer ", "BEARER  "] {
            assert_eq!(read_all(&[&format!("{scheme}{}", token.reveal())]), Ok(Some(token.clone())), "{scheme}");
        }
        assert_eq!(read_all(&[]), Ok(None));
    }

    #[test]
    fn anything_else_is_no_token_and_never_counts_as_no_header() {
        let token = Token::from_random(&[7; 40]).reveal();
        for value in [
            "",
            "Bearer",
            "Bearer ",
            &token,
            &format!("Basic {token}"),
            &format!("Bearer {token}0"),
            &format!("Bearer {token} {token}"),
            "Bearer na\u{ef}ve",
        ] {
            assert_eq!(read_all(&[value]), Err(HeaderFlaw::Malformed), "{value:?}");
        }
        let header = format!("Bearer {token}");
        assert_eq!(read_all(&[&header, &header]), Err(HeaderFlaw::Twice));
    }
}
