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

use contract::order::Order;
use contract::spec::PodSpec;
use contract::time::Timestamp;
use planner::lane;

use super::io::{ImageTrouble, StepFailure};
use super::steps::{REFUSED, UNREACHABLE};

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
    stumbles: u32,
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
    /// Whether the images of `spec` are here.
    pub(super) fn of(&self, spec: &PodSpec, now: Timestamp) -> lane::Images {
        let is_here = |name: &str| self.0.get(name).and_then(|image| image.here_at).is_some_and(|at| now < at + FRESH);
        let mut missing = spec.containers.iter().map(|container| &container.image).filter(|name| !is_here(name));
        let Some(name) = missing.next() else { return lane::Images::Here };
        match self.0.get(name) {
            Some(image) if image.is_coming => lane::Images::Coming,
            image => lane::Images::Missing {
                image: name.clone(),
                retry_at: image.map_or(Timestamp::NEVER, |image| image.retry_at),
            },
        }
    }

    /// A fetch of `name` begins.
    pub(super) fn begin(&mut self, name: &str) {
        self.0.entry(name.to_owned()).or_default().is_coming = true;
    }

    /// A fetch of `name` ended.
    pub(super) fn fetched(&mut self, name: &str, result: Result<(), StepFailure>, now: Timestamp) {
        let image = self.0.entry(name.to_owned()).or_default();
        image.is_coming = false;
        match result {
            Ok(()) => *image = Image { here_at: Some(now), ..Image::default() },
            Err(StepFailure::NoImage { text, trouble }) => image.refused(text, trouble, now),
            Err(StepFailure::Refused(text)) => image.refused(text, ImageTrouble::Passing, now),
            Err(StepFailure::Unreachable(_)) => {
                image.stumbles = image.stumbles.saturating_add(1);
                image.retry_at = now + UNREACHABLE.after(image.stumbles);
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

    /// Forgets what no pod of `order` is made of.
    pub(super) fn keep_those_of(&mut self, order: &Order) {
        let is_used = |name: &String| order.specs.values().any(|spec| is_made_of(spec, name));
        self.0.retain(|name, image| image.is_coming || is_used(name));
    }

    /// Why an image of `spec` cannot be had, when that is so.
    pub(super) fn trouble<'a>(&'a self, spec: &'a PodSpec) -> Option<&'a str> {
        self.troubled(spec).map(|image| image.error.as_str()).next()
    }

    /// Whether an image of `spec` will not be had by trying again.
    pub(super) fn are_hopeless(&self, spec: &PodSpec) -> bool {
        self.troubled(spec).any(Image::is_hopeless)
    }

    fn troubled<'a>(&'a self, spec: &'a PodSpec) -> impl Iterator<Item = &'a Image> {
        let known = spec.containers.iter().filter_map(|container| self.0.get(&container.image));
        known.filter(|image| image.failures > 0)
    }
}

/// Whether a container of `spec` is made of `image`.
pub(super) fn is_made_of(spec: &PodSpec, image: &str) -> bool {
    spec.containers.iter().any(|container| container.image == image)
}

#[cfg(test)]
mod tests {
    use contract::spec::ContainerSpec;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
    }
    fn spec(images: &[&str]) -> PodSpec {
        let container = |image: &&str| ContainerSpec { image: (*image).to_owned(), ..ContainerSpec::default() };
        PodSpec { containers: images.iter().map(container).collect(), ..PodSpec::default() }
    }
    fn failure(trouble: ImageTrouble) -> Result<(), StepFailure> {
        Err(StepFailure::NoImage { text: "no".to_owned(), trouble })
    }
    fn missing(image: &str, retry_at: Timestamp) -> lane::Images {
        lane::Images::Missing { image: image.to_owned(), retry_at }
    }

    #[test]
    fn images_come_one_after_the_other_and_count_as_here_for_a_minute() {
        let (mut images, spec) = (Images::default(), spec(&["a", "b", "a"]));
        assert_eq!(images.of(&spec, at(0)), missing("a", Timestamp::NEVER));
        images.begin("a");
        assert_eq!(images.of(&spec, at(0)), lane::Images::Coming);
        images.fetched("a", Ok(()), at(1));
        assert_eq!(images.of(&spec, at(1)), missing("b", Timestamp::NEVER));
        images.begin("b");
        images.fetched("b", Ok(()), at(2));
        assert_eq!(images.of(&spec, at(60)), lane::Images::Here);
        assert_eq!(images.of(&spec, at(61)), missing("a", Timestamp::NEVER));
    }

    #[test]
    fn what_the_registry_denies_is_hopeless_at_once_until_it_is_there_after_all() {
        let (mut images, spec) = (Images::default(), spec(&["a"]));
        images.fetched("a", failure(ImageTrouble::Denied), at(0));
        assert_eq!((images.are_hopeless(&spec), images.trouble(&spec)), (true, Some("no")));
        assert_eq!(images.of(&spec, at(0)), missing("a", at(10)));
        images.fetched("a", Ok(()), at(10));
        assert_eq!((images.are_hopeless(&spec), images.trouble(&spec)), (false, None));
    }

    #[test]
    fn an_image_without_a_registry_is_hopeless_after_three_tries_in_a_row() {
        let (mut images, spec) = (Images::default(), spec(&["a"]));
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
            assert_eq!(images.are_hopeless(&spec), hopeless);
        }
    }

    #[test]
    fn a_registry_that_only_has_a_bad_time_makes_nothing_hopeless() {
        let (mut images, spec) = (Images::default(), spec(&["a"]));
        for _ in 0..20 {
            images.fetched("a", failure(ImageTrouble::Passing), at(0));
        }
        assert!(!images.are_hopeless(&spec));
        assert_eq!(images.of(&spec, at(0)), missing("a", at(300)), "patience grows and ends at five minutes");
    }

    #[test]
    fn an_engine_that_cannot_be_asked_says_nothing_about_the_image() {
        let (mut images, spec) = (Images::default(), spec(&["a"]));
        images.fetched("a", Err(StepFailure::Unreachable("away".to_owned())), at(0));
        assert_eq!((images.trouble(&spec), images.of(&spec, at(0))), (None, missing("a", at(1))));
    }

    #[test]
    fn what_nobody_orders_any_more_is_forgotten() {
        let (mut images, spec) = (Images::default(), spec(&["a"]));
        images.lacked("a", "no", ImageTrouble::Denied, at(0));
        images.keep_those_of(&Order::default());
        assert_eq!(images.trouble(&spec), None);
    }
}
