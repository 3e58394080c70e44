//! Images that pods wait for.
//!
//! Images belong to the node: two pods that wait for one image share one pull, and a recreated pod inherits the failures of
//! its image. Nothing is stored: a restarted agent pulls again.
//!
//! An image is hopeless after one refusal by the registry (no such image, access denied), or after three tries in a row that
//! found no registry: Docker cannot tell a wrong name from a name server that is down for a moment. A slow, broken or
//! rate-limiting registry never makes an image hopeless.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::order::{Assignment, Fetch, Order};
use contract::pod_id::PodId;
use contract::report::{FetchState, Fetched};
use contract::time::Timestamp;
use planner::instance;

use super::actions::{REFUSED, UNREACHABLE};
use super::io::{ActionFailure, ImageTrouble};

/// An image counts as present this long after it was seen: a create follows its pull within seconds, and a cleanup may
/// remove images at any time.
const FRESH: Duration = Duration::from_secs(60);

/// Tries in a row without a registry until the image is hopeless.
const MOST_WITHOUT_REGISTRY: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct Images(BTreeMap<String, Image>);

#[derive(Debug, Default)]
struct Image {
    is_pulling: bool,
    present_at: Option<Timestamp>,
    /// Failed pulls in a row.
    failures: u32,
    /// Tries in a row without a registry.
    without_registry: u32,
    /// Tries in a row without an answer from Docker.
    unreachable_count: u32,
    retry_at: Timestamp,
    is_denied: bool,
    error: String,
}

impl Image {
    fn is_hopeless(&self) -> bool {
        self.is_denied || self.without_registry >= MOST_WITHOUT_REGISTRY
    }

    fn refused(&mut self, text: String, trouble: ImageTrouble, now: Timestamp) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now + REFUSED.after(self.failures);
        self.is_denied = trouble == ImageTrouble::Denied;
        self.without_registry =
            if trouble == ImageTrouble::NoRegistry { self.without_registry.saturating_add(1) } else { 0 };
        self.error = text;
    }
}

