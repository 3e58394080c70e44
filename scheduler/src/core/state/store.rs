//! What the store holds about itself: its identity, its commits, a restore, the position in the command stream.

use contract::backup::RestoreRecord;
use contract::fence::Term;
use contract::layout::Flaw;
use contract::progress::Progress;
use contract::record::Cursor;
use contract::store::StoreRecord;

#[derive(Debug, Default)]
pub(in crate::core) struct StoreState {
    identity: StoreRecord,
    /// The commits it holds; none when only older schedulers have led over it.
    progress: Option<Progress>,
    /// A backup that is to replace everything stored.
    restore: Option<RestoreRecord>,
    /// Why the identity, the commits or the restore cannot be read.
    unsound: Option<String>,
    cursor: Cursor,
    /// Why the cursor cannot be read.
    cursor_flaw: Option<String>,
}

impl StoreState {
    pub(in crate::core) fn identity(&self) -> &StoreRecord {
        &self.identity
    }

    /// The commits that the store holds, for a leader of this term.
    pub(in crate::core) fn progress(&self, term: Term) -> Progress {
        let progress = self.progress.clone().unwrap_or_else(|| Progress::since(term));
        progress.of_store(&self.identity.stores)
    }

    pub(in crate::core) fn restore(&self) -> Option<&RestoreRecord> {
        self.restore.as_ref()
    }

    /// How far which command stream is in effect.
    pub(in crate::core) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    pub(in crate::core) fn advance(&mut self, cursor: Cursor) {
        self.cursor = cursor;
    }

    /// Why no scheduler may lead over this store.
    pub(in crate::core) fn obstacle(&self) -> Option<String> {
        // Without the cursor every command of the stream would take effect once more.
        let cursor = self.cursor_flaw.as_ref();
        cursor
            .map(|reason| format!("the cursor of the command stream cannot be read: {reason}"))
            .or_else(|| self.unsound.clone())
    }

    pub(super) fn load_cursor(&mut self, read: Result<Option<Cursor>, Flaw>) -> Result<(), Flaw> {
        self.cursor_flaw = read.as_ref().err().map(|flaw| flaw.reason.clone());
        self.cursor = read?.unwrap_or_default();
        Ok(())
    }

    pub(super) fn load_identity(&mut self, read: Result<Option<StoreRecord>, Flaw>) -> Result<(), Flaw> {
        self.identity = self.checked(read)?.unwrap_or_default();
        Ok(())
    }

    pub(super) fn load_progress(&mut self, read: Result<Option<Progress>, Flaw>) -> Result<(), Flaw> {
        self.progress = self.checked(read)?;
        Ok(())
    }

    pub(super) fn load_restore(&mut self, read: Result<Option<RestoreRecord>, Flaw>) -> Result<(), Flaw> {
        self.restore = self.checked(read)?;
        Ok(())
    }

    fn checked<T>(&mut self, read: Result<T, Flaw>) -> Result<T, Flaw> {
        read.inspect_err(|flaw| self.unsound = Some(format!("{} cannot be read: {}", flaw.key, flaw.reason)))
    }
}
