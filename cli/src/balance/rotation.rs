//! Decides which apiserver gets the next connection.
//!
//! The ready ones in turn; the others after them, because a connection that is tried in vain costs less than one that is refused
//! on the word of a look that may be a second old.

/// Looks in a row without any answer after which an apiserver counts as gone: one slow answer on a busy machine is not its end.
const SILENCES: u32 = 3;

/// What a look at an apiserver showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// It is ready.
    Ready,
    /// It answers, and says that it is not ready.
    Unready,
    /// It does not answer.
    Silent,
}

/// How an apiserver is thought to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It takes connections in turn.
    Ready,
    /// It takes none while another is ready; those it has go on.
    Unready,
    /// It does not answer: those it has are cut.
    Gone,
}

#[derive(Debug)]
struct Member {
    standing: Standing,
    silences: u32,
}

/// The apiservers by number, and whose turn it is.
#[derive(Debug)]
pub(super) struct Rotation {
    members: Vec<Member>,
    turn: usize,
}

impl Rotation {
    /// So many apiservers; none was looked at yet.
    pub(super) fn new(count: usize) -> Self {
        let unknown = || Member { standing: Standing::Unready, silences: 0 };
        Self { members: (0..count).map(|_| unknown()).collect(), turn: 0 }
    }

    /// Takes a look at `member` into account; its standing if that changed.
    pub(super) fn observe(&mut self, member: usize, look: Look) -> Option<Standing> {
        let known = &mut self.members[member];
        known.silences = if look == Look::Silent { known.silences.saturating_add(1) } else { 0 };
        let standing = match look {
            Look::Ready => Standing::Ready,
            Look::Unready => Standing::Unready,
            Look::Silent if known.silences >= SILENCES => Standing::Gone,
            Look::Silent if known.standing == Standing::Gone => Standing::Gone,
            Look::Silent => Standing::Unready,
        };
        (std::mem::replace(&mut known.standing, standing) != standing).then_some(standing)
    }

    /// Whom to try for the next connection, one after the other.
    pub(super) fn next(&mut self) -> Vec<usize> {
        let count = self.members.len();
        let from = self.turn;
        self.turn = (self.turn + 1) % count.max(1);
        let mut order: Vec<usize> = (0..count).map(|step| (from + step) % count).collect();
        // A stable sort: among equals the turn decides.
        order.sort_by_key(|member| match self.members[*member].standing {
            Standing::Ready => 0,
            Standing::Unready => 1,
            Standing::Gone => 2,
        });
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_round_those_that_are_ready_and_the_others_come_last() {
        let mut rotation = Rotation::new(3);
        for member in 0..3 {
            assert_eq!(rotation.observe(member, Look::Ready), Some(Standing::Ready));
        }
        let firsts: Vec<usize> = (0..4).map(|_| rotation.next()[0]).collect();
        assert_eq!(firsts, [0, 1, 2, 0]);
        assert_eq!(rotation.observe(1, Look::Unready), Some(Standing::Unready));
        assert_eq!(rotation.next(), [2, 0, 1]);
        assert_eq!(rotation.next(), [2, 0, 1]);
        assert_eq!(rotation.observe(1, Look::Ready), Some(Standing::Ready));
        assert_eq!(rotation.next().len(), 3);
    }

    #[test]
    fn one_silence_stops_new_connections_and_three_end_the_others() {
        let mut rotation = Rotation::new(1);
        rotation.observe(0, Look::Ready);
        let looks = [Look::Silent, Look::Silent, Look::Silent, Look::Silent, Look::Unready, Look::Silent];
        let standings: Vec<Option<Standing>> = looks.iter().map(|look| rotation.observe(0, *look)).collect();
        let unready = Some(Standing::Unready);
        assert_eq!(standings, [unready, None, Some(Standing::Gone), None, unready, None]);
        assert_eq!(rotation.next(), [0], "the only one is tried whatever is thought of it");
    }
}
