//! The audit log in etcd: answers pages of it, and asks the core to drop its oldest records when it is full.
//!
//! The log stays out of the memory of the leader. What is dropped is noted with a signature of this scheduler, so that the rest
//! can be verified.

use std::time::Duration;

use contract::access::audit::{AuditHead, AuditPage, AuditRecord, DROPPED_AT_ONCE, MOST_RECORDS};
use contract::keys;
use fabric::etcd::{self, PageRequest, Store};
use tokio::sync::mpsc;

use super::Context;
use crate::core::io::Input;

/// Pause between two checks of the size. 100 records go at each, so 10 commands a second keep the log at its limit.
const EVERY: Duration = Duration::from_secs(10);
/// Records of a page; each has less than 1 KiB.
const MOST_ON_PAGE: u32 = 500;

/// One page of the log.
pub(super) async fn page(store: &Store, after: u64, limit: u32) -> Result<AuditPage, etcd::Error> {
    let head = head(store).await?;
    let first = keys::audit(after.max(head.dropped));
    let request = PageRequest { after: Some(&first), revision: None, limit: i64::from(limit.clamp(1, MOST_ON_PAGE)) };
    let read = store.page(keys::AUDIT, request).await?;
    let records: Vec<AuditRecord> =
        read.pairs.iter().filter_map(|(_, value)| serde_json::from_slice(value).ok()).collect();
    let next = records.last().map(|record| record.number).filter(|_| read.more);
    Ok(AuditPage { head, records, next })
}

async fn head(store: &Store) -> Result<AuditHead, etcd::Error> {
    let value = store.get(keys::AUDIT_HEAD).await?;
    Ok(value.and_then(|value| serde_json::from_slice(&value).ok()).unwrap_or_default())
}

/// Runs while this process leads.
pub(super) async fn drop_oldest(context: Context, out: mpsc::Sender<Input>) {
    loop {
        match oldest(&context).await {
            // The channel closes only when this leadership ends.
            Ok(Some(input)) => drop(out.send(input).await),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "cannot read the audit log"),
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// What to drop of a log that is too long.
async fn oldest(context: &Context) -> Result<Option<Input>, etcd::Error> {
    let head = head(&context.store).await?;
    let up_to = head.dropped + DROPPED_AT_ONCE;
    if head.last < up_to + MOST_RECORDS {
        return Ok(None);
    }
    let Some(value) = context.store.get(&keys::audit(up_to)).await? else { return Ok(None) };
    let Ok(record) = serde_json::from_slice::<AuditRecord>(&value) else { return Ok(None) };
    let hash = record.hash;
    let signature = context.signer.as_ref().map(|signer| signer.sign_text(&AuditHead::checkpoint(up_to, &hash)));
    Ok(Some(Input::DropAudit { up_to, hash, signature }))
}
