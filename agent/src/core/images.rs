//! Which images are on this node, as far as somebody waits for one.
//!
//! Images belong to the node and not to a pod: two pods that wait for one image wait for one fetch, and a pod that is
//! ordered anew with the next drift inherits how often its image could not be had. Nothing here is kept on disk: an agent
//! that starts again asks again.
//!
//! When is an image hopeless? When the registry says so (no such image, access denied), at once. When no registry can be
//! found under its name, after three tries in a row: a wrong name and a name server that is away for a moment look the
//! same to the engine, and a wrong name must be found in bounded time. A registry that is slow, broken or says "too many
//! requests" makes no image hopeless, however often it does.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::order::{Assignment, Fetch, Order};
use contract::pod_id::PodId;
use contract::report::{FetchState, Fetched};
use contract::time::Timestamp;
use planner::lane;

use super::actions::{REFUSED, UNREACHABLE};
use super::io::{ActionFailure, ImageTrouble};

/// So long an image that was here counts as here: the steps from a fetch to a create take seconds, and whoever clears
/// images away may come any time.
const FRESH: Duration = Duration::from_secs(60);

/// Tries in a row that found no registry until the image counts as hopeless.
const MOST_IN_VAIN: u32 = 3;

/// What is known about images somebody waits for.
#[derive(Debug, Default)]
pub(super) struct Images(BTreeMap<String, Image>);

#[derive(Debug, Default)]
struct Image {
    is_coming: bool,
    here_at: Option<Timestamp>,
    /// Refusals in a row.
    failures: u32,
    /// Tries in a row that found no registry.
    in_vain: u32,
    /// Tries in a row the engine did not answer.
    unreachable_count: u32,
    retry_at: Timestamp,
    is_denied: bool,
    error: String,
}

impl Image {
    fn is_hopeless(&self) -> bool {
        self.is_denied || self.in_vain >= MOST_IN_VAIN
    }

    fn refused(&mut self, text: String, trouble: ImageTrouble, now: Timestamp) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now + REFUSED.after(self.failures);
        self.is_denied = trouble == ImageTrouble::Denied;
        self.in_vain = if trouble == ImageTrouble::NoRegistry { self.in_vain.saturating_add(1) } else { 0 };
        self.error = text;
    }
}

impl Images {
    /// Whether these images are here.
    pub(super) fn of<'a>(&self, mut names: impl Iterator<Item = &'a str>, now: Timestamp) -> lane::Images {
        let is_here = |name: &str| self.0.get(name).and_then(|image| image.here_at).is_some_and(|at| now < at + FRESH);
        let Some(name) = names.find(|name| !is_here(name)) else { return lane::Images::Here };
        match self.0.get(name) {
            Some(image) if image.is_coming => lane::Images::Coming,
            image => lane::Images::Missing {
                image: name.to_owned(),
                retry_at: image.map_or(Timestamp::NEVER, |image| image.retry_at),
            },
        }
    }

    /// A fetch of `name` begins.
    pub(super) fn begin(&mut self, name: &str) {
        self.0.entry(name.to_owned()).or_default().is_coming = true;
    }

    /// A fetch of `name` ended.
    pub(super) fn ended(&mut self, name: &str, result: Result<(), ActionFailure>, now: Timestamp) {
        let image = self.0.entry(name.to_owned()).or_default();
        image.is_coming = false;
        match result {
            Ok(()) => *image = Image { here_at: Some(now), ..Image::default() },
            Err(ActionFailure::NoImage { text, trouble }) => image.refused(text, trouble, now),
            Err(ActionFailure::Refused(text)) => image.refused(text, ImageTrouble::Passing, now),
            Err(ActionFailure::Unreachable(_)) => {
                image.unreachable_count = image.unreachable_count.saturating_add(1);
                image.retry_at = now + UNREACHABLE.after(image.unreachable_count);
            }
        }
    }

    /// The engine did not find `name` when it made a container, and could not fetch it.
    pub(super) fn lacked(&mut self, name: &str, text: &str, trouble: ImageTrouble, now: Timestamp) {
        let image = self.0.entry(name.to_owned()).or_default();
        image.here_at = None;
        image.refused(text.to_owned(), trouble, now);
    }

    /// A container was made of `name`.
    pub(super) fn used(&mut self, name: &str, now: Timestamp) {
        if let Some(image) = self.0.get_mut(name) {
            *image = Image { is_coming: image.is_coming, here_at: Some(now), ..Image::default() };
        }
    }

    /// Forgets what no pod of `order` is made of, or will be.
    pub(super) fn keep_those_of(&mut self, order: &Order) {
        let is_used = |name: &String| {
            let is_made_of_it = order.specs.values().any(|spec| spec.images().any(|image| image == name));
            is_made_of_it || order.pods.values().any(|assignment| is_fetched_for(assignment, name))
        };
        self.0.retain(|name, image| image.is_coming || is_used(name));
    }

    /// How far the node is with what is to take a pod's place.
    pub(super) fn fetched(&self, fetch: &Fetch, now: Timestamp) -> Fetched {
        let names = || fetch.images.iter().map(String::as_str);
        let state = match self.of(names(), now) {
            lane::Images::Here => FetchState::Here,
            lane::Images::Coming | lane::Images::Missing { .. } if self.are_hopeless(names()) => FetchState::Hopeless,
            lane::Images::Coming | lane::Images::Missing { .. } => FetchState::Coming,
        };
        let error = self.trouble(names()).unwrap_or_default().to_owned();
        Fetched { version: fetch.version, state, error }
    }

    /// Why one of these images cannot be had, when that is so.
    pub(super) fn trouble<'a>(&self, names: impl Iterator<Item = &'a str>) -> Option<&str> {
        self.troubled(names).map(|image| image.error.as_str()).next()
    }

    /// Whether one of these images will not be had by trying again.
    pub(super) fn are_hopeless<'a>(&self, names: impl Iterator<Item = &'a str>) -> bool {
        self.troubled(names).any(Image::is_hopeless)
    }

    fn troubled<'a>(&self, names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &Image> {
        names.filter_map(|name| self.0.get(name)).filter(|image| image.failures > 0)
    }
}

