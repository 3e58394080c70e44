//! What this apiserver knows of the cluster's access, and what follows for a client. Pure.

use std::sync::Arc;
use std::time::Duration;

use contract::access::binding::Peer;
use contract::access::table::AccessTable;
use contract::access::token::Token;
use contract::access::{AnonymousBinding, Right};
use contract::time::Timestamp;
use tokio::time::Instant;

use super::client::Client;

/// How long a table is used while no scheduler answers.
const KEPT_FOR: Duration = Duration::from_secs(10 * 60);

/// An answer of a scheduler.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) news: News,
    /// A standby answered.
    pub(super) is_stale: bool,
}

#[derive(Debug)]
pub(super) enum News {
    Unchanged,
    Table(Box<AccessTable>),
    /// The scheduler is of a version without access control.
    BeforeAccess,
}

/// The last answer and its time.
#[derive(Debug, Default)]
pub(super) struct Known {
    access: Option<Knowledge>,
    confirmed: Option<Instant>,
}

#[derive(Debug, Clone)]
enum Knowledge {
    Table(Arc<AccessTable>),
    BeforeAccess,
}

/// The rights that the schedulers check again.
const CHANGING: [Right; 4] = [Right::Release, Right::Deploy, Right::Operate, Right::Administer];

impl Local {
    /// The bindings with which this apiserver accepts changes that the scheduler of this table refuses.
    pub(super) fn unknown_to(&self, table: &AccessTable) -> Vec<AnonymousBinding> {
        let changes = |binding: &&AnonymousBinding| CHANGING.iter().any(|right| binding.binding.role.has(*right));
        let bindings = self.bindings.iter().filter(changes).filter(|_| table.enforced);
        bindings.filter(|binding| !table.anonymous.contains(binding)).cloned().collect()
    }
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableUpdate {
    Changed,
    Same,
    /// A standby may not know yet what the leader said: that a token is revoked, for example.
    Ignored,
}

/// What this apiserver knows about its own machine and flags.
#[derive(Debug)]
pub(super) struct Local {
    /// `--anonymous`.
    pub(super) bindings: Vec<AnonymousBinding>,
    /// The user that runs this process.
    pub(super) uid: u32,
}

/// What follows for a client.
#[derive(Debug)]
pub(super) enum Identification {
    Client(Client),
    /// A binding is for it, but no scheduler has answered: the cluster may also be open.
    Unconfirmed(Client),
    /// The token may be new: a fresh table decides.
    UnknownToken,
    /// The token has expired, or its secret is wrong.
    BadToken,
    /// It has no token, and no binding is for it.
    NoToken,
    /// No scheduler answered yet, or for too long.
    NoTable,
    /// The leading scheduler knows no tokens.
    NoTokens,
}

impl Known {
    /// Takes an answer, unless it may be older than what is known.
    pub(super) fn take(&mut self, Heard { news, is_stale }: Heard, now: Instant) -> TableUpdate {
        let is_new = match news {
            News::Unchanged => false,
            News::Table(table) => {
                if is_stale && self.table().is_some_and(|known| table.may_be_older_than(known)) {
                    return TableUpdate::Ignored;
                }
                let is_new = self.table().is_none_or(|known| known.version != table.version);
                self.access = Some(Knowledge::Table(Arc::from(table)));
                is_new
            }
            News::BeforeAccess => {
                let is_new = !matches!(self.access, Some(Knowledge::BeforeAccess));
                self.access = Some(Knowledge::BeforeAccess);
                is_new
            }
        };
        self.confirmed = Some(now);
        if is_new { TableUpdate::Changed } else { TableUpdate::Same }
    }

    /// Whether a scheduler has answered since then.
    pub(super) fn is_confirmed_since(&self, then: Instant) -> bool {
        self.confirmed.is_some_and(|at| at >= then)
    }

    /// The table as last received.
    pub(super) fn table(&self) -> Option<&AccessTable> {
        match &self.access {
            Some(Knowledge::Table(table)) => Some(table),
            Some(Knowledge::BeforeAccess) | None => None,
        }
    }

