//! Reads a request body up to the limit.
//!
//! A body that is too large is still read and discarded for a while: if the server closed while the client writes, the client
//! would see a connection reset instead of the answer.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use axum::http::{HeaderMap, StatusCode};
use bytes::{Bytes, BytesMut};
use contract::validate::LARGEST_BODY;
use futures_util::StreamExt;
use tokio::time::timeout;

use super::respond::Refused;

/// Most bytes discarded.
const MOST_DRAINED: usize = 64 * 1024 * 1024;
/// Longest time to discard.
const LONGEST_DRAIN: Duration = Duration::from_secs(5);
/// Deadline for a body within the limit.
const LONGEST_READ: Duration = Duration::from_secs(15);

pub async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Refused> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let mut chunks = body.into_data_stream();
    if announced.is_some_and(|length| length > LARGEST_BODY) {
        // A client with `Expect: 100-continue` sends no body after this answer.
        if !headers.contains_key(EXPECT) {
            drain(chunks).await;
        }
        return Err(too_large());
    }
    let read = timeout(LONGEST_READ, collect(&mut chunks)).await;
    let collected = read.map_err(|_| Refused::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"))?;
    match collected? {
        Some(body) => Ok(body),
        None => {
            drain(chunks).await;
            Err(too_large())
        }
    }
}

/// The whole body; none when it is larger than allowed.
async fn collect(chunks: &mut BodyDataStream) -> Result<Option<Bytes>, Refused> {
    let mut body = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Refused::bad_request(format!("the body cannot be read: {error}")))?;
        if body.len() + chunk.len() > LARGEST_BODY {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body.freeze()))
}

async fn drain(mut chunks: BodyDataStream) {
    let reading = async {
        let mut read = 0;
        while let Some(Ok(chunk)) = chunks.next().await {
            read += chunk.len();
            if read > MOST_DRAINED {
                break;
            }
        }
    };
    if timeout(LONGEST_DRAIN, reading).await.is_err() {
        tracing::debug!("stopped discarding a body that is too large");
    }
}

fn too_large() -> Refused {
    let message = format!("the body is too large: at most {LARGEST_BODY} bytes are read");
    Refused::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}
