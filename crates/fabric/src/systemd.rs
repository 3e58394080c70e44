//! Tells systemd how the process is: started, alive, stopping (`Type=notify` and `WatchdogSec=` of a unit).
//!
//! A message is a datagram to the socket that systemd names in the environment; where there is none, nothing is done. The
//! watchdog is fed only with answers of the process's main loop ([`Readiness::asked`]): a process whose other tasks go on
//! while its loop hangs is restarted all the same.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::admin::Readiness;
use crate::shutdown::Shutdown;

/// Where to tell it, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The socket; a name that begins with `@` is abstract.
    pub socket: OsString,
    /// How long systemd hears nothing before it restarts the process; none when it does not watch.
    pub watchdog: Option<Duration>,
}

impl Settings {
    /// What systemd put into the environment; none when it did not start us, or wants to hear nothing.
    pub fn from_environment() -> Option<Self> {
        let own = std::process::id().to_string();
        Self::read(|name| std::env::var_os(name), &own)
    }

    fn read(variable: impl Fn(&str) -> Option<OsString>, own: &str) -> Option<Self> {
        let socket = variable("NOTIFY_SOCKET").filter(|socket| !socket.is_empty())?;
        // A watchdog may be meant for the process that started us.
        let ours = variable("WATCHDOG_PID").is_none_or(|pid| pid == own);
        let text = variable("WATCHDOG_USEC").filter(|_| ours);
        let watchdog = text.and_then(|text| text.to_str()?.parse().ok()).filter(|span| *span > 0);
        Some(Self { socket, watchdog: watchdog.map(Duration::from_micros) })
    }
}

/// Tells systemd from now on until shutdown; nothing where systemd did not ask for it.
pub fn start(readiness: &Readiness, shutdown: &Shutdown) {
    if let Some(settings) = Settings::from_environment() {
        crate::tasks::spawn("systemd", tell(settings, readiness.clone(), shutdown.clone()));
    }
}

/// Tells of the start once the process is ready, of every change of that since, of life while the loop answers, and of the stop.
pub async fn tell(settings: Settings, readiness: Readiness, shutdown: Shutdown) {
    let socket = match connect(&settings.socket) {
        Ok(socket) => socket,
        Err(error) => return tracing::warn!(socket = ?settings.socket, %error, "systemd cannot be told how we are"),
    };
    let mouth = Mouth(socket);
    let say = |words: &str| mouth.say(words);
    tokio::select! {
        () = follow(&readiness, &say) => {}
        () = feed(settings.watchdog, &readiness, &say) => {}
        () = shutdown.wait() => {}
    }
}

/// Says goodbye when it is dropped: at shutdown the process may end before this task is asked again.
struct Mouth(UnixDatagram);

impl Mouth {
    fn say(&self, words: &str) {
        // Also a full socket: the next word says more than this one.
        if let Err(error) = self.0.send(words.as_bytes()) {
            tracing::debug!(%error, words, "systemd does not hear us");
        }
    }
}

impl Drop for Mouth {
    fn drop(&mut self) {
        self.say("STOPPING=1\nSTATUS=stopping");
    }
}

/// Tells of every change of readiness; the first time it is there, the process has started.
async fn follow(readiness: &Readiness, say: &impl Fn(&str)) {
    let mut state = readiness.subscribe();
    let mut started = false;
    loop {
        let now = state.borrow_and_update().clone();
        started |= now.is_ok();
        say(&words(&now, started));
        // Ends only with the readiness itself, which the caller holds.
        if state.changed().await.is_err() {
            return;
        }
    }
}

/// Tells of life whenever the main loop has answered; for ever, and never where nobody watches.
async fn feed(watchdog: Option<Duration>, readiness: &Readiness, say: &impl Fn(&str)) {
    let Some(span) = watchdog else { return std::future::pending().await };
    // Three chances to be heard in time.
    let mut beats = interval((span / 3).max(Duration::from_millis(1)));
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beats.tick().await;
        readiness.answered().await;
        say("WATCHDOG=1");
    }
}

