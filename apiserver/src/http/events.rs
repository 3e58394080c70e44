//! `/api/events`: what happened in the cluster and why, looked up or followed (ours).
//!
//! Followed events are server-sent events whose id is their sequence number, so a client that reconnects with
//! `Last-Event-ID` misses nothing that is still kept.

use std::collections::VecDeque;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use contract::access::{Principal, Right};
use contract::api::Events;
use contract::event::{Event, Kind};
use contract::streams::EVENTS;
use contract::time::Timestamp;
use fabric::nats::Stored;

use super::audience::{Audience, Due};
use super::params::Params;
use super::respond::{self, HttpResult, Refused};
use super::router::HttpMethod;
use super::visible::{self, FollowedGroups, VisibleGroups};
use super::{Api, Call};
use crate::queries::Queries;
use crate::streams::{Filtered, Follower};

/// Default limit of events in an answer.
const USUAL: i64 = 100;
/// Events in an answer at most.
const MOST: i64 = 1000;
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
pub(super) const TOO_MANY_FOLLOWERS: &str = "too many followers of events and readers of logs, of this client or of all together; \
    wait until some have ended, or use another apiserver";
/// A proxy that buffers answers until they end would never pass this one on.
pub(super) const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

pub async fn call(api: &Api, call: &Call) -> HttpResult {
    match call.method {
        HttpMethod::Get if call.params.boolean("follow", false) => follow(api, call).await,
        HttpMethod::Get => get(api, call).await,
        HttpMethod::Post | HttpMethod::Put | HttpMethod::Patch | HttpMethod::Delete => {
            Err(Refused::unsupported(call.method.word()))
        }
    }
}

async fn get(api: &Api, call: &Call) -> HttpResult {
    let filter = EventFilter::read(&call.params, api.streams.now())?.seen_by(api, call).await?;
    let newest = api.streams.newest(&EVENTS, limit(&call.params), |stored| filter.apply(stored)).await?;
    let events = newest.found.into_iter().map(|(_, event)| event).collect();
    Ok(respond::json(StatusCode::OK, &Events { events }))
}

