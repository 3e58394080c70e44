//! Limits how many requests and bytes one client may send, so that it cannot use up what all share: the stream of commands and
//! the leader's time.
//!
//! A client is the owner of its token, or its address when it has none. Each has two budgets that refill all the time. A budget
//! is kept as the time at which it is full again (GCRA): one instant for each client, and none for a client that was quiet.
//!
//! Example: 50 requests a second and at most 100 at once. A request costs 20 ms, and a client may be 2 s ahead. After 100
//! requests at once the next one may come after 20 ms.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::http::respond::Refused;
use crate::peers::Source;

/// How far a client may be ahead with requests: twice the rate at once.
const AHEAD: Duration = Duration::from_secs(2);
const MINUTE: Duration = Duration::from_secs(60);
/// Addresses with a budget of their own. Further addresses share one, so that the memory is bounded and owners of tokens, whose
/// number is bounded anyway, are not affected.
const MOST_ADDRESSES: usize = 10_000;
/// Pause between two searches for budgets that are full again, while the table is at its limit.
const BETWEEN_CLEANUPS: Duration = Duration::from_secs(1);

/// Whose budget a request uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Payer {
    /// The owner of a token.
    Principal(String),
    /// A client without a token.
    Source(Source),
    /// A request to join, or one without a valid token and binding. It must not use up the budget of other clients at its address.
    Stranger(Source),
    /// All addresses beyond the limit of the table.
    OtherSources,
}

/// The limits of an apiserver; clones share them.
#[derive(Debug, Clone)]
pub struct Rates {
    /// Each request costs the same; none when requests are not limited.
    requests: Option<(Duration, Budgets)>,
    /// Bytes in a minute; none when bytes are not limited.
    bytes: Option<(u64, Budgets)>,
}

impl Rates {
    /// 0 switches a limit off.
    pub fn new(requests_per_second: u32, bytes_per_minute: u64) -> Self {
        let requests =
            (requests_per_second > 0).then(|| (Duration::from_secs(1) / requests_per_second, Budgets::new(AHEAD)));
        let bytes = (bytes_per_minute > 0).then(|| (bytes_per_minute, Budgets::new(MINUTE)));
        Self { requests, bytes }
    }

    /// Counts a request, or refuses it.
    pub fn request(&self, payer: &Payer) -> Result<(), Refused> {
        let Some((cost, budgets)) = &self.requests else { return Ok(()) };
        budgets.spend(payer, *cost, *cost).map_err(|pause| refused("requests", "--requests-per-second", pause))
    }

    /// Refuses a client that has used up its bytes. The size of a body is known only after it was read, so the last one may exceed
    /// what is left.
    pub fn body(&self, payer: &Payer) -> Result<(), Refused> {
        let Some((_, budgets)) = &self.bytes else { return Ok(()) };
        let spent = budgets.spend(payer, Duration::ZERO, Duration::ZERO);
        spent.map_err(|pause| refused("bytes", "--bytes-per-minute", pause))
    }

    /// Counts a body that was read.
    pub fn count_bytes(&self, payer: &Payer, size: usize) {
        let Some((per_minute, budgets)) = &self.bytes else { return };
        let nanos = MINUTE.as_nanos() * size as u128 / u128::from(*per_minute);
        budgets.charge(payer, Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)));
    }
}

fn refused(what: &str, flag: &str, pause: Duration) -> Refused {
    let seconds = u32::try_from(pause.as_secs().saturating_add(1)).unwrap_or(u32::MAX);
    let message = format!(
        "too many {what} of this client; wait {seconds} s, send fewer, or ask an admin for a higher {flag} of the apiservers"
    );
    Refused::too_often(message, seconds)
}

/// One budget for each client.
#[derive(Debug, Clone)]
struct Budgets {
    /// The size of a budget.
    ahead: Duration,
    buckets: Arc<Mutex<Buckets>>,
}

#[derive(Debug, Default)]
struct Buckets {
    /// When a budget is full again.
    full_at: HashMap<Payer, Instant>,
    cleaned_at: Option<Instant>,
}

impl Budgets {
    fn new(ahead: Duration) -> Self {
        Self { ahead, buckets: Arc::default() }
    }

