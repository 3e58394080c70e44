//! Notifies systemd: started, alive, stopping (`Type=notify` and `WatchdogSec=` of a unit).
//!
//! The crate `sd-notify` sends the messages; without `NOTIFY_SOCKET` in the environment it does nothing. The watchdog is
//! fed only when the process's main loop answers ([`Readiness::asked`]), so systemd also restarts a process whose loop
//! hangs while its other tasks still run.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};

use crate::admin::Readiness;
use crate::shutdown::Shutdown;

/// Notifies systemd from now on until shutdown, if systemd started this process with a notify socket.
pub fn start(readiness: &Readiness, shutdown: &Shutdown) {
    if std::env::var_os("NOTIFY_SOCKET").is_some_and(|socket| !socket.is_empty()) {
        let watchdog = sd_notify::watchdog_enabled().filter(|timeout| !timeout.is_zero());
        crate::tasks::spawn("systemd", notify(sd_notify::notify, watchdog, readiness.clone(), shutdown.clone()));
    }
}

/// Reports the start once the process is ready, each later change of readiness, each answer of the main loop, and the stop.
async fn notify<S>(send: S, watchdog: Option<Duration>, readiness: Readiness, shutdown: Shutdown)
where
    S: Fn(&[NotifyState<'_>]) -> io::Result<()>,
{
    let systemd = Systemd { send, has_failed: AtomicBool::new(false) };
    tokio::select! {
        () = report_readiness(&systemd, &readiness) => {}
        () = feed_watchdog(&systemd, watchdog, &readiness) => {}
        () = shutdown.wait() => {}
    }
}

/// Reports the stop when it is dropped: at shutdown the process may exit before the task runs again.
struct Systemd<S: Fn(&[NotifyState<'_>]) -> io::Result<()>> {
    send: S,
    has_failed: AtomicBool,
}

impl<S: Fn(&[NotifyState<'_>]) -> io::Result<()>> Systemd<S> {
    /// A lost message is not sent again: the next one says more. Only the first failure is a warning.
    fn send(&self, state: &[NotifyState<'_>]) {
        if let Err(error) = (self.send)(state) {
            if self.has_failed.swap(true, Ordering::Relaxed) {
                tracing::debug!(%error, ?state, "cannot notify systemd");
            } else {
                tracing::warn!(%error, ?state, "cannot notify systemd: check that NOTIFY_SOCKET is the path of a socket");
            }
        }
    }
}

impl<S: Fn(&[NotifyState<'_>]) -> io::Result<()>> Drop for Systemd<S> {
    fn drop(&mut self) {
        self.send(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    }
}

/// Reports every change of readiness. The process counts as started from the first time it is ready; READY=1 is repeated
/// with every change, because the first message may have been lost and systemd ignores repeats.
async fn report_readiness<S>(systemd: &Systemd<S>, readiness: &Readiness)
where
    S: Fn(&[NotifyState<'_>]) -> io::Result<()>,
{
    let mut state = readiness.subscribe();
    let mut started = false;
    loop {
        let now = state.borrow_and_update().clone();
        started |= now.is_ok();
        let status = match now {
            Ok(()) => "ready".to_owned(),
            Err(reason) => format!("not ready: {}", reason.replace('\n', " ")),
        };
        let message = [NotifyState::Ready, NotifyState::Status(&status)];
        systemd.send(if started { &message } else { &message[1..] });
        // Fails only when the readiness is dropped, and the caller holds it.
        if state.changed().await.is_err() {
            return;
        }
    }
}

/// Feeds the watchdog after each answer of the main loop, three times per timeout. Never returns.
async fn feed_watchdog<S>(systemd: &Systemd<S>, watchdog: Option<Duration>, readiness: &Readiness)
where
    S: Fn(&[NotifyState<'_>]) -> io::Result<()>,
{
    let Some(timeout) = watchdog else { return std::future::pending().await };
    let mut ticks = interval((timeout / 3).max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        readiness.answered().await;
        systemd.send(&[NotifyState::Watchdog]);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    /// Receives until `expected`; returns the messages before it.
    async fn until(messages: &mut mpsc::UnboundedReceiver<String>, expected: &str) -> Vec<String> {
        let mut earlier = Vec::new();
        let receiving = async {
            loop {
                let message = messages.recv().await.unwrap();
                if message == expected {
                    return;
                }
                earlier.push(message);
            }
        };
        tokio::time::timeout(Duration::from_secs(20), receiving).await.unwrap_or_else(|_| panic!("no {expected:?}"));
        earlier
    }

    #[tokio::test]
    async fn systemd_hears_of_the_start_each_loop_answer_each_change_and_the_stop() {
        let (sender, mut systemd) = mpsc::unbounded_channel();
        let send = move |state: &[NotifyState<'_>]| {
            let lines: Vec<String> = state.iter().map(ToString::to_string).collect();
            sender.send(lines.join("\n")).map_err(io::Error::other)
        };
        let (readiness, shutdown) = (Readiness::new(), Shutdown::new());
        let watchdog = Some(Duration::from_millis(30));
        let task = crate::tasks::spawn("notify", notify(send, watchdog, readiness.clone(), shutdown.clone()));
        until(&mut systemd, "STATUS=not ready: starting").await;
        readiness.set(Ok(()));
        let earlier = until(&mut systemd, "READY=1\nSTATUS=ready").await;
        assert_eq!(earlier, Vec::<String>::new(), "no loop answers, so nothing feeds the watchdog");

        let answering = readiness.clone();
        let main_loop = crate::tasks::spawn("loop", async move {
            loop {
                answering.asked().await;
            }
        });
        until(&mut systemd, "WATCHDOG=1").await;
        until(&mut systemd, "WATCHDOG=1").await;
        main_loop.abort();
        assert!(main_loop.await.unwrap_err().is_cancelled());
        readiness.set(Err("no bus\nat all".to_owned()));
        until(&mut systemd, "READY=1\nSTATUS=not ready: no bus at all").await;
        shutdown.trigger();
        until(&mut systemd, "STOPPING=1\nSTATUS=stopping").await;
        task.await.unwrap();
    }
}
