//! The client of an answer that does not end by itself: it may lose its access while it reads.

use std::time::Duration;

use fabric::shutdown::Shutdown;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::{Api, Call};
use crate::access::{Access, Client};

/// How often a client is checked: its token may have been revoked.
const RECHECK: Duration = Duration::from_millis(500);
/// A silent connection is dropped by proxies; something now and then keeps it, and finds clients that went away.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub struct Audience {
    pub client: Client,
    access: Access,
    leaving: Shutdown,
    recheck: Interval,
    keep_alive: Interval,
}

/// What is due before there is something to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// The client lost its access, or this apiserver is shutting down.
    End,
    KeepAlive,
}

impl Audience {
    pub fn of(api: &Api, call: &Call) -> Self {
        let (client, access, leaving) = (call.client.clone(), api.access.clone(), api.streams.leaving.clone());
        let mut keep_alive = interval(KEEP_ALIVE);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { client, access, leaving, recheck: interval(RECHECK), keep_alive }
    }

    /// Whether the client still has its access.
    pub fn may_still_follow(&self) -> bool {
        self.access.still_knows(&self.client)
    }

    /// Returns when something is due. Cancel-safe.
    pub async fn due(&mut self) -> Due {
        loop {
            tokio::select! {
                () = self.leaving.wait() => return Due::End,
                _ = self.recheck.tick() => if !self.may_still_follow() {
                    return Due::End;
                },
                _ = self.keep_alive.tick() => return Due::KeepAlive,
            }
        }
    }
}
