//! `audit`: shows and verifies the log of all commands.

use contract::access::audit::{AuditPage, AuditRecord, Broken, Verifier};

use crate::api::{self, Api};
use crate::args::AuditWhat;
use crate::output::{access, show};

/// Records of one request; the apiserver gives no more.
const PAGE: u64 = 1000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Api(#[from] api::Error),
    #[error("the audit log is broken after {verified} records that are as they were written")]
    Broken {
        verified: u64,
        #[source]
        source: Broken,
    },
    #[error("the pages of the audit log do not advance: after record {after} the API names record {next}")]
    Stuck { after: u64, next: u64 },
}

/// `deployctl audit`
pub async fn audit(api: &Api, what: &AuditWhat) -> Result<(), Error> {
    match what {
        AuditWhat::List { limit, output } => {
            let records = last(api, *limit).await?;
            let text = || if records.is_empty() { "no records".to_owned() } else { access::audited(&records) };
            show(*output, &records, text);
        }
        AuditWhat::Verify => {
            let verified = verify(api).await?;
            println!("{verified}");
        }
    }
    Ok(())
}

/// The last records.
async fn last(api: &Api, count: u64) -> Result<Vec<AuditRecord>, Error> {
    let head = api.audit(0, 1).await?.head;
    let mut pages = Pages::after(head.last.saturating_sub(count).max(head.dropped));
    let mut records = Vec::new();
    while let Some(page) = pages.next(api).await? {
        records.extend(page.records);
    }
    // Commands that arrived meanwhile.
    let beyond = records.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
    records.drain(..beyond);
    Ok(records)
}

/// Verifies the whole log; what was found.
async fn verify(api: &Api) -> Result<String, Error> {
    let mut pages = Pages::after(0);
    let mut log: Option<(Verifier, AuditPage)> = None;
    let mut verified = 0;
    while let Some(page) = pages.next(api).await? {
        let mut verifier = log.map_or_else(|| Verifier::new(&page.head), |(verifier, _)| verifier);
        for record in &page.records {
            verifier.take(record).map_err(|source| Error::Broken { verified, source })?;
            verified += 1;
        }
        log = Some((verifier, page));
    }
    let Some((verifier, AuditPage { head, .. })) = log else { return Ok("no records".to_owned()) };
    let end = verifier.end(&head).map_err(|source| Error::Broken { verified, source })?;
    Ok(match verified {
        0 => "no records".to_owned(),
        _ => format!("{verified} records verified: {} to {end}", end - verified + 1),
    })
}

/// Reads the log page by page.
struct Pages {
    after: Option<u64>,
}

impl Pages {
    fn after(number: u64) -> Self {
        Self { after: Some(number) }
    }

    /// The next page; none after the last.
    async fn next(&mut self, api: &Api) -> Result<Option<AuditPage>, Error> {
        let Some(after) = self.after else { return Ok(None) };
        let page = api.audit(after, PAGE).await?;
        match page.next {
            Some(next) if next <= after => return Err(Error::Stuck { after, next }),
            next => self.after = next,
        }
        Ok(Some(page))
    }
}
