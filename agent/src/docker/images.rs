//! Inspects and pulls images.

use std::time::Duration;

use futures_util::StreamExt as _;
use tracing::info;

use super::{CreateImageOptionsBuilder, Engine, EngineError, READ};
use crate::core::io::ImageTrouble;
use crate::fault::{self, Error};

/// Deadline of a pull. The next attempt continues, because Docker keeps complete layers.
const PULL: Duration = Duration::from_secs(300);

impl Engine {
    /// Pulls an image unless it is present.
    pub async fn fetch(&self, image: &str) -> Result<(), Error> {
        let place = self.reads.acquire().await;
        let found = self.call(READ, async |docker| docker.inspect_image(image).await).await;
        drop(place);
        match found {
            Err(missing @ Error::Refused { .. }) => self.pull(image, missing).await,
            other => other.map(drop),
        }
    }

    /// Pulls an image; `missing` is Docker's error for it.
    pub(super) async fn pull(&self, image: &str, missing: Error) -> Result<(), Error> {
        self.pulls.run(image, self.pull_now(image, missing)).await
    }

    async fn pull_now(&self, image: &str, missing: Error) -> Result<(), Error> {
        info!(%image, "pulling the image");
        let tag = if image.contains('@') || tagged(image) { String::new() } else { "latest".to_owned() };
        let options = CreateImageOptionsBuilder::new().from_image(image).tag(&tag).build();
        let docker = self.docker()?;
        let pulled = async {
            let mut lines = docker.create_image(Some(options), None, None);
            while let Some(line) = lines.next().await {
                line?;
            }
            Ok::<(), EngineError>(())
        };
        let reason = match tokio::time::timeout(PULL, pulled).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => self.judge(&error),
            Err(_) => Error::TimedOut(PULL),
        };
        let trouble = match &reason {
            // The engine is down: no failure of the image.
            Error::Unconnected(_) => return Err(reason),
            Error::Refused { text, .. } | Error::NoImage { text, .. } => fault::image_trouble(text),
            Error::NoAddresses { .. } | Error::Forbidden(_) | Error::TimedOut(_) | Error::Unreadable(_) => None,
        };
        let Error::Refused { status, text: first } = missing else { return Err(missing) };
        let text = format!("{first}; and it cannot be pulled: {reason}");
        Err(Error::NoImage { status, text, trouble: trouble.unwrap_or(ImageTrouble::Passing) })
    }
}

/// Whether an image reference names a tag: a colon after the last slash.
fn tagged(image: &str) -> bool {
    image.rsplit('/').next().is_some_and(|last| last.contains(':'))
}