    /// Whether clients without a token may do everything.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        match self.current(now) {
            Some(Knowledge::Table(table)) => !table.enforced,
            Some(Knowledge::BeforeAccess) => true,
            None => false,
        }
    }

    /// Identifies a client by its token, or by its address or user when it has none. A client with a token never gets the
    /// rights of clients without one.
    pub(super) fn judge(
        &self,
        local: &Local,
        token: Option<&Token>,
        peer: Peer,
        (now, time): (Instant, Timestamp),
    ) -> Identification {
        match token {
            Some(token) => self.judge_token(token, peer, (now, time)),
            None => self.judge_peer(local, peer, now),
        }
    }

    fn judge_token(&self, token: &Token, peer: Peer, (now, time): (Instant, Timestamp)) -> Identification {
        let table = match self.current(now) {
            Some(Knowledge::Table(table)) => table,
            Some(Knowledge::BeforeAccess) => return Identification::NoTokens,
            None => return Identification::NoTable,
        };
        let proof = token.proof();
        if !table.tokens.iter().any(|record| record.id == proof.id) {
            return Identification::UnknownToken;
        }
        match table.verify(&proof, time) {
            Some(principal) => Identification::Client(Client::with_token(principal, proof, peer)),
            None => Identification::BadToken,
        }
    }

    /// While the cluster is open, bindings restrict no client: it could not create the tokens that it needs before access control
    /// is enforced.
    fn judge_peer(&self, local: &Local, peer: Peer, now: Instant) -> Identification {
        let bindings = local.bindings.iter().filter(|binding| binding.source.contains(peer, local.uid));
        let bindings: Vec<AnonymousBinding> = bindings.cloned().collect();
        if self.is_open(now) {
            return Identification::Client(Client::open(bindings, peer));
        }
        match (bindings.is_empty(), self.current(now).is_some()) {
            (false, true) => Identification::Client(Client::anonymous(bindings, peer)),
            (false, false) => Identification::Unconfirmed(Client::anonymous(bindings, peer)),
            (true, true) => Identification::NoToken,
            (true, false) => Identification::NoTable,
        }
    }

    /// Whether a client that was identified earlier would still be.
    pub(super) fn still_knows(&self, client: &Client, (now, time): (Instant, Timestamp)) -> bool {
        match (client.token(), self.current(now)) {
            (Some(proof), Some(Knowledge::Table(table))) => table.verify(proof, time).is_some(),
            (Some(_), Some(Knowledge::BeforeAccess) | None) => false,
            // Bindings of clients without a token change only with a restart.
            (None, _) => !client.is_open() || self.is_open(now),
        }
    }

    fn current(&self, now: Instant) -> Option<&Knowledge> {
        let is_current = self.confirmed.is_some_and(|at| now.saturating_duration_since(at) < KEPT_FOR);
        self.access.as_ref().filter(|_| is_current)
    }
}

#[cfg(test)]
mod tests {
    use contract::access::token::TokenRecord;
    use contract::record::Cursor;

    use super::*;

    const PEER: Peer = Peer { address: None, uid: Some(7) };

    fn token(byte: u8) -> Token {
        Token::from_random(&[byte; 40])
    }

    fn table(enforced: bool, tokens: &[Token]) -> Heard {
        table_as_of(enforced, tokens, 0)
    }

    fn led(news: News) -> Heard {
        Heard { news, is_stale: false }
    }

    /// The table after a number of commands.
    fn table_as_of(enforced: bool, tokens: &[Token], sequence: u64) -> Heard {
        let record = |token: &Token| TokenRecord {
            id: token.id.clone(),
            hash: token.proof().hash(),
            principal: "alice".to_owned(),
            bindings: vec!["viewer@shop".parse().expect("a binding")],
            by: "root".to_owned(),
            created: Timestamp::from_millis(0),
            expires: Timestamp::from_millis(1_000),
        };
        let version = format!("{enforced} {}", tokens.len());
        let tokens = tokens.iter().map(record).collect();
        let as_of = Some(Cursor { stream: "a".to_owned(), sequence, stored_at: None });
        led(News::Table(Box::new(AccessTable { version, enforced, tokens, anonymous: Vec::new(), as_of })))
    }

    fn local(bindings: &[&str]) -> Local {
        Local { bindings: bindings.iter().map(|text| text.parse().expect("a binding")).collect(), uid: 7 }
    }

