//! Every call of the API that a backup and a restore make.

use contract::backup::{Page, Step};
use reqwest::Method;

use super::{Api, Error, Patience, Request};

const RESTORE: &str = "/api/restore";

/// Which page of a backup.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// At this revision; the present one for a first page.
    pub revision: Option<i64>,
    /// After this key.
    pub after: Option<String>,
}

impl Api {
    /// One page of everything stored; asked again while nobody can give it.
    pub async fn backup_page(&self, place: &Place, patience: &mut Patience) -> Result<Page, Error> {
        let revision = place.revision.map(|revision| revision.to_string());
        let mut params: Vec<(&'static str, &str)> = Vec::new();
        params.extend(revision.as_deref().map(|revision| ("revision", revision)));
        params.extend(place.after.as_deref().map(|after| ("after", after)));
        self.deliver(Request::new(Method::GET, "/api/backup", &params), patience).await?.reply.read()
    }

    /// Makes one step of a restore and waits until a leader has decided it.
    pub async fn restore(&self, step: &Step, patience: &mut Patience) -> Result<(), Error> {
        let request = match step {
            Step::Abort => Request::new(Method::DELETE, RESTORE, &[]),
            Step::Stage { .. } | Step::Finish { .. } => Request::new(Method::POST, RESTORE, &[]).with(step),
        };
        self.change(request, patience).await
    }
}
