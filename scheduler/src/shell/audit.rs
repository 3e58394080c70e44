//! The audit logs in etcd: answers pages of them, and asks the core to drop the oldest records of a full one.
//!
//! The logs stay out of the memory of the leader. What is dropped is noted with a signature of this scheduler, so that the rest
//! can be verified.

use std::time::Duration;

use contract::access::audit::{AuditHead, AuditPage, AuditRecord, Chain, DROPPED_AT_ONCE, MOST_RECORDS};
use fabric::etcd::{self, PageRequest, Store};
use tokio::sync::mpsc;

use super::Context;
use crate::core::io::Input;

/// Pause between two checks of the size. 100 records go at each, so 10 commands a second keep the log at its limit.
const EVERY: Duration = Duration::from_secs(10);
/// Records of a page; each has less than 1 KiB.
const MOST_ON_PAGE: u32 = 500;

/// One page of a log.
pub(super) async fn page(store: &Store, chain: Chain, after: u64, limit: u32) -> Result<AuditPage, etcd::Error> {
    let head = head(store, chain).await?;
    let first = chain.key(after.max(head.dropped));
    let request = PageRequest { after: Some(&first), revision: None, limit: i64::from(limit.clamp(1, MOST_ON_PAGE)) };
    let read = store.page(chain.prefix(), request).await?;
    let records: Vec<AuditRecord> =
        read.pairs.iter().filter_map(|(_, value)| serde_json::from_slice(value).ok()).collect();
    let next = records.last().map(|record| record.number).filter(|_| read.more);
    Ok(AuditPage { head, records, next })
}

async fn head(store: &Store, chain: Chain) -> Result<AuditHead, etcd::Error> {
    let value = store.get(chain.head_key()).await?;
    Ok(value.and_then(|value| serde_json::from_slice(&value).ok()).unwrap_or_default())
}

/// Runs while this process leads.
pub(super) async fn drop_oldest(context: Context, out: mpsc::Sender<Input>) {
    loop {
        for chain in Chain::ALL {
            match oldest(&context, chain).await {
                // The channel closes only when this leadership ends.
                Ok(Some(input)) => drop(out.send(input).await),
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "cannot read the audit log"),
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// What to drop of a log that is too long.
async fn oldest(context: &Context, chain: Chain) -> Result<Option<Input>, etcd::Error> {
    let head = head(&context.store, chain).await?;
    let up_to = head.dropped + DROPPED_AT_ONCE;
    if head.last < up_to + MOST_RECORDS {
        return Ok(None);
    }
    let Some(value) = context.store.get(&chain.key(up_to)).await? else { return Ok(None) };
    let Ok(record) = serde_json::from_slice::<AuditRecord>(&value) else { return Ok(None) };
    let hash = record.hash;
    let signature = context.signer.as_ref().map(|signer| signer.sign_text(&chain.checkpoint(up_to, &hash)));
    Ok(Some(Input::DropAudit { chain, up_to, hash, signature }))
}