/// Started is said again with every change: it means nothing the second time, and the first may have been lost.
fn words(state: &Result<(), String>, started: bool) -> String {
    let status = match state {
        Ok(()) => "ready".to_owned(),
        Err(reason) => format!("not ready: {}", reason.replace('\n', " ")),
    };
    match started {
        true => format!("READY=1\nSTATUS={status}"),
        false => format!("STATUS={status}"),
    }
}

fn connect(name: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    match name.as_bytes().strip_prefix(b"@") {
        Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        None => socket.connect(name)?,
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads until `wanted` is said; what was said before it.
    async fn until(socket: &tokio::net::UnixDatagram, wanted: &str) -> Vec<String> {
        let mut heard = Vec::new();
        let listening = async {
            loop {
                let mut buffer = [0; 1024];
                let length = socket.recv(&mut buffer).await.unwrap();
                let words = String::from_utf8_lossy(&buffer[..length]).into_owned();
                if words == wanted {
                    return;
                }
                heard.push(words);
            }
        };
        tokio::time::timeout(Duration::from_secs(20), listening).await.unwrap_or_else(|_| panic!("no {wanted:?}"));
        heard
    }

    #[tokio::test]
    async fn a_life_is_told_from_start_to_stop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let systemd = tokio::net::UnixDatagram::bind(&path).unwrap();
        let settings = Settings { socket: path.into_os_string(), watchdog: Some(Duration::from_millis(30)) };
        let (readiness, shutdown) = (Readiness::new(), Shutdown::new());
        let telling = crate::tasks::spawn("tell", tell(settings, readiness.clone(), shutdown.clone()));
        until(&systemd, "STATUS=not ready: starting").await;
        readiness.set(Ok(()));
        let heard = until(&systemd, "READY=1\nSTATUS=ready").await;
        assert_eq!(heard, Vec::<String>::new(), "nobody's loop answers, so nothing is said of life");

        // The loop of a process: it answers whenever it is asked.
        let looping = readiness.clone();
        let lives = crate::tasks::spawn("loop", async move {
            loop {
                looping.asked().await;
            }
        });
        until(&systemd, "WATCHDOG=1").await;
        until(&systemd, "WATCHDOG=1").await;
        lives.abort();
        assert!(lives.await.unwrap_err().is_cancelled());
        readiness.set(Err("no bus\nat all".to_owned()));
        until(&systemd, "READY=1\nSTATUS=not ready: no bus at all").await;
        shutdown.trigger();
        until(&systemd, "STOPPING=1\nSTATUS=stopping").await;
        telling.await.unwrap();
    }

    #[test]
    fn what_systemd_says_in_the_environment_is_read() {
        let read = |pairs: &[(&str, &str)]| {
            let find = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
            Settings::read(find, "7")
        };
        let settings = |watchdog| Some(Settings { socket: "/s".into(), watchdog });
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("NOTIFY_SOCKET", "")]), None);
        assert_eq!(read(&[("NOTIFY_SOCKET", "/s"), ("WATCHDOG_USEC", "0")]), settings(None));
        let watched = [("NOTIFY_SOCKET", "/s"), ("WATCHDOG_USEC", "3000000")];
        assert_eq!(read(&watched), settings(Some(Duration::from_secs(3))));
        let with = |pid| [watched[0], watched[1], ("WATCHDOG_PID", pid)];
        assert_eq!(read(&with("7")), settings(Some(Duration::from_secs(3))));
        assert_eq!(read(&with("8")), settings(None), "it is meant for somebody else");
    }

    #[test]
    fn an_abstract_socket_is_reached_too() {
        let name = format!("deployd-test-{}", std::process::id());
        let systemd = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        connect(OsStr::new(&format!("@{name}"))).unwrap().send(b"READY=1").unwrap();
        let mut buffer = [0; 64];
        assert_eq!(systemd.recv(&mut buffer).unwrap(), 7);
    }
}
