//! Calls to Docker with a deadline; each updates the engine's health.

use std::sync::PoisonError;
use std::time::Duration;

use super::{API_DEFAULT_VERSION, Docker, Engine, EngineError};
use crate::circuit::Sign;
use crate::fault::Error;

/// The library's own timeout, longer than all of ours.
const LIBRARY_LIMIT_SECONDS: u64 = 600;

impl Engine {
    pub(super) fn docker(&self) -> Result<Docker, Error> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(docker) = &*client {
            return Ok(docker.clone());
        }
        let path = self.socket.display().to_string();
        let made = Docker::connect_with_unix(&path, LIBRARY_LIMIT_SECONDS, API_DEFAULT_VERSION);
        let docker = made.map_err(|error| self.judge(&error))?;
        *client = Some(docker.clone());
        Ok(docker)
    }

    pub(super) async fn call<T>(
        &self,
        limit: Duration,
        ask: impl AsyncFnOnce(Docker) -> Result<T, EngineError>,
    ) -> Result<T, Error> {
        match tokio::time::timeout(limit, ask(self.docker()?)).await {
            Ok(Ok(answer)) => {
                self.health.note(Sign::Answered);
                Ok(answer)
            }
            Ok(Err(error)) => Err(self.judge(&error)),
            Err(_) => {
                self.health.note(Sign::TimedOut);
                Err(Error::TimedOut(limit))
            }
        }
    }

    /// Converts the library's error and updates the engine's health.
    pub(super) fn judge(&self, error: &EngineError) -> Error {
        let fault = fault(error);
        match &fault {
            Error::Refused { .. } => self.health.note(Sign::Answered),
            Error::TimedOut(_) => self.health.note(Sign::TimedOut),
            Error::Unconnected(_) => self.health.note(Sign::Unconnected),
            Error::NoImage { .. } | Error::NoAddresses { .. } | Error::Forbidden(_) | Error::Unreadable(_) => {}
        }
        fault
    }
}

/// The library's error as ours.
pub(super) fn fault(error: &EngineError) -> Error {
    match error {
        EngineError::DockerResponseServerError { status_code, message } => {
            Error::Refused { status: *status_code, text: message.trim().to_owned() }
        }
        EngineError::DockerStreamError { error } => Error::Refused { status: 500, text: error.trim().to_owned() },
        EngineError::JsonDataError { .. } | EngineError::JsonSerdeError { .. } => Error::Unreadable(error.to_string()),
        EngineError::RequestTimeoutError => Error::TimedOut(Duration::from_secs(LIBRARY_LIMIT_SECONDS)),
        transport => Error::Unconnected(causes(transport)),
    }
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
