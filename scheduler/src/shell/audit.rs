//! The audit logs in etcd: answers pages of them, and asks the core to drop the oldest records of a full one.
//!
//! The logs stay out of the memory of the leader. What is dropped is noted with a signature of this scheduler, so that the rest
//! can be verified.

use std::ops::RangeInclusive;
use std::time::Duration;

use contract::access::audit::{AuditHead, AuditPage, AuditRecord, Chain, DROPPED_AT_ONCE};
use fabric::etcd::{self, PageRequest, Store};
use tokio::sync::mpsc;

use super::Context;
use crate::core::io::Input;

/// Pause between two checks of the size.
const EVERY: Duration = Duration::from_secs(10);
/// The same while a log is too long. 100 records go at each check, so a log stays at its limit with up to 500 commands a second.
const WHILE_FULL: Duration = Duration::from_millis(200);

/// Records of a page: about 1 KB each, up to 35 KB each of refused requests.
fn most_on_page(chain: Chain) -> u32 {
    match chain {
        Chain::Commands => 500,
        Chain::Refused => 20,
    }
}

/// One page of a log.
pub(super) async fn page(store: &Store, chain: Chain, after: u64, limit: u32) -> Result<AuditPage, etcd::Error> {
    let first = chain.key(after);
    let limit = i64::from(limit.clamp(1, most_on_page(chain)));
    let read = store.page(chain.prefix(), PageRequest { after: Some(&first), revision: None, limit }).await?;
    // At the same revision: a record that is appended meanwhile must not look like one that is missing.
    let head = head(store, chain, Some(read.revision)).await?;
    let records: Vec<AuditRecord> =
        read.pairs.iter().filter_map(|(_, value)| serde_json::from_slice(value).ok()).collect();
    let next = records.last().map(|record| record.number).filter(|_| read.more);
    Ok(AuditPage { head, records, next })
}

async fn head(store: &Store, chain: Chain, revision: Option<i64>) -> Result<AuditHead, etcd::Error> {
    let found = store.page(chain.head_key(), PageRequest { after: None, revision, limit: 1 }).await?.pairs;
    Ok(found.first().and_then(|(_, value)| serde_json::from_slice(value).ok()).unwrap_or_default())
}

/// Runs while this process leads.
pub(super) async fn drop_oldest(context: Context, out: mpsc::Sender<Input>) {
    loop {
        let mut pause = EVERY;
        for chain in Chain::ALL {
            match oldest(&context, chain).await {
                // The channel closes only when this leadership ends.
                Ok(Some(input)) => {
                    drop(out.send(input).await);
                    pause = WHILE_FULL;
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "cannot read the audit log"),
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// What to drop of a log that is too long.
async fn oldest(context: &Context, chain: Chain) -> Result<Option<Input>, etcd::Error> {
    let head = head(&context.store, chain, None).await?;
    let up_to = head.dropped + DROPPED_AT_ONCE;
    if head.last < up_to + chain.most_records() {
        return Ok(None);
    }
    let (up_to, hash) = last_readable(&context.store, chain, head.dropped + 1..=up_to).await?;
    let signature = context.signer.as_ref().map(|signer| signer.sign_text(&chain.checkpoint(up_to, &hash)));
    Ok(Some(Input::DropAudit { chain, up_to, hash, signature }))
}

/// Number and hash of the last record of the portion that can be read. One that is missing or cannot be read must not stop the
/// dropping, or the log would grow without limit.
async fn last_readable(
    store: &Store,
    chain: Chain,
    portion: RangeInclusive<u64>,
) -> Result<(u64, String), etcd::Error> {
    let last = *portion.end();
    for number in portion.rev() {
        let value = store.get(&chain.key(number)).await?;
        if let Some(record) = value.and_then(|value| serde_json::from_slice::<AuditRecord>(&value).ok()) {
            if number != last {
                tracing::error!(
                    ?chain,
                    from = number + 1,
                    to = last,
                    "records of the audit log are missing or cannot be read"
                );
            }
            return Ok((number, record.hash));
        }
    }
    tracing::error!(?chain, last, "none of the oldest records of the audit log can be read");
    // Without the hash the next record does not verify, which is true.
    Ok((last, String::new()))
}
