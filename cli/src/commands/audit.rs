//! `audit`: shows and verifies the log of all commands and that of refused requests.

use std::path::{Path, PathBuf};

use contract::access::audit::{AuditHead, AuditPage, AuditRecord, Broken, Chain, Verifier};
use fabric::signing::{self, OrderKeys};

use crate::api::{self, Api};
use crate::args::AuditWhat;
use crate::output::{access, show};

/// Limit of records in one request, the largest that apiservers accept. A page has fewer and names the next one.
const PAGE: u64 = 1000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Api(#[from] api::Error),
    #[error(transparent)]
    Keys(#[from] signing::Error),
    #[error("the log of {} is broken after {verified} records that are as they were written", name(*chain))]
    Broken {
        chain: Chain,
        verified: u64,
        #[source]
        source: Broken,
    },
    #[error(
        "the log of {} begins after record {dropped}, and no scheduler with a key in {} signed that: the records before it may have \
         been removed by someone else",
        name(*chain), keys.display()
    )]
    Checkpoint { chain: Chain, dropped: u64, keys: PathBuf },
    #[error("the pages of the audit log do not advance: after record {after} the API names record {next}")]
    Stuck { after: u64, next: u64 },
}

fn name(chain: Chain) -> &'static str {
    match chain {
        Chain::Commands => "commands",
        Chain::Refused => "refused requests",
    }
}

/// `deployctl audit`
pub async fn audit(api: &Api, what: &AuditWhat) -> Result<(), Error> {
    match what {
        AuditWhat::List { limit, refused, output } => {
            let chain = if *refused { Chain::Refused } else { Chain::Commands };
            let records = last(api, chain, *limit).await?;
            let text = || if records.is_empty() { "no records".to_owned() } else { access::audited(&records) };
            show(*output, &records, text);
        }
        AuditWhat::Verify { order_keys_file } => {
            let keys =
                order_keys_file.as_deref().map(|path| Ok::<_, Error>((path, OrderKeys::load(path)?))).transpose()?;
            for chain in Chain::ALL {
                let verified = verify(api, chain, keys.as_ref()).await?;
                println!("{}: {verified}", name(chain));
            }
        }
    }
    Ok(())
}

/// The last records.
async fn last(api: &Api, chain: Chain, count: u64) -> Result<Vec<AuditRecord>, Error> {
    let head = api.audit(chain, 0, 1).await?.head;
    let mut pages = Pages::after(chain, head.last.saturating_sub(count).max(head.dropped));
    let mut records = Vec::new();
    while let Some(page) = pages.next(api).await? {
        records.extend(page.records);
    }
    // Commands that arrived meanwhile.
    let beyond = records.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
    records.drain(..beyond);
    Ok(records)
}

/// Verifies a whole log; what was found.
async fn verify(api: &Api, chain: Chain, keys: Option<&(&Path, OrderKeys)>) -> Result<String, Error> {
    let mut pages = Pages::after(chain, 0);
    let mut log: Option<(Verifier, AuditPage)> = None;
    let mut verified = 0;
    while let Some(page) = pages.next(api).await? {
        let mut verifier = match log {
            Some((verifier, _)) => verifier,
            None => start(chain, &page.head, keys)?,
        };
        for record in &page.records {
            verifier.take(record).map_err(|source| Error::Broken { chain, verified, source })?;
            verified += 1;
        }
        log = Some((verifier, page));
    }
    let Some((verifier, AuditPage { head, .. })) = log else { return Ok("no records".to_owned()) };
    let end = verifier.end(&head).map_err(|source| Error::Broken { chain, verified, source })?;
    let dropped = match (head.dropped, keys) {
        (0, _) => String::new(),
        (dropped, Some(_)) => format!("; a scheduler signed that it dropped those up to {dropped}"),
        (dropped, None) => format!("; who dropped those up to {dropped} was not checked (--order-keys-file)"),
    };
    Ok(match verified {
        0 => "no records".to_owned(),
        _ => format!("{verified} records verified: {} to {end}{dropped}", end - verified + 1),
    })
}

/// A verifier of the records that were not dropped, after the signature of the scheduler that dropped the others was checked.
fn start(chain: Chain, head: &AuditHead, keys: Option<&(&Path, OrderKeys)>) -> Result<Verifier, Error> {
    let AuditHead { dropped, dropped_hash, signature, .. } = head;
    if let Some((path, keys)) = keys.filter(|_| *dropped > 0) {
        let signature = signature.as_deref().unwrap_or_default();
        if keys.check_text(&chain.checkpoint(*dropped, dropped_hash), signature).is_err() {
            return Err(Error::Checkpoint { chain, dropped: *dropped, keys: path.to_path_buf() });
        }
    }
    Ok(Verifier::new(head))
}

/// Reads the log page by page.
struct Pages {
    chain: Chain,
    after: Option<u64>,
}

impl Pages {
    fn after(chain: Chain, number: u64) -> Self {
        Self { chain, after: Some(number) }
    }

    /// The next page; none after the last.
    async fn next(&mut self, api: &Api) -> Result<Option<AuditPage>, Error> {
        let Some(after) = self.after else { return Ok(None) };
        let page = api.audit(self.chain, after, PAGE).await?;
        match page.next {
            Some(next) if next <= after => return Err(Error::Stuck { after, next }),
            next => self.after = next,
        }
        Ok(Some(page))
    }
}
