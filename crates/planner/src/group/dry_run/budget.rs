//! Bounds what one plan may cost: anybody may request a plan, so its cost must not depend on what is requested.

/// The work of one plan, in instances looked at: every step looks at all of them.
///
/// A serial upgrade of 5,000 instances takes 25 million. A Beta rollout of 1,000 instances in 64 units, one at a time, takes
/// 8 million (8 x 1,064 x 937 steps), which is a quarter of a second of one core. The largest plan takes about two seconds.
const MOST_WORK: usize = 40_000_000;

/// What a plan may still cost.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    pub(in crate::group) left: usize,
    pub(in crate::group) is_expired: &'a dyn Fn() -> bool,
}

/// Why a plan was not computed to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It takes too many steps.
    Costly,
    /// The client does not wait for it any longer.
    Expired,
}

impl<'a> Budget<'a> {
    /// The budget of one plan; `is_expired` says that the client does not wait any longer.
    pub fn new(is_expired: &'a dyn Fn() -> bool) -> Self {
        Self { left: MOST_WORK, is_expired }
    }

    /// Spends some of it, or says why the plan ends here.
    pub(super) fn spend(&mut self, work: usize) -> Result<(), Stopped> {
        self.left = self.left.checked_sub(work).ok_or(Stopped::Costly)?;
        if (self.is_expired)() { Err(Stopped::Expired) } else { Ok(()) }
    }
}
