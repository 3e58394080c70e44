//! The calls of the API for backup and restore.

use contract::backup::{Page, Step};
use reqwest::Method;

use super::{Api, Error, Request, Retry};

const RESTORE: &str = "/api/restore";

/// Position of a page of a backup.
#[derive(Debug, Clone, Default)]
pub struct Cursor {
    /// Revision of the store; none for the first page, which takes the current one.
    pub revision: Option<i64>,
    /// After this key.
    pub after: Option<String>,
}

impl Api {
    /// One page of the store; retries while no scheduler can serve it.
    pub async fn backup_page(&self, cursor: &Cursor, retry: &mut Retry) -> Result<Page, Error> {
        let revision = cursor.revision.map(|revision| revision.to_string());
        let mut params: Vec<(&'static str, &str)> = Vec::new();
        params.extend(revision.as_deref().map(|revision| ("revision", revision)));
        params.extend(cursor.after.as_deref().map(|after| ("after", after)));
        self.deliver(Request::new(Method::GET, "/api/backup", &params), retry).await?.reply.read()
    }

    /// Makes one step of a restore and waits until a leader has decided it.
    pub async fn restore(&self, step: &Step, retry: &mut Retry) -> Result<(), Error> {
        let request = match step {
            Step::Abort => Request::new(Method::DELETE, RESTORE, &[]),
            Step::Stage { .. } | Step::Finish { .. } => Request::new(Method::POST, RESTORE, &[]).with(step),
        };
        self.change(request, retry).await
    }
}
