//! A proxy between an agent and the Docker engine, which kills the agent at a chosen request.
//!
//! It listens on a Unix socket, so the agent needs no code for it, and the moment is exact: before the engine gets the request,
//! before the agent gets the answer, or at the next request after the answer. It also records which containers the agent changed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use fabric::tasks::{Scoped, spawn_scoped};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineCall {
    Create,
    Start,
    Stop,
    Remove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KillMoment {
    /// The engine never gets the request.
    Requested,
    /// The engine performs the request; the agent never gets the answer.
    Done,
    /// The agent gets the answer; the engine never gets its next request.
    Answered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KillPoint {
    pub(crate) step: EngineCall,
    pub(crate) moment: KillMoment,
}

impl KillPoint {
    pub(crate) fn all() -> Vec<Self> {
        let moments = [KillMoment::Requested, KillMoment::Done, KillMoment::Answered];
        let of = |step| moments.map(|moment| Self { step, moment });
        [EngineCall::Create, EngineCall::Start, EngineCall::Stop, EngineCall::Remove].into_iter().flat_map(of).collect()
    }
}

#[derive(Debug)]
pub(crate) struct DockerProxy {
    state: Arc<Mutex<State>>,
    _task: Scoped,
}

#[derive(Debug, Default)]
struct State {
    agent: Option<u32>,
    armed: Option<KillPoint>,
    /// The answer was delivered; the next request kills the agent.
    answered: bool,
    killed: Option<Instant>,
    changed: Vec<String>,
}

impl DockerProxy {
    pub(crate) fn open(socket: &Path, engine: PathBuf) -> io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        let state = Arc::new(Mutex::new(State::default()));
        let task = spawn_scoped("gate", accept(listener, engine, Arc::clone(&state)));
        Ok(Self { state, _task: task })
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut State) -> T) -> T {
        use_it(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn watch(&self, agent: u32) {
        self.with(|state| state.agent = Some(agent));
    }

    pub(crate) fn arm(&self, point: KillPoint) {
        self.with(|state| (state.armed, state.answered, state.killed) = (Some(point), false, None));
    }

    pub(crate) fn killed(&self) -> Option<Instant> {
        self.with(|state| state.killed)
    }

    /// Ids and names of containers that the agent changed.
    pub(crate) fn changed(&self) -> Vec<String> {
        self.with(|state| state.changed.clone())
    }
}

impl State {
    /// Whether the agent dies before the engine gets the request.
    fn asked(&mut self, step: Option<EngineCall>) -> bool {
        let at = |point: &KillPoint| point.moment == KillMoment::Requested && Some(point.step) == step;
        let dies = self.answered || self.armed.as_ref().is_some_and(at);
        dies && self.kill()
    }

    /// Whether the agent dies before it gets the answer.
    fn done(&mut self, step: Option<EngineCall>, is_well: bool) -> bool {
        let Some(point) = self.armed.filter(|point| Some(point.step) == step && is_well) else { return false };
        match point.moment {
            KillMoment::Requested => false,
            KillMoment::Done => self.kill(),
            KillMoment::Answered => {
                self.answered = true;
                false
            }
        }
    }

    fn kill(&mut self) -> bool {
        let pid = self.agent.take().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let dead = pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok());
        (self.armed, self.answered, self.killed) = (None, false, Some(Instant::now()));
        dead
    }
}