async fn follow(api: &Api, call: &Call) -> HttpResult {
    let mut filter = EventFilter::read(&call.params, api.streams.now())?.seen_by(api, call).await?;
    let permit =
        api.streams.follower_permit(call.client.payer()).map_err(|_| Refused::too_often(TOO_MANY_FOLLOWERS, 1))?;
    let wants_backlog = call.params.text("since").is_some() || call.params.text("limit").is_some();
    let (after, backlog) = match resumes_after(&call.headers) {
        Some(after) => (after, Vec::new()),
        None if wants_backlog => {
            let newest = api.streams.newest(&EVENTS, limit(&call.params), |stored| filter.apply(stored)).await?;
            (newest.last, newest.found)
        }
        // Read before the answer begins, so that the client misses no event after its headers.
        None => (api.streams.end(&EVENTS).await?, Vec::new()),
    };
    let follower = api.streams.follow(&EVENTS, after, permit);
    let backlog: VecDeque<Bytes> = backlog.iter().map(|(sequence, event)| frame(*sequence, event)).collect();
    // From here on the feed asks about each group, because new ones may be created.
    filter.groups = VisibleGroups::All;
    let (queries, groups) = (api.queries.clone(), FollowedGroups::default());
    let feed = Feed { backlog, follower, filter, queries, groups, audience: Audience::of(api, call) };
    let frames = futures_util::stream::unfold(feed, async |mut feed| {
        let frame = feed.next().await?;
        Some((Ok::<_, std::convert::Infallible>(frame), feed))
    });
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// The last event that a reconnecting client received.
fn resumes_after(headers: &HeaderMap) -> Option<u64> {
    headers.get(LAST_EVENT_ID)?.to_str().ok()?.trim().parse().ok()
}

/// The `limit` parameter, within bounds.
pub fn limit(params: &Params) -> usize {
    usize::try_from(params.integer("limit", USUAL).clamp(1, MOST)).unwrap_or(1)
}

#[derive(Debug)]
struct EventFilter {
    group: Option<String>,
    node: Option<String>,
    kind: Option<Kind>,
    since: Option<Timestamp>,
    /// The client, once it is known.
    principal: Option<Principal>,
    /// The groups that the client may read, for events of older schedulers: they do not name the namespace.
    groups: VisibleGroups,
    /// The client may see events that concern no group.
    sees_cluster: bool,
}

impl EventFilter {
    fn read(params: &Params, now: Timestamp) -> Result<Self, Refused> {
        let text = |name| params.text(name).map(str::to_owned);
        let kind = match params.text("kind") {
            None => None,
            Some(word) => Some(Kind::from_word(word).ok_or_else(|| unknown_kind(word))?),
        };
        let since = params.text("since").map(|text| since(text, now)).transpose()?;
        let (groups, sees_cluster) = (VisibleGroups::All, true);
        let (group, node) = (text("group"), text("node"));
        Ok(Self { group, node, kind, since, principal: None, groups, sees_cluster })
    }

    /// Leaves out what the client may not see.
    async fn seen_by(self, api: &Api, call: &Call) -> Result<Self, Refused> {
        let sees_cluster = call.client.principal.may(Right::Operate, None);
        let principal = Some(call.client.principal.clone());
        Ok(Self { principal, groups: visible::groups(api, &call.client).await?, sees_cluster, ..self })
    }

    fn apply(&self, stored: &Stored) -> Filtered<(u64, Event)> {
        // An event of another version that cannot be decoded is skipped: events are only explanations.
        let Ok(event) = serde_json::from_slice::<Event>(&stored.payload) else { return Filtered::Skip };
        if self.since.is_some_and(|since| event.at < since) {
            return Filtered::TooOld;
        }
        if self.matches(&event) { Filtered::Match((stored.sequence, event)) } else { Filtered::Skip }
    }

    fn reads(&self, namespace: &str) -> bool {
        self.principal.as_ref().is_none_or(|principal| principal.may(Right::Read, Some(namespace)))
    }

    fn matches(&self, event: &Event) -> bool {
        let same = |wanted: &Option<String>, has: Option<&str>| wanted.is_none() || wanted.as_deref() == has;
        let is_visible = match (&event.group, &event.namespace) {
            (Some(_), Some(namespace)) => self.reads(namespace),
            (Some(group), None) => self.groups.contains(group.as_str()),
            (None, _) => self.sees_cluster,
        };
        is_visible
            && same(&self.group, event.group.as_ref().map(|name| name.as_str()))
            && same(&self.node, event.node.as_ref().map(|name| name.as_str()))
            && self.kind.is_none_or(|kind| kind == event.kind)
    }
}

fn unknown_kind(word: &str) -> Refused {
    let kinds: Vec<&str> = Kind::ALL.into_iter().map(Kind::word).collect();
    Refused::bad_request(format!("{word:?} is no kind of event; the kinds are {}", kinds.join(", ")))
}

/// A time, or a duration before now.
fn since(text: &str, now: Timestamp) -> Result<Timestamp, Refused> {
    let time = Timestamp::parse(text).ok().or_else(|| fabric::duration::parse(text).ok().map(|span| now - span));
    let complaint =
        || format!("since: {text:?} is neither a time such as 2026-11-16T01:41:17Z nor a duration such as 10m");
    time.ok_or_else(|| Refused::bad_request(complaint()))
}

fn frame(sequence: u64, event: &Event) -> Bytes {
    // Compact JSON has no line breaks, so it is one line of data.
    let data = serde_json::to_string(event).unwrap_or_default();
    Bytes::from(format!("id: {sequence}\ndata: {data}\n\n"))
}

/// The frames of one follower: the backlog, then new events.
struct Feed {
    backlog: VecDeque<Bytes>,
    follower: Follower,
    filter: EventFilter,
    queries: Queries,
    groups: FollowedGroups,
    audience: Audience,
}

impl Feed {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(frame) = self.backlog.pop_front() {
            return Some(frame);
        }
        loop {
            tokio::select! {
                due = self.audience.due() => return match due {
                    Due::End => None,
                    Due::KeepAlive => Some(Bytes::from_static(b": still here\n\n")),
                },
                stored = self.follower.next() => {
                    if let Filtered::Match((sequence, event)) = self.filter.apply(&stored)
                        && self.may_see(&event).await
                    {
                        // The question may have taken seconds, in which nothing else was checked.
                        if !self.audience.may_still_follow() {
                            return None;
                        }
                        return Some(frame(sequence, &event));
                    }
                }
            }
        }
    }

    async fn may_see(&mut self, event: &Event) -> bool {
        match &event.group {
            Some(group) if event.namespace.is_none() => {
                self.groups.is_visible(&self.queries, &self.audience.client, group).await
            }
            // The filter has checked the namespace.
            Some(_) | None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn wanted(query: &str) -> Result<EventFilter, Refused> {
        EventFilter::read(&Params::new(Some(query), Vec::new()), NOW)
    }

    #[test]
    fn a_time_and_a_span_are_both_read_and_anything_else_is_refused() {
        assert_eq!(wanted("since=10m").unwrap().since, Some(Timestamp::from_millis(400_000)));
        assert_eq!(wanted("since=1970-01-01T00:00:07Z").unwrap().since, Some(Timestamp::from_millis(7_000)));
        assert_eq!(wanted("since=yesterday").unwrap_err().status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn an_unknown_kind_is_refused_with_the_kinds_there_are() {
        assert_eq!(wanted("kind=PLACED").unwrap().kind, Some(Kind::Placed));
        let message = wanted("kind=other").unwrap_err().message;
        assert!(Kind::ALL.into_iter().all(|kind| message.contains(kind.word())), "{message}");
    }

    #[test]
    fn the_limit_is_kept_within_bounds() {
        let limit = |query| limit(&Params::new(Some(query), Vec::new()));
        assert_eq!((limit(""), limit("limit=5"), limit("limit=0"), limit("limit=1000000")), (100, 5, 1, 1000));
    }

    #[test]
    fn every_filter_must_hold() {
        let event = Event {
            at: NOW,
            kind: Kind::Placed,
            group: "web".parse().ok(),
            instance: 1,
            node: "a".parse().ok(),
            message: "placed on a".to_owned(),
            namespace: None,
            reasons: std::collections::BTreeMap::new(),
        };
        let matches = |query| wanted(query).unwrap().matches(&event);
        assert!(matches("") && matches("group=web&node=a&kind=placed"));
        assert!(!matches("group=other") && !matches("node=b") && !matches("group=web&kind=node"));
    }
}
