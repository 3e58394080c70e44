//! `/api/audit` (ours): a page of the audit log, or of that of refused requests, oldest record first.

use std::str::FromStr;

use axum::http::StatusCode;
use contract::query::{Answer, Query};

use super::respond::{self, HttpResult, Refused, shown};
use super::router::HttpMethod;
use super::{Api, Call};
use crate::queries;

/// Default and largest `limit`. Schedulers give at most 500 records on a page, and 20 of refused requests.
const PAGE: (u32, u32) = (100, 1000);

pub async fn call(api: &Api, call: &Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => get(api, call).await,
        HttpMethod::Post | HttpMethod::Put | HttpMethod::Patch | HttpMethod::Delete => {
            Err(Refused::unsupported(call.method.word()))
        }
    }
}

async fn get(api: &Api, call: &Call) -> HttpResult {
    let (usual, most) = PAGE;
    let after = number(call, "after", 0)?;
    let limit: u32 = number(call, "limit", usual)?;
    if !(1..=most).contains(&limit) {
        return Err(Refused::bad_request(format!("limit: should be 1 to {most} but {limit}")));
    }
    let reply = api.queries.ask(&Query::Audit { after, limit, refused: call.params.boolean("refused", false) }).await?;
    match reply.answer {
        Answer::Audit(Ok(page)) => Ok(respond::stale(respond::json(StatusCode::OK, &page), reply.stale)),
        Answer::Audit(Err(reason)) => Err(Refused::unavailable(reason)),
        _ => Err(queries::Error::Mismatch.into()),
    }
}

/// A malformed number is refused: a reader that verifies the log must not get another page than it asked for.
fn number<T: FromStr>(call: &Call, name: &str, usual: T) -> Result<T, Refused> {
    let bad = |text: &str| Refused::bad_request(format!("{name}: should be a number from 0 but {:?}", shown(text)));
    call.params.text(name).map_or(Ok(usual), |text| text.parse().map_err(|_| bad(text)))
}