async fn accept(listener: UnixListener, engine: PathBuf, state: Arc<Mutex<State>>) {
    // One agent connects, so there are few; finished tasks are removed with the next connection.
    let mut connections = JoinSet::new();
    loop {
        let Ok((near, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        let (engine, state) = (engine.clone(), Arc::clone(&state));
        connections.spawn(async move {
            let pass = service_fn(|request| pass(request, engine.as_path(), &state));
            // A killed agent breaks its connections.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(near), pass).await;
        });
    }
}

/// Forwards one request and its answer, unless the agent dies.
async fn pass(
    mut request: Request<Incoming>,
    engine: &Path,
    state: &Mutex<State>,
) -> Result<Response<Incoming>, io::Error> {
    let (step, changed) = classify(request.method(), request.uri().path());
    let with =
        |use_it: &mut dyn FnMut(&mut State) -> bool| use_it(&mut state.lock().unwrap_or_else(PoisonError::into_inner));
    let dies = with(&mut |state| {
        state.changed.extend(changed.clone());
        state.asked(step)
    });
    if dies {
        return Err(io::Error::other("the agent is dead"));
    }
    let far = UnixStream::connect(engine).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(far)).await.map_err(io::Error::other)?;
    fabric::tasks::spawn("gate to engine", async move { drop(connection.await) });
    // Each request has its own connection to the engine.
    request.headers_mut().remove(hyper::header::CONNECTION);
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    let is_well = response.status().is_success();
    if with(&mut |state| state.done(step, is_well)) {
        return Err(io::Error::other("the agent is dead"));
    }
    Ok(response)
}

/// The kind of a request and the container it changes.
fn classify(method: &Method, path: &str) -> (Option<EngineCall>, Option<String>) {
    let mut words = path.split('/').filter(|word| !word.is_empty()).peekable();
    words.next_if(|word| word.starts_with('v') && word[1..].starts_with(|c: char| c.is_ascii_digit()));
    let words: Vec<&str> = words.collect();
    let changed = |id: &str| Some(id.to_owned());
    match (method.as_str(), words.as_slice()) {
        ("POST", ["containers", "create"]) => (Some(EngineCall::Create), None),
        ("POST", ["containers", id, "start"]) => (Some(EngineCall::Start), changed(id)),
        ("POST", ["containers", id, "stop"]) => (Some(EngineCall::Stop), changed(id)),
        ("DELETE", ["containers", id]) => (Some(EngineCall::Remove), changed(id)),
        ("POST" | "PUT" | "DELETE", ["containers", id, ..]) => (None, changed(id)),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_recognised_with_and_without_a_version() {
        let of = |method: &str, path: &str| classify(&method.parse().unwrap(), path);
        let id = || Some("abc".to_owned());
        assert_eq!(of("POST", "/v1.41/containers/create"), (Some(EngineCall::Create), None));
        assert_eq!(of("POST", "/containers/abc/start"), (Some(EngineCall::Start), id()));
        assert_eq!(of("POST", "/v1.41/containers/abc/stop"), (Some(EngineCall::Stop), id()));
        assert_eq!(of("DELETE", "/v1.41/containers/abc"), (Some(EngineCall::Remove), id()));
        assert_eq!(of("POST", "/v1.41/containers/abc/update"), (None, id()));
        assert_eq!(of("GET", "/v1.41/containers/abc/json"), (None, None));
        assert_eq!(of("POST", "/v1.41/networks/create"), (None, None));
        assert_eq!(of("GET", "/_ping"), (None, None));
    }

    #[test]
    fn every_engine_call_has_three_kill_moments() {
        assert_eq!(KillPoint::all().len(), 12);
    }

    /// Records when the proxy would kill the agent; it watches none.
    fn history(point: KillPoint, requests: &[(Option<EngineCall>, bool)]) -> Vec<&'static str> {
        let mut state = State { armed: Some(point), ..State::default() };
        let mut seen = Vec::new();
        for (step, is_well) in requests {
            state.asked(*step);
            if state.killed.is_some() {
                seen.push("unsent");
                break;
            }
            state.done(*step, *is_well);
            if state.killed.is_some() {
                seen.push("unanswered");
                break;
            }
            seen.push("answered");
        }
        seen
    }

    #[test]
    fn the_agent_dies_exactly_at_the_kill_point() {
        let requests = [(None, true), (Some(EngineCall::Create), true), (Some(EngineCall::Start), true), (None, true)];
        let at = |step, moment| history(KillPoint { step, moment }, &requests);
        assert_eq!(at(EngineCall::Create, KillMoment::Requested), ["answered", "unsent"]);
        assert_eq!(at(EngineCall::Create, KillMoment::Done), ["answered", "unanswered"]);
        assert_eq!(at(EngineCall::Create, KillMoment::Answered), ["answered", "answered", "unsent"]);
        assert_eq!(at(EngineCall::Start, KillMoment::Done), ["answered", "answered", "unanswered"]);
        assert_eq!(at(EngineCall::Remove, KillMoment::Requested), ["answered"; 4]);
    }

    #[test]
    fn a_refused_request_is_not_done() {
        let requests = [(Some(EngineCall::Create), false), (Some(EngineCall::Create), true)];
        let point = KillPoint { step: EngineCall::Create, moment: KillMoment::Done };
        assert_eq!(history(point, &requests), ["answered", "unanswered"]);
    }
}
