//! Reads what is under a prefix, page by page, all pages at one revision.

use etcd_client::GetOptions;

use super::{Error, LARGEST_ANSWER, Listing, Store, prefix_end};

/// Keys per page of a list: with values up to 1.5 MiB a page must still fit `LARGEST_ANSWER`.
const PAGE: i64 = 128;

/// Which page.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Only after this key; from the start of the prefix when there is none.
    pub after: Option<&'a str>,
    /// The revision to read at; the present one when there is none.
    pub revision: Option<i64>,
    /// So many keys at most.
    pub limit: i64,
}

/// One page.
#[derive(Debug, Clone)]
pub struct Page {
    /// Keys and values in key order.
    pub pairs: Vec<(String, Vec<u8>)>,
    /// The revision it was read at.
    pub revision: i64,
    /// There is more after it.
    pub more: bool,
}

impl Store {
    /// Everything under a prefix, at one revision, no older than this call.
    pub async fn list(&self, prefix: &str) -> Result<Listing, Error> {
        let mut pairs: Vec<(String, Vec<u8>)> = Vec::new();
        let mut revision = None;
        loop {
            let after = pairs.last().map(|(key, _)| key.as_str());
            let page = self.page(prefix, Ask { after, revision, limit: PAGE }).await?;
            revision = Some(page.revision);
            pairs.extend(page.pairs);
            if !page.more {
                return Ok(Listing { pairs, revision: page.revision });
            }
        }
    }

    /// A page of what is under a prefix. A revision that is compacted away, or that the store never had, is
    /// [`Error::NoRevision`].
    pub async fn page(&self, prefix: &str, ask: Ask<'_>) -> Result<Page, Error> {
        let from = ask.after.map_or_else(|| prefix.to_owned(), |key| format!("{key}\0"));
        let at = ask.revision.unwrap_or(0);
        let options = GetOptions::new().with_range(prefix_end(prefix)).with_limit(ask.limit).with_revision(at);
        let read = self.call("listing keys", self.effort(), |client| {
            let mut keys = client.kv_client().max_decoding_message_size(LARGEST_ANSWER);
            let (from, options) = (from.clone(), options.clone());
            async move { keys.get(from, Some(options)).await }
        });
        let mut read = read.await.map_err(|error| of_revision(error, at))?;
        let now = read.header().map_or(0, etcd_client::ResponseHeader::revision);
        let more = read.more();
        let pairs = read.take_kvs().into_iter().map(|pair| {
            let (key, value) = pair.into_key_value();
            (String::from_utf8_lossy(&key).into_owned(), value)
        });
        Ok(Page { pairs: pairs.collect(), revision: ask.revision.unwrap_or(now), more })
    }
}

/// etcd says "out of range" of a revision it does not have any more, or not yet.
fn of_revision(error: Error, revision: i64) -> Error {
    match error {
        Error::Failed { source: etcd_client::Error::GRpcStatus(status), .. } if status.code() as i32 == 11 => {
            Error::NoRevision { revision }
        }
        other => other,
    }
}
