//! `/api/notifies`: callback URLs.

use axum::http::StatusCode;
use contract::callback_url;
use contract::command::Verb;
use contract::query::{Answer, Query};

use super::respond::{self, HttpResult, Refused};
use super::router::{HttpMethod, Resource};
use super::writes::{self, Promise};
use super::{Api, Call};
use crate::{queries, view};

pub async fn call(api: &Api, call: Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => get(api).await,
        HttpMethod::Post => post(api, call).await,
        HttpMethod::Delete => delete(api, call).await,
        HttpMethod::Put | HttpMethod::Patch => Err(Refused::unsupported(call.method.word())),
    }
}

async fn get(api: &Api) -> HttpResult {
    let reply = api.queries.ask(&Query::Callbacks).await?;
    let Answer::Callbacks(urls) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    if urls.is_empty() {
        return Err(Refused::not_found("No notify found").stale(reply.stale));
    }
    Ok(respond::stale(respond::json(StatusCode::OK, &view::callbacks(&urls)), reply.stale))
}

async fn post(api: &Api, call: Call) -> HttpResult {
    let callback = call.params.text("callback").ok_or_else(|| Refused::bad_request("constaint type required"))?;
    let invalid = |why: String| Refused::bad_request(format!("callback url not valid: {why}"));
    let url = callback_url::check(callback).map_err(|flaw| invalid(flaw.to_string()))?;
    api.callback_policy.check_new(&url).map_err(|refused| invalid(refused.to_string()))?;
    let change = Verb::AddCallback { url: callback.to_owned() };
    writes::change(api, &call, change, promise("notify will be added")).await
}

async fn delete(api: &Api, call: Call) -> HttpResult {
    let callback = call.params.text("callback").ok_or_else(|| Refused::bad_request("callback value requird"))?;
    let change = Verb::RemoveCallback { url: callback.to_owned() };
    writes::change(api, &call, change, promise("notify uri will be deleted from the orc engine.")).await
}

fn promise(message: &'static str) -> Promise {
    Promise { check_url: Resource::Notifies.path().to_owned(), message }
}

#[cfg(test)]
mod tests {
    use crate::view;

    #[test]
    fn a_stored_password_is_not_shown_and_other_urls_stay_as_they_are() {
        let stored = ["https://b/x?token=y", "http://user:pw@a/x"].map(str::to_owned);
        assert_eq!(view::callbacks(&stored), ["http://***@a/x", "https://b/x?token=y"]);
    }
}