impl Images {
    /// Whether all these images are present.
    pub(super) fn of<'a>(&self, mut names: impl Iterator<Item = &'a str>, now: Timestamp) -> instance::Images {
        let is_present =
            |name: &str| self.0.get(name).and_then(|image| image.present_at).is_some_and(|at| now < at + FRESH);
        let Some(name) = names.find(|name| !is_present(name)) else { return instance::Images::Present };
        match self.0.get(name) {
            Some(image) if image.is_pulling => instance::Images::Pulling,
            image => instance::Images::Missing {
                image: name.to_owned(),
                retry_at: image.map_or(Timestamp::NEVER, |image| image.retry_at),
            },
        }
    }

    pub(super) fn begin(&mut self, name: &str) {
        self.0.entry(name.to_owned()).or_default().is_pulling = true;
    }

    pub(super) fn ended(&mut self, name: &str, result: Result<(), ActionFailure>, now: Timestamp) {
        let image = self.0.entry(name.to_owned()).or_default();
        image.is_pulling = false;
        match result {
            Ok(()) => *image = Image { present_at: Some(now), ..Image::default() },
            Err(ActionFailure::NoImage { text, trouble }) => image.refused(text, trouble, now),
            Err(ActionFailure::Refused(text)) => image.refused(text, ImageTrouble::Passing, now),
            Err(ActionFailure::Unreachable(_)) => {
                image.unreachable_count = image.unreachable_count.saturating_add(1);
                image.retry_at = now + UNREACHABLE.after(image.unreachable_count);
            }
        }
    }

    /// Docker neither had `name` for a create nor could pull it.
    pub(super) fn missing_for_create(&mut self, name: &str, text: &str, trouble: ImageTrouble, now: Timestamp) {
        let image = self.0.entry(name.to_owned()).or_default();
        image.present_at = None;
        image.refused(text.to_owned(), trouble, now);
    }

    /// A container was created from `name`.
    pub(super) fn used(&mut self, name: &str, now: Timestamp) {
        if let Some(image) = self.0.get_mut(name) {
            *image = Image { is_pulling: image.is_pulling, present_at: Some(now), ..Image::default() };
        }
    }

    /// Forgets images that no pod of `order` uses or will use.
    pub(super) fn retain_for(&mut self, order: &Order) {
        let is_used = |name: &String| {
            let is_made_from_it = order.specs.values().any(|spec| spec.images().any(|image| image == name));
            is_made_from_it || order.pods.values().any(|assignment| is_fetched_for(assignment, name))
        };
        self.0.retain(|name, image| image.is_pulling || is_used(name));
    }

    /// Progress of the images for a pod's next revision.
    pub(super) fn fetched(&self, fetch: &Fetch, now: Timestamp) -> Fetched {
        let names = || fetch.images.iter().map(String::as_str);
        let state = match self.of(names(), now) {
            instance::Images::Present => FetchState::Here,
            instance::Images::Pulling | instance::Images::Missing { .. } if self.are_hopeless(names()) => {
                FetchState::Hopeless
            }
            instance::Images::Pulling | instance::Images::Missing { .. } => FetchState::Coming,
        };
        let error = self.error_of(names()).unwrap_or_default().to_owned();
        Fetched { version: fetch.version, state, error }
    }

    /// Error of the first of these images that failed.
    pub(super) fn error_of<'a>(&self, names: impl Iterator<Item = &'a str>) -> Option<&str> {
        self.failed(names).map(|image| image.error.as_str()).next()
    }

    /// Whether retrying cannot help for one of these images.
    pub(super) fn are_hopeless<'a>(&self, names: impl Iterator<Item = &'a str>) -> bool {
        self.failed(names).any(Image::is_hopeless)
    }

    fn failed<'a>(&self, names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &Image> {
        names.filter_map(|name| self.0.get(name)).filter(|image| image.failures > 0)
    }
}

/// Whether the pod's next revision needs `image`.
fn is_fetched_for(assignment: &Assignment, image: &str) -> bool {
    assignment.fetch.as_ref().is_some_and(|fetch| fetch.images.contains(image))
}

