//! Posts one notice to one URL, once.

use std::sync::Arc;
use std::time::Duration;

use contract::callback_address::Refused;
use contract::callback_url;
use contract::digest::Digest;
use contract::notice::Notice;
use contract::time::Timestamp;
use fabric::callback::Policy;
use reqwest::dns::Resolve;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Response, Url};

use crate::resolve::{self, Destination, Policies, PolicyResolver};
use crate::signature::Secrets;

/// Bytes of an answer that the debug log shows.
const LONGEST_EXCERPT: usize = 64;

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    Delivered,
    /// To be retried.
    Failed(String),
    /// Retrying cannot help, for example the URL is invalid.
    Permanent(String),
    /// Not attempted: callbacks may not have this address.
    Refused(Refused),
    /// Not attempted: the callback is no longer registered.
    Unregistered,
}

/// Posts notices to addresses that the policy permits.
#[derive(Debug)]
pub struct Poster {
    /// One client for each policy, because a client sends a notice over an open connection without asking the policy again.
    usual: Client,
    former: Client,
    policies: Arc<Policies>,
    secrets: Secrets,
}

impl Poster {
    /// Each attempt has `timeout`. The client follows no redirects and uses no proxy: both would connect to addresses that the
    /// policy has not seen.
    pub fn new(timeout: Duration, policy: Policy, upstream: Arc<dyn Resolve>, secrets: Secrets) -> Self {
        let policies = Arc::new(Policies { former: policy.for_former(), usual: policy });
        let resolver = Arc::new(PolicyResolver { policies: policies.clone(), upstream });
        let configure = |builder: reqwest::ClientBuilder| builder.no_proxy().dns_resolver(resolver.clone());
        let [usual, former] = [(); 2].map(|()| fabric::http::client_with(timeout, configure));
        Self { usual, former, policies, secrets }
    }

    /// Makes one attempt. `is_former`: the address may be internal, now and not when the notice was made.
    pub async fn post(&self, notice: &Notice, is_former: bool, now: Timestamp) -> Attempt {
        let url = match callback_url::parse(&notice.callback) {
            Ok(url) => url,
            Err(flaw) => return Attempt::Permanent(format!("the callback cannot be posted to: {flaw}")),
        };
        if let Err(refused) = self.policies.of(is_former).check_literal(&url) {
            return Attempt::Refused(refused);
        }
        let body = match serde_json::to_vec(&notice.body) {
            Ok(body) => body,
            Err(error) => return Attempt::Permanent(format!("cannot be encoded: {error}")),
        };
        // The digest stays the same over retries and notifiers, so a receiver can drop a notice that it has seen.
        let (id, seconds) = (format!("msg_{}", Digest::of(notice)), now.as_millis() / 1000);
        let destination = Destination { port: url.port_or_known_default().unwrap_or_default(), is_former };
        let client = if is_former { &self.former } else { &self.usual };
        let mut request = client.post(url.clone()).header(CONTENT_TYPE, "application/json");
        request = request.header("webhook-id", &id).header("webhook-timestamp", seconds);
        if let Some(signature) = self.secrets.signature(&id, seconds, &body) {
            request = request.header("webhook-signature", signature);
        }
        match resolve::to(destination, request.body(body).send()).await {
            Ok(response) if response.status().as_u16() < 300 => Attempt::Delivered,
            Ok(response) => Attempt::Failed(refusal(response, &url).await),
            // The text of an error has the whole URL.
            Err(error) => failure(&error.without_url()),
        }
    }
}

/// The status. The answer may hold secrets of the receiver, so only the debug log shows its start.
async fn refusal(mut response: Response, url: &Url) -> String {
    if let (true, Ok(Some(chunk))) = (tracing::enabled!(tracing::Level::DEBUG), response.chunk().await) {
        tracing::debug!(callback = %callback_url::shown(url.as_str()), answer = excerpt(&chunk), "notice refused");
    }
    response.status().to_string()
}

fn excerpt(answer: &[u8]) -> String {
    let printable = |byte: &&u8| byte.is_ascii_graphic() || **byte == b' ';
    answer.iter().filter(printable).take(LONGEST_EXCERPT).map(|byte| char::from(*byte)).collect()
}

fn failure(error: &reqwest::Error) -> Attempt {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref::<Refused>() {
            return Attempt::Refused(refused.clone());
        }
        cause = error.source();
    }
    Attempt::Failed(chain(error))
}

/// An error with its causes; reqwest puts the useful one last.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_has_at_most_64_printable_bytes() {
        assert_eq!(excerpt(b"no\x1b[31m such\r\nhook\xff"), "no[31m suchhook");
        assert_eq!(excerpt(&[b'x'; 1000]).len(), 64);
    }
}
