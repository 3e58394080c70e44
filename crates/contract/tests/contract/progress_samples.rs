//! One value of every message that detects a rewound store or stream, for the golden files.

use contract::command::{Command, Decision, Outcome, Verb};
use contract::digest::Digest;
use contract::fence::Term;
use contract::order::{Order, OrderMessage, OrderReply};
use contract::progress::Progress;
use contract::record::Cursor;
use contract::report::{Report, ReportHead};

use crate::samples;

pub(crate) fn progress() -> Progress {
    Progress { commits: [(Term(812), 4), (Term(907), 120)].into(), since: Term(700), ..Progress::default() }
}

pub(crate) fn order() -> OrderMessage {
    OrderMessage::Whole(Order { progress: progress(), ..samples::orders().1 })
}

pub(crate) fn reply() -> OrderReply {
    let have = samples::orders().0.fence;
    OrderReply::Foreign { have, stores: Default::default(), progress: progress() }
}

pub(crate) fn report() -> Report {
    let report = samples::reports().0;
    Report { head: ReportHead { progress: progress(), ..report.head }, ..report }
}

pub(crate) fn cursor() -> Cursor {
    Cursor { stored_at: Some(1_794_823_200_123_456_789), ..samples::cursor() }
}

fn verb() -> Verb {
    Verb::RemoveCallback { url: "http://a/".to_owned() }
}

pub(crate) fn command() -> Command {
    Command { digest: Some(Digest::of(&verb())), ..samples::command(verb()) }
}

pub(crate) fn outcome() -> Outcome {
    Outcome { digest: Some(Digest::of(&verb())), ..samples::outcome(Decision::Accepted) }
}
pub(crate) fn outcome_of_a_principal() -> Outcome {
    Outcome { principal: Some("alice".to_owned()), ..outcome() }
}