/// The pods of `order` that may wait for `image`.
pub(super) fn waiting_for<'a>(order: &'a Order, image: &'a str) -> impl Iterator<Item = &'a PodId> {
    let is_made_from_it = move |pod: &PodId| order.spec_of(pod).is_some_and(|spec| spec.images().any(|it| it == image));
    let waits =
        move |(pod, assignment): &(&PodId, &Assignment)| is_made_from_it(pod) || is_fetched_for(assignment, image);
    order.pods.iter().filter(waits).map(|(pod, _)| pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [&str; 1] = ["a"];

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
    }
    fn failure(trouble: ImageTrouble) -> Result<(), ActionFailure> {
        Err(ActionFailure::NoImage { text: "no".to_owned(), trouble })
    }
    fn missing(image: &str, retry_at: Timestamp) -> instance::Images {
        instance::Images::Missing { image: image.to_owned(), retry_at }
    }

    #[test]
    fn images_are_pulled_one_after_the_other_and_count_as_present_for_a_minute() {
        let mut images = Images::default();
        assert_eq!(images.of(["a", "b", "a"].into_iter(), at(0)), missing("a", Timestamp::NEVER));
        images.begin("a");
        assert_eq!(images.of(["a", "b", "a"].into_iter(), at(0)), instance::Images::Pulling);
        images.ended("a", Ok(()), at(1));
        assert_eq!(images.of(["a", "b", "a"].into_iter(), at(1)), missing("b", Timestamp::NEVER));
        images.begin("b");
        images.ended("b", Ok(()), at(2));
        assert_eq!(images.of(["a", "b", "a"].into_iter(), at(60)), instance::Images::Present);
        assert_eq!(images.of(["a", "b", "a"].into_iter(), at(61)), missing("a", Timestamp::NEVER));
    }

    #[test]
    fn a_denied_image_is_hopeless_until_a_pull_succeeds() {
        let mut images = Images::default();
        images.ended("a", failure(ImageTrouble::Denied), at(0));
        assert_eq!((images.are_hopeless(A.into_iter()), images.error_of(A.into_iter())), (true, Some("no")));
        assert_eq!(images.of(A.into_iter(), at(0)), missing("a", at(10)));
        images.ended("a", Ok(()), at(10));
        assert_eq!((images.are_hopeless(A.into_iter()), images.error_of(A.into_iter())), (false, None));
    }

    #[test]
    fn an_image_without_a_registry_is_hopeless_after_three_tries_in_a_row() {
        let mut images = Images::default();
        let tries = [
            (ImageTrouble::NoRegistry, false),
            (ImageTrouble::NoRegistry, false),
            (ImageTrouble::Passing, false),
            (ImageTrouble::NoRegistry, false),
            (ImageTrouble::NoRegistry, false),
            (ImageTrouble::NoRegistry, true),
        ];
        for (trouble, hopeless) in tries {
            images.missing_for_create("a", "no", trouble, at(0));
            assert_eq!(images.are_hopeless(A.into_iter()), hopeless);
        }
    }

    #[test]
    fn a_broken_registry_makes_no_image_hopeless() {
        let mut images = Images::default();
        for _ in 0..20 {
            images.ended("a", failure(ImageTrouble::Passing), at(0));
        }
        assert!(!images.are_hopeless(A.into_iter()));
        assert_eq!(images.of(A.into_iter(), at(0)), missing("a", at(300)), "the back-off ends at five minutes");
    }

    #[test]
    fn an_unreachable_engine_is_no_failure_of_the_image() {
        let mut images = Images::default();
        images.ended("a", Err(ActionFailure::Unreachable("away".to_owned())), at(0));
        assert_eq!((images.error_of(A.into_iter()), images.of(A.into_iter(), at(0))), (None, missing("a", at(1))));
    }

    #[test]
    fn images_outside_the_order_are_forgotten() {
        let mut images = Images::default();
        images.missing_for_create("a", "no", ImageTrouble::Denied, at(0));
        images.retain_for(&Order::default());
        assert_eq!(images.error_of(A.into_iter()), None);
    }

    #[test]
    fn images_of_the_next_revision_are_reported_while_the_order_requests_them() {
        let mut images = Images::default();
        let fetch = Fetch { version: 2, images: ["a".to_owned(), "b".to_owned()].into() };
        let report = |images: &Images, now| {
            let fetched = images.fetched(&fetch, now);
            (fetched.version, fetched.state, fetched.error)
        };
        images.ended("a", Ok(()), at(0));
        assert_eq!(report(&images, at(0)), (2, FetchState::Coming, String::new()));
        images.ended("b", failure(ImageTrouble::Passing), at(1));
        assert_eq!(report(&images, at(1)), (2, FetchState::Coming, "no".to_owned()));
        images.ended("b", failure(ImageTrouble::Denied), at(2));
        let assignment = Assignment { fetch: Some(fetch.clone()), ..Assignment::default() };
        let pod: PodId = "a.v1-i1-d0".parse().expect("a pod id");
        let order = Order { pods: [(pod.clone(), assignment)].into(), ..Order::default() };
        images.retain_for(&order);
        assert_eq!(report(&images, at(2)), (2, FetchState::Hopeless, "no".to_owned()));
        assert_eq!(waiting_for(&order, "b").collect::<Vec<_>>(), [&pod]);
        images.ended("b", Ok(()), at(3));
        assert_eq!(report(&images, at(3)), (2, FetchState::Here, String::new()));
        images.retain_for(&Order::default());
        assert_eq!(report(&images, at(4)), (2, FetchState::Coming, String::new()));
    }
}
