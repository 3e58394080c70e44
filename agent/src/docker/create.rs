//! Creates containers: new ones, and replacements of others.

use std::sync::atomic::Ordering;
use std::time::Duration;

use contract::labels;
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::{CHANGE, CreateContainerOptionsBuilder, Engine, mounts, networks, requests};
use crate::container::{Plan, seen};
use crate::core::io::{ContainerSeen, ImageTrouble};
use crate::fault::{self, Error};

impl Engine {
    /// Creates and starts a container; adopts our container of that name. A container that cannot be started is left for a
    /// separate start.
    pub async fn create(&self, plan: &Plan) -> Result<Option<ContainerSeen>, Error> {
        if let Some(failure) = self.pulls.failure(&plan.image) {
            return Err(failure);
        }
        mounts::check(plan).await?;
        let mut permit = self.changes.acquire().await;
        let id = match self.prepare(plan).await {
            Err(error) if error.status() == 404 && error.mentions("o such image") => {
                // A pull takes minutes and hardly loads Docker: other changes proceed meanwhile.
                drop(permit);
                self.pull(&plan.image, error).await?;
                permit = self.changes.acquire().await;
                self.prepare(plan).await?
            }
            made => made?,
        };
        mounts::check(plan).await?;
        let work = self.in_progress.begin(&id);
        self.start_or_warn(&id, plan).await;
        drop((work, permit));
        self.seen(&id).await
    }

    /// Creates a container while another one stops, then starts the new one while the old one is removed. On failure nothing
    /// is undone: the next reconciliation continues from what exists.
    pub async fn replace(&self, old: &str, grace: Duration, plan: &Plan) -> Result<Option<ContainerSeen>, Error> {
        let leaving = self.in_progress.begin(old);
        let (ended, has_ended) = oneshot::channel();
        let stop_old = async {
            let mut slot = self.stops.acquire().await;
            let is_there = self.end(&leaving, grace, &mut slot).await?;
            drop(slot);
            ended.send(()).ok();
            if is_there { self.discard(old).await } else { Ok(()) }
        };
        let start_new = async {
            mounts::check(plan).await?;
            let id = self.prepare_with_permit(plan).await?;
            let coming = self.in_progress.begin(&id);
            let may_start = tokio::select! {
                ended = has_ended => ended.is_ok(),
                () = leaving.died(), if !plan.inherits() => true,
            };
            if may_start {
                let _permit = self.changes.acquire().await;
                mounts::check(plan).await?;
                self.start_or_warn(&id, plan).await;
            }
            drop(coming);
            Ok::<String, Error>(id)
        };
        let (gone, made) = tokio::join!(stop_old, start_new);
        drop(leaving);
        gone?;
        self.seen(&made?).await
    }

    async fn prepare_with_permit(&self, plan: &Plan) -> Result<String, Error> {
        let _permit = self.changes.acquire().await;
        self.prepare(plan).await
    }

    /// A container that cannot be started is left for a separate start.
    async fn start_or_warn(&self, id: &str, plan: &Plan) {
        if let Err(error) = self.start_made(id).await {
            warn!(container = %plan.name, reason = %error, "created the container but could not start it");
        }
    }

    /// Creates a container without starting it; adopts our container of that name.
    async fn prepare(&self, plan: &Plan) -> Result<String, Error> {
        let made = match self.make_on_network(plan).await {
            // Another agent of this engine or a user removed the network.
            Err(error) if networks::is_gone(&error) => {
                self.forget_network(&plan.network).await;
                self.make_on_network(plan).await
            }
            made => made,
        };
        match made {
            Err(error) if error.status() == 409 => self.adopt(plan, error).await,
            // Newer engines report this here instead of at start.
            Err(error) if networks::is_about_address(&error) => self.make(plan, None).await,
            Err(Error::Refused { status, text }) if fault::image_trouble(&text) == Some(ImageTrouble::Denied) => {
                Err(Error::NoImage { status, text, trouble: ImageTrouble::Denied })
            }
            made => made,
        }
    }

    async fn make_on_network(&self, plan: &Plan) -> Result<String, Error> {
        let joins_foreign = plan.restraints.as_ref().is_none_or(|restraints| restraints.joins_foreign);
        let own =
            self.ensure_network(&plan.network, joins_foreign).await?.map(|subnet| subnet.own(&plan.name).to_string());
        let is_reserved = !plan.address.is_empty() && !networks::is_built_in(&plan.network);
        let address = if is_reserved { Some(plan.address.clone()) } else { own };
        self.make(plan, address.as_deref()).await
    }

    async fn make(&self, plan: &Plan, address: Option<&str>) -> Result<String, Error> {
        let options = || Some(CreateContainerOptionsBuilder::new().name(&plan.name).build());
        let make = |body| self.call(CHANGE, async |docker| docker.create_container(options(), body).await);
        let known = self.swappiness.load(Ordering::Relaxed);
        let made = match make(requests::create(plan, address, known)).await {
            Err(error) if known && error.mentions("swappiness") => {
                self.swappiness.store(false, Ordering::Relaxed);
                make(requests::create(plan, address, false)).await?
            }
            made => made?,
        };
        for text in &made.warnings {
            warn!(container = %plan.name, %text, "warning of the engine");
            if text.contains("swappiness") {
                self.swappiness.store(false, Ordering::Relaxed);
            }
        }
        Ok(made.id)
    }

    /// The existing container of that name, if it has the identity we want.
    async fn adopt(&self, plan: &Plan, conflict: Error) -> Result<String, Error> {
        let Some((detail, phase)) = self.inspect(&plan.name).await? else { return Err(conflict) };
        let wanted = labels::identify(&self.host.owner, |key| plan.labels.get(key).map(String::as_str));
        match seen(&self.host.owner, &detail, phase) {
            Some(found) if Some(&found.identity) == wanted.as_ref() => {
                info!(container = %plan.name, "adopted an existing container");
                Ok(found.id)
            }
            Some(_) | None => Err(conflict),
        }
    }
}
