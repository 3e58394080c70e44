//! Spawns named tasks and logs their panics.

use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;
use tokio::task::JoinHandle;

/// Spawns a task. A panic is logged with the task's name and propagated to the join handle.
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    #[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
    tokio::spawn(async move {
        match AssertUnwindSafe(future).catch_unwind().await {
            Ok(output) => output,
            Err(panic) => {
                tracing::error!(task = name, reason = panic_text(&*panic), "task panicked");
                resume_unwind(panic)
            }
        }
    })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown")
}

/// A task that is aborted when its handle is dropped.
#[derive(Debug)]
pub struct Scoped {
    handle: JoinHandle<()>,
}

impl Scoped {
    /// Whether the task has returned.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

impl Drop for Scoped {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// Like [`spawn`], for a task that must not outlive its handle.
pub fn spawn_scoped<F>(name: &'static str, future: F) -> Scoped
where
    F: Future<Output = ()> + Send + 'static,
{
    Scoped { handle: spawn(name, future) }
}