    /// Takes `cost` if `needed` is left, or returns the time until it will be.
    fn spend(&self, payer: &Payer, needed: Duration, cost: Duration) -> Result<(), Duration> {
        self.with(|buckets, now| {
            let payer = buckets.room_for(payer, now);
            let used = buckets.full_at.get(&payer).map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
            match (used + needed).checked_sub(self.ahead) {
                Some(pause) if !pause.is_zero() => Err(pause),
                _ => {
                    buckets.charge(payer, cost, now);
                    Ok(())
                }
            }
        })
    }

    fn charge(&self, payer: &Payer, cost: Duration) {
        self.with(|buckets, now| {
            let payer = buckets.room_for(payer, now);
            buckets.charge(payer, cost, now);
        });
    }

    /// No code panics while it holds the lock, so a poisoned value is still consistent.
    fn with<T>(&self, act: impl FnOnce(&mut Buckets, Instant) -> T) -> T {
        act(&mut self.buckets.lock().unwrap_or_else(PoisonError::into_inner), Instant::now())
    }
}

impl Buckets {
    /// The entry that the client uses.
    fn room_for(&mut self, payer: &Payer, now: Instant) -> Payer {
        let is_known = matches!(payer, Payer::Principal(_)) || self.full_at.contains_key(payer);
        if is_known || self.full_at.len() < MOST_ADDRESSES {
            return payer.clone();
        }
        if self.cleaned_at.is_none_or(|at| now.saturating_duration_since(at) >= BETWEEN_CLEANUPS) {
            self.full_at.retain(|_, full_at| *full_at > now);
            self.cleaned_at = Some(now);
        }
        if self.full_at.len() < MOST_ADDRESSES { payer.clone() } else { Payer::OtherSources }
    }

    fn charge(&mut self, payer: Payer, cost: Duration, now: Instant) {
        if cost.is_zero() {
            return;
        }
        let full_at = self.full_at.entry(payer).or_insert(now);
        *full_at = (*full_at).max(now) + cost;
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use axum::http::StatusCode;
    use tokio::time::advance;

    use super::*;
    use crate::peers;

    fn address(number: u32) -> Payer {
        Payer::Source(peers::of(IpAddr::from(number.to_be_bytes())))
    }

    fn owner(name: &str) -> Payer {
        Payer::Principal(name.to_owned())
    }

    /// How many requests pass at once.
    fn burst(rates: &Rates, payer: &Payer) -> usize {
        (0..1_000).take_while(|_| rates.request(payer).is_ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_may_send_twice_its_rate_at_once_and_then_its_rate() {
        let rates = Rates::new(50, 0);
        assert_eq!((burst(&rates, &owner("alice")), burst(&rates, &address(1))), (100, 100));
        let refused = rates.request(&owner("alice")).unwrap_err();
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(refused.message.contains("--requests-per-second"), "{}", refused.message);
        advance(Duration::from_secs(1)).await;
        assert_eq!(burst(&rates, &owner("alice")), 50);
        advance(MINUTE).await;
        assert_eq!(burst(&rates, &owner("alice")), 100, "a quiet minute saves no more");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_are_counted_after_they_were_read() {
        let rates = Rates::new(0, 6_000);
        let alice = owner("alice");
        assert!(rates.body(&alice).is_ok());
        rates.count_bytes(&alice, 9_000);
        let refused = rates.body(&alice).unwrap_err();
        assert!(refused.message.contains("wait 31 s"), "{}", refused.message);
        assert!(rates.body(&owner("bob")).is_ok());
        advance(Duration::from_secs(31)).await;
        assert!(rates.body(&alice).is_ok());
        assert_eq!(burst(&rates, &alice), 1_000, "requests are not limited");
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_is_bounded_and_owners_of_tokens_are_not_affected() {
        let rates = Rates::new(1, 0);
        let most = u32::try_from(MOST_ADDRESSES).expect("a small number");
        for number in 0..most {
            assert!(rates.request(&address(number)).is_ok());
        }
        assert_eq!((burst(&rates, &address(most)), burst(&rates, &address(most + 1))), (2, 0), "they share a budget");
        assert_eq!((burst(&rates, &owner("alice")), burst(&rates, &address(0))), (2, 1));
        advance(Duration::from_secs(5)).await;
        assert_eq!(burst(&rates, &address(most)), 2);
        let (_, budgets) = rates.requests.as_ref().expect("a limit");
        assert!(budgets.with(|buckets, _| buckets.full_at.len()) < 10);
    }
}
