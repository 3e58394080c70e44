//! Makes containers: one that is new, or one in the place of another.

use std::sync::atomic::Ordering;
use std::time::Duration;

use contract::labels;
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::{CHANGE, CreateContainerOptionsBuilder, Engine, networks, requests};
use crate::container::{Plan, seen};
use crate::core::io::{ContainerSeen, ImageTrouble};
use crate::fault::{self, Error};

impl Engine {
    /// Makes a container and starts it; one of that name that is ours is taken as it is. A container that is made but
    /// cannot be started is left for a start of its own.
    pub async fn create(&self, plan: &Plan) -> Result<Option<ContainerSeen>, Error> {
        if let Some(failure) = self.pulls.failure(&plan.image) {
            return Err(failure);
        }
        let mut place = self.changes.acquire().await;
        let id = match self.prepare(plan).await {
            Err(error) if error.status() == 404 && error.says("o such image") => {
                // A pull takes minutes and little of the engine: others go ahead meanwhile.
                drop(place);
                self.pull(&plan.image, error).await?;
                place = self.changes.acquire().await;
                self.prepare(plan).await?
            }
            made => made?,
        };
        let work = self.in_progress.begin(&id);
        self.start_or_warn(&id, plan).await;
        drop((work, place));
        self.look(&id).await
    }

    /// Makes a container while another one ends, then starts the one while the other is removed. When any of that fails
    /// nothing is undone: whoever looks finds what is left to do.
    pub async fn replace(&self, old: &str, grace: Duration, plan: &Plan) -> Result<Option<ContainerSeen>, Error> {
        let leaving = self.in_progress.begin(old);
        let (ended, has_ended) = oneshot::channel();
        let goes = async {
            let mut place = self.stops.acquire().await;
            let is_there = self.end(&leaving, grace, &mut place).await?;
            drop(place);
            ended.send(()).ok();
            if is_there { self.discard(old).await } else { Ok(()) }
        };
        let comes = async {
            let id = self.prepare_in_turn(plan).await?;
            let coming = self.in_progress.begin(&id);
            let may_start = tokio::select! {
                told = has_ended => told.is_ok(),
                () = leaving.died(), if !plan.inherits() => true,
            };
            if may_start {
                let _place = self.changes.acquire().await;
                self.start_or_warn(&id, plan).await;
            }
            drop(coming);
            Ok::<String, Error>(id)
        };
        let (gone, made) = tokio::join!(goes, comes);
        drop(leaving);
        gone?;
        self.look(&made?).await
    }

    async fn prepare_in_turn(&self, plan: &Plan) -> Result<String, Error> {
        let _place = self.changes.acquire().await;
        self.prepare(plan).await
    }

    /// A container that cannot be started is left for a start of its own.
    async fn start_or_warn(&self, id: &str, plan: &Plan) {
        if let Err(error) = self.start_made(id).await {
            warn!(container = %plan.name, reason = %error, "made but not started");
        }
    }

    /// Makes a container and does not start it; one of that name that is ours is taken as it is.
    async fn prepare(&self, plan: &Plan) -> Result<String, Error> {
        let made = match self.make_on_network(plan).await {
            // Removed since it was last seen, by another agent of this engine or by hand.
            Err(error) if networks::is_gone(&error) => {
                self.forget_network(&plan.network).await;
                self.make_on_network(plan).await
            }
            made => made,
        };
        match made {
            Err(error) if error.status() == 409 => self.adopt(plan, error).await,
            // Newer engines say so here and not at start.
            Err(error) if networks::is_about_address(&error) => self.make(plan, None).await,
            Err(Error::Refused { status, text }) if fault::image_trouble(&text) == Some(ImageTrouble::Denied) => {
                Err(Error::NoImage { status, text, trouble: ImageTrouble::Denied })
            }
            made => made,
        }
    }

    async fn make_on_network(&self, plan: &Plan) -> Result<String, Error> {
        let own = self.ensure_network(&plan.network).await?.map(|subnet| subnet.own(&plan.name).to_string());
        let is_wished = !plan.address.is_empty() && !networks::is_built_in(&plan.network);
        let address = if is_wished { Some(plan.address.clone()) } else { own };
        self.make(plan, address.as_deref()).await
    }

    async fn make(&self, plan: &Plan, address: Option<&str>) -> Result<String, Error> {
        let options = || Some(CreateContainerOptionsBuilder::new().name(&plan.name).build());
        let make = |body| self.call(CHANGE, async |docker| docker.create_container(options(), body).await);
        let known = self.swappiness.load(Ordering::Relaxed);
        let made = match make(requests::create(plan, address, known)).await {
            Err(error) if known && error.says("swappiness") => {
                self.swappiness.store(false, Ordering::Relaxed);
                make(requests::create(plan, address, false)).await?
            }
            made => made?,
        };
        for text in &made.warnings {
            warn!(container = %plan.name, %text, "the engine warns");
            if text.contains("swappiness") {
                self.swappiness.store(false, Ordering::Relaxed);
            }
        }
        Ok(made.id)
    }

    /// The container that has the name already, if it is the very one we wanted to make.
    async fn adopt(&self, plan: &Plan, conflict: Error) -> Result<String, Error> {
        let Some((detail, phase)) = self.inspect(&plan.name).await? else { return Err(conflict) };
        let wanted = labels::identify(&self.host.owner, |key| plan.labels.get(key).map(String::as_str));
        match seen(&self.host.owner, &detail, phase) {
            Some(found) if Some(&found.identity) == wanted.as_ref() => {
                info!(container = %plan.name, "it is there already: adopted");
                Ok(found.id)
            }
            Some(_) | None => Err(conflict),
        }
    }
}
