//! Whose commands are in the stream?
//!
//! A store without a cursor begins at the start of the stream: commands given before the very first scheduler ran are done. A
//! store that was wiped has no cursor either, and would do everything of the last days once more. So the first leader of a
//! store puts its name on the stream, with where it begins; a store that finds another's name begins after everything that is
//! there. The notes stand before the first command is read, so whoever leads next begins at the same place.

use contract::store::Stores;
use contract::streams::{BEGIN_NOTE, COMMANDS, STORE_NOTE};
use fabric::nats::{Bus, Error};

/// What is to be done about the stream.
#[derive(Debug, PartialEq, Eq)]
enum Claim {
    /// It is ours; a store without a cursor begins after this message.
    Ours(u64),
    /// Nobody has claimed it.
    Free,
    /// Another store has.
    Foreign,
}

/// Sees to it that the stream bears a name of ours. After which message we begin, which is not before `done`.
pub(super) async fn claim(bus: &Bus, stores: &Stores, done: u64) -> Result<u64, Error> {
    let Some(name) = stores.last() else { return Ok(done) };
    let noted = bus.stream_notes(COMMANDS.name).await?;
    let begin = match judge(noted.note(STORE_NOTE), noted.note(BEGIN_NOTE), stores) {
        Claim::Ours(begin) => return Ok(begin.max(done)),
        Claim::Free => done,
        Claim::Foreign => {
            let skipped = noted.last_sequence.saturating_sub(done);
            tracing::error!(
                skipped,
                "the command stream belongs to another store: etcd was wiped. What is in it is not done again; restore a \
                 backup with deployctl restore"
            );
            noted.last_sequence.max(done)
        }
    };
    bus.note_on_stream(COMMANDS.name, &[(STORE_NOTE, name.clone()), (BEGIN_NOTE, begin.to_string())]).await?;
    Ok(begin)
}

fn judge(store: Option<&str>, begin: Option<&str>, ours: &Stores) -> Claim {
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
    fn a_stream_is_free_ours_or_anothers() {
        let ours: Stores = ["a".to_owned(), "b".to_owned()].into();
        assert_eq!(judge(None, None, &ours), Claim::Free);
        assert_eq!(judge(Some("a"), Some("7"), &ours), Claim::Ours(7));
        assert_eq!(judge(Some("b"), None, &ours), Claim::Ours(0));
        assert_eq!(judge(Some("c"), Some("7"), &ours), Claim::Foreign);
    }
}
