//! Reads all keys under a prefix, page by page at one revision.

use etcd_client::GetOptions;

use super::{Error, LARGEST_ANSWER, Listing, Store, prefix_end};

/// Keys per page; with values of up to 1.5 MiB a page must fit `LARGEST_ANSWER`.
const PAGE: i64 = 128;

/// Request for one page.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest<'a> {
    /// Only keys after this one; none means from the start of the prefix.
    pub after: Option<&'a str>,
    /// The revision to read at; none means the current one.
    pub revision: Option<i64>,
    /// Maximal number of keys.
    pub limit: i64,
}

#[derive(Debug, Clone)]
pub struct Page {
    /// In key order.
    pub pairs: Vec<(String, Vec<u8>)>,
    /// The revision it was read at.
    pub revision: i64,
    /// More pages follow.
    pub more: bool,
}

impl Store {
    /// All keys under a prefix at one revision (linearizable).
    pub async fn list(&self, prefix: &str) -> Result<Listing, Error> {
        let mut pairs: Vec<(String, Vec<u8>)> = Vec::new();
        let mut revision = None;
        loop {
            let after = pairs.last().map(|(key, _)| key.as_str());
            let page = self.page(prefix, PageRequest { after, revision, limit: PAGE }).await?;
            revision = Some(page.revision);
            pairs.extend(page.pairs);
            if !page.more {
                return Ok(Listing { pairs, revision: page.revision });
            }
        }
    }

    /// One page of the keys under a prefix. [`Error::NoRevision`] if the revision was compacted or never existed.
    pub async fn page(&self, prefix: &str, request: PageRequest<'_>) -> Result<Page, Error> {
        let from = request.after.map_or_else(|| prefix.to_owned(), |key| format!("{key}\0"));
        let at = request.revision.unwrap_or(0);
        let options = GetOptions::new().with_range(prefix_end(prefix)).with_limit(request.limit).with_revision(at);
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
        Ok(Page { pairs: pairs.collect(), revision: request.revision.unwrap_or(now), more })
    }
}

/// etcd answers OutOfRange for a revision that is compacted or in the future.
fn of_revision(error: Error, revision: i64) -> Error {
    match error {
        Error::Failed { source: etcd_client::Error::GRpcStatus(status), .. } if status.code() as i32 == 11 => {
            Error::NoRevision { revision }
        }
        other => other,
    }
}
