//! One value of every message about backups and restores, for the golden files.

use contract::backup::{Entry, Page, RestoreRecord, Step};
use contract::command::Verb;
use contract::keys;
use contract::order::{Order, OrderReply};
use contract::query::{Answer, Query};
use contract::store::{StoreRecord, StoreWord, Stores};

use crate::samples;

fn stores() -> Stores {
    ["01JCN5XR9Q0000000000000000".to_owned()].into()
}

pub(crate) fn verbs() -> Vec<(&'static str, Verb)> {
    let restore = samples::name("deployctl-1");
    let stage = Step::Stage { restore, part: 3, text: "{\"key\":".to_owned() };
    let finish = Step::Finish { restore: samples::name("deployctl-1"), parts: 4, replace: true };
    vec![
        ("restore-stage", Verb::Restore { step: stage }),
        ("restore-finish", Verb::Restore { step: finish }),
        ("restore-abort", Verb::Restore { step: Step::Abort }),
    ]
}

pub(crate) fn queries() -> Vec<(&'static str, Query)> {
    vec![("backup", Query::Backup { revision: Some(4711), after: Some(keys::CALLBACKS.to_owned()) })]
}

pub(crate) fn answers() -> Vec<(&'static str, Answer)> {
    let entries = vec![
        Entry::new(keys::CALLBACKS.to_owned(), br#"{"urls":[]}"#.to_vec()),
        Entry::new(keys::ENGINE.to_owned(), vec![0xff]),
    ];
    let page = Page { revision: 4711, schema: 1, entries, next: Some(keys::ENGINE.to_owned()) };
    vec![
        ("backup", Answer::Backup(Ok(Box::new(page)))),
        ("backup-failed", Answer::Backup(Err("begin again".to_owned()))),
    ]
}

/// An order with the names of its store.
pub(crate) fn order() -> Order {
    Order { stores: stores(), ..samples::orders().1 }
}

pub(crate) fn reply() -> OrderReply {
    OrderReply::Foreign { have: samples::orders().0.fence, stores: stores(), progress: Default::default() }
}

pub(crate) fn store() -> StoreRecord {
    StoreRecord { stores: stores(), base: 1_794_823_200_000, restored: Some(samples::name("deployctl-1")) }
}

pub(crate) fn restore() -> RestoreRecord {
    RestoreRecord { restore: samples::name("deployctl-1"), parts: 4, at: samples::at(3) }
}

pub(crate) fn store_words() -> Vec<(&'static str, StoreWord)> {
    let word = |away_since| StoreWord { by: "scheduler-1".to_owned(), away_since };
    vec![("away", word(Some(samples::at(9)))), ("back", word(None))]
}
