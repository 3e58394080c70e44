//! Marks the command stream with the name of the store whose leader reads it.
//!
//! A new store has no cursor, so its leader reads the stream from its start and runs commands that were sent before the first
//! scheduler started. A wiped store has no cursor either, but must not run the commands of the last days again. So the first leader
//! of a store writes two notes on the stream before it reads: the store's name and the sequence number after which it reads. A
//! leader that finds the name of another store skips all messages that are there. Later leaders of the store read the same notes.

use contract::store::Stores;
use contract::streams::{BEGIN_NOTE, COMMANDS, STORE_NOTE};
use fabric::nats::{Bus, Error};

/// The store that has claimed the stream.
#[derive(Debug, PartialEq, Eq)]
enum Claim {
    /// Our store; without a cursor its leader reads after this sequence number.
    Ours(u64),
    Free,
    Foreign,
}

/// Claims the stream for our store. Returns the sequence number after which to read, at least `done`.
pub(super) async fn claim(bus: &Bus, stores: &Stores, done: u64) -> Result<u64, Error> {
    let Some(name) = stores.last() else { return Ok(done) };
    let noted = bus.stream_notes(COMMANDS.name).await?;
    let begin = match read_claim(noted.note(STORE_NOTE), noted.note(BEGIN_NOTE), stores) {
        Claim::Ours(begin) => return Ok(begin.max(done)),
        Claim::Free => done,
        Claim::Foreign => {
            let skipped = noted.last_sequence.saturating_sub(done);
            tracing::error!(
                skipped,
                "the command stream belongs to another store: etcd was wiped. Its commands are skipped; restore a backup with \
                 deployctl restore"
            );
            noted.last_sequence.max(done)
        }
    };
    bus.note_on_stream(COMMANDS.name, &[(STORE_NOTE, name.clone()), (BEGIN_NOTE, begin.to_string())]).await?;
    Ok(begin)
}

fn read_claim(store: Option<&str>, begin: Option<&str>, ours: &Stores) -> Claim {
    match store {
        None => Claim::Free,
        Some(store) if ours.contains(store) => Claim::Ours(begin.and_then(|text| text.parse().ok()).unwrap_or(0)),
        Some(_) => Claim::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_free_or_claimed_by_our_store_or_by_another() {
        let ours: Stores = ["a".to_owned(), "b".to_owned()].into();
        assert_eq!(read_claim(None, None, &ours), Claim::Free);
        assert_eq!(read_claim(Some("a"), Some("7"), &ours), Claim::Ours(7));
        assert_eq!(read_claim(Some("b"), None, &ours), Claim::Ours(0));
        assert_eq!(read_claim(Some("c"), Some("7"), &ours), Claim::Foreign);
    }
}