    /// The name of the principal, or the problem.
    fn judge(known: &Known, bindings: &[&str], token: Option<&Token>, at: (Instant, u64)) -> String {
        let time = Timestamp::from_millis(i64::try_from(at.1).expect("a small number"));
        match known.judge(&local(bindings), token, PEER, (at.0, time)) {
            Identification::Client(client) => client.principal.name,
            Identification::Unconfirmed(client) => format!("{}?", client.principal.name),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_token_is_known_until_it_expires_or_the_table_is_too_old() {
        let (mut known, start, mine) = (Known::default(), Instant::now(), token(1));
        assert_eq!(judge(&known, &[], Some(&mine), (start, 0)), "NoTable");
        assert_eq!(known.take(table(true, std::slice::from_ref(&mine)), start), TableUpdate::Changed);
        assert_eq!(known.take(led(News::Unchanged), start), TableUpdate::Same);
        assert_eq!(judge(&known, &[], Some(&mine), (start, 999)), "alice");
        assert_eq!(judge(&known, &[], Some(&mine), (start, 1_000)), "BadToken");
        assert_eq!(judge(&known, &[], Some(&token(2)), (start, 0)), "UnknownToken");
        let last = start + KEPT_FOR;
        assert_eq!(judge(&known, &[], Some(&mine), (last - Duration::from_secs(1), 0)), "alice");
        assert_eq!(judge(&known, &[], Some(&mine), (last, 0)), "NoTable");
    }

    #[test]
    fn a_standby_that_is_behind_brings_no_revoked_token_back() {
        let (mut known, start, mine) = (Known::default(), Instant::now(), token(1));
        let stale = |heard: Heard| Heard { is_stale: true, ..heard };
        let with = |sequence| table_as_of(true, std::slice::from_ref(&mine), sequence);
        let without = |sequence| table_as_of(true, &[], sequence);
        known.take(without(7), start);
        let later = start + Duration::from_secs(1);
        assert_eq!(known.take(stale(with(6)), later), TableUpdate::Ignored);
        assert_eq!(judge(&known, &[], Some(&mine), (later, 0)), "UnknownToken");
        assert!(!known.is_confirmed_since(later), "nothing is known about the token at this time");

        assert_eq!(known.take(stale(with(8)), later), TableUpdate::Changed, "a standby that knows more is believed");
        assert_eq!(known.take(stale(without(9)), later), TableUpdate::Changed);
        // After a restore the leader reads another stream.
        assert_eq!(known.take(with(1), later), TableUpdate::Changed);
    }

    #[test]
    fn a_client_without_a_token_gets_the_bindings_of_its_source_and_a_token_never_does() {
        let (mut known, start) = (Known::default(), Instant::now());
        let own = ["operator from uid:self"];
        assert_eq!(judge(&known, &own, None, (start, 0)), "anonymous@uid:7?");
        assert_eq!(judge(&known, &["viewer from uid:8"], None, (start, 0)), "NoTable");
        known.take(table(true, &[]), start);
        assert_eq!(judge(&known, &own, None, (start, 0)), "anonymous@uid:7");
        assert_eq!(judge(&known, &["viewer from uid:8"], None, (start, 0)), "NoToken");
        assert_eq!(judge(&known, &own, Some(&token(1)), (start, 0)), "UnknownToken");
    }

    #[test]
    fn a_binding_that_the_schedulers_lack_is_reported_if_it_allows_changes() {
        let own = local(&["viewer from any", "deployer@shop from any", "operator from uid:self"]);
        let known = vec!["operator from uid:self".parse().expect("a binding")];
        let mut table =
            AccessTable { version: String::new(), enforced: true, tokens: Vec::new(), anonymous: known, as_of: None };
        let unknown: Vec<String> = own.unknown_to(&table).iter().map(ToString::to_string).collect();
        assert_eq!(unknown, ["deployer@shop from any"]);
        table.enforced = false;
        assert_eq!(own.unknown_to(&table), []);
    }

    #[test]
    fn an_open_cluster_lets_every_client_without_a_token_in() {
        let start = Instant::now();
        for news in [table(false, &[]), led(News::BeforeAccess)] {
            let mut known = Known::default();
            known.take(news, start);
            assert_eq!(judge(&known, &["viewer from any"], None, (start, 0)), "anonymous");
            assert_eq!(judge(&known, &[], None, (start + KEPT_FOR, 0)), "NoTable");
        }
        let mut old = Known::default();
        old.take(led(News::BeforeAccess), start);
        assert_eq!(judge(&old, &[], Some(&token(1)), (start, 0)), "NoTokens");
    }

    #[test]
    fn a_client_is_forgotten_with_its_token_or_with_the_open_cluster() {
        let (mut known, start, mine) = (Known::default(), Instant::now(), token(1));
        let at = |millis| (start, Timestamp::from_millis(millis));
        known.take(table(false, std::slice::from_ref(&mine)), start);
        let Identification::Client(with_token) = known.judge(&local(&[]), Some(&mine), PEER, at(0)) else {
            panic!("known")
        };
        let open = Client::open(Vec::new(), PEER);
        assert!(known.still_knows(&with_token, at(0)) && known.still_knows(&open, at(0)));
        assert!(!known.still_knows(&with_token, at(1_000)), "expired");
        known.take(table(true, &[]), start);
        assert!(!known.still_knows(&with_token, at(0)) && !known.still_knows(&open, at(0)));
    }
}
