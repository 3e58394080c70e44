//! Decides the next step of a release that ends everything old before anything new starts (section 2.11).
//!
//! In slots: all main pods of other revisions retire at once, then, when nothing is on its way out any more, every slot
//! without a pod gets one. The second half happens in a pause too: a group must not stay down because somebody paused it.

use super::board::{Board, count, pods};
use super::decision::Action;
use super::facts::Slot;
use crate::rollout::numbers::sum;
use crate::rollout::recreate::{self, OldSet, Step};

pub(super) fn recreate(board: &mut Board<'_>) {
    if board.facts.is_blind {
        // Nothing could come before it is known what else still goes, so nobody goes either.
        return;
    }
    // Twice: pods that were never made leave nothing to wait for.
    step(board);
    step(board);
}

fn step(board: &mut Board<'_>) {
    let old = count(board.running().flat_map(pods).filter(|pod| board.is_old(pod)));
    let new = count(board.running().filter(|slot| board.is_updated(slot)));
    let leaving = sum(board.slots.iter().map(|slot| slot.leaving).chain([board.strays]));
    let wanted = count(board.running());
    match recreate::step(wanted, (new > 0).then_some(new), &[OldSet { spec: old, actual: leaving }], &[]) {
        Step::ScaleOldToZero if !board.release.is_held() => retire(board),
        Step::CreateNew(_) | Step::ScaleNew(_) => fill(board),
        Step::ScaleOldToZero | Step::WaitForOldPods | Step::Nothing => {}
    }
}

fn retire(board: &mut Board<'_>) {
    let slots: Vec<Slot> = board.running().cloned().collect();
    for slot in slots {
        let next_is_old = slot.next.as_ref().map(|next| board.is_old(&next.pod));
        let main_is_old = slot.main.as_ref().is_some_and(|main| board.is_old(main));
        match next_is_old {
            Some(true) => board.perform(Action::Drop(slot.number)),
            // A rolling update was under way before: what it brought is what is wanted.
            Some(false) if main_is_old => board.perform(Action::Promote(slot.number)),
            Some(false) | None => {}
        }
        if main_is_old && next_is_old != Some(false) {
            board.perform(Action::Retire(slot.number));
        }
    }
}

fn fill(board: &mut Board<'_>) {
    let open: Vec<u32> = board.running().filter(|slot| slot.main.is_none()).map(|slot| slot.number).collect();
    open.into_iter().for_each(|number| board.fill(number));
}