/// Whether the node is to have `image` before the pod is replaced.
fn is_fetched_for(assignment: &Assignment, image: &str) -> bool {
    assignment.fetch.as_ref().is_some_and(|fetch| fetch.images.contains(image))
}

/// The pods of `order` that wait for `image`, or may.
pub(super) fn waiting_for<'a>(order: &'a Order, image: &'a str) -> impl Iterator<Item = &'a PodId> {
    let is_made_of_it = move |pod: &PodId| order.spec_of(pod).is_some_and(|spec| spec.images().any(|it| it == image));
    let waits =
        move |(pod, assignment): &(&PodId, &Assignment)| is_made_of_it(pod) || is_fetched_for(assignment, image);
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
    fn missing(image: &str, retry_at: Timestamp) -> lane::Images {
        lane::Images::Missing { image: image.to_owned(), retry_at }
    }

    #[test]
    fn images_come_one_after_the_other_and_count_as_here_for_a_minute() {
        let mut images = Images::default();
        assert_eq!(images.of(["a", "b", "a"].into_iter(), at(0)), missing("a", Timestamp::NEVER));
        images.begin("a");
        assert_eq!(images.of(["a", "b", "a"].into_iter(), at(0)), lane::Images::Coming);
        images.ended("a", Ok(()), at(1));
        assert_eq!(images.of(["a", "b", "a"].into_iter(), at(1)), missing("b", Timestamp::NEVER));
        images.begin("b");
        images.ended("b", Ok(()), at(2));
        assert_eq!(images.of(["a", "b", "a"].into_iter(), at(60)), lane::Images::Here);
        assert_eq!(images.of(["a", "b", "a"].into_iter(), at(61)), missing("a", Timestamp::NEVER));
    }

    #[test]
    fn what_the_registry_denies_is_hopeless_at_once_until_it_is_there_after_all() {
        let mut images = Images::default();
        images.ended("a", failure(ImageTrouble::Denied), at(0));
        assert_eq!((images.are_hopeless(A.into_iter()), images.trouble(A.into_iter())), (true, Some("no")));
        assert_eq!(images.of(A.into_iter(), at(0)), missing("a", at(10)));
        images.ended("a", Ok(()), at(10));
        assert_eq!((images.are_hopeless(A.into_iter()), images.trouble(A.into_iter())), (false, None));
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
            images.lacked("a", "no", trouble, at(0));
            assert_eq!(images.are_hopeless(A.into_iter()), hopeless);
        }
    }

    #[test]
    fn a_registry_that_only_has_a_bad_time_makes_nothing_hopeless() {
        let mut images = Images::default();
        for _ in 0..20 {
            images.ended("a", failure(ImageTrouble::Passing), at(0));
        }
        assert!(!images.are_hopeless(A.into_iter()));
        assert_eq!(images.of(A.into_iter(), at(0)), missing("a", at(300)), "patience grows and ends at five minutes");
    }

    #[test]
    fn an_engine_that_cannot_be_asked_says_nothing_about_the_image() {
        let mut images = Images::default();
        images.ended("a", Err(ActionFailure::Unreachable("away".to_owned())), at(0));
        assert_eq!((images.trouble(A.into_iter()), images.of(A.into_iter(), at(0))), (None, missing("a", at(1))));
    }

    #[test]
    fn what_nobody_orders_any_more_is_forgotten() {
        let mut images = Images::default();
        images.lacked("a", "no", ImageTrouble::Denied, at(0));
        images.keep_those_of(&Order::default());
        assert_eq!(images.trouble(A.into_iter()), None);
    }

    #[test]
    fn what_is_to_take_a_pods_place_is_told_and_remembered_as_long_as_it_is_asked_for() {
        let mut images = Images::default();
        let fetch = Fetch { version: 2, images: ["a".to_owned(), "b".to_owned()].into() };
        let told = |images: &Images, now| {
            let told = images.fetched(&fetch, now);
            (told.version, told.state, told.error)
        };
        images.ended("a", Ok(()), at(0));
        assert_eq!(told(&images, at(0)), (2, FetchState::Coming, String::new()));
        images.ended("b", failure(ImageTrouble::Passing), at(1));
        assert_eq!(told(&images, at(1)), (2, FetchState::Coming, "no".to_owned()));
        images.ended("b", failure(ImageTrouble::Denied), at(2));
        let assignment = Assignment { fetch: Some(fetch.clone()), ..Assignment::default() };
        let pod: PodId = "a.v1-i1-d0".parse().expect("a pod id");
        let order = Order { pods: [(pod.clone(), assignment)].into(), ..Order::default() };
        images.keep_those_of(&order);
        assert_eq!(told(&images, at(2)), (2, FetchState::Hopeless, "no".to_owned()));
        assert_eq!(waiting_for(&order, "b").collect::<Vec<_>>(), [&pod]);
        images.ended("b", Ok(()), at(3));
        assert_eq!(told(&images, at(3)), (2, FetchState::Here, String::new()));
        images.keep_those_of(&Order::default());
        assert_eq!(told(&images, at(4)), (2, FetchState::Coming, String::new()));
    }
}
