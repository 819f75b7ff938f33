//! One token that ends everything a daemon runs.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::supervisor;

/// Set once, seen by all clones.
#[derive(Clone, Debug)]
pub struct Shutdown {
    sender: Arc<watch::Sender<bool>>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown::new()
    }
}

impl Shutdown {
    /// A token that is not set yet.
    pub fn new() -> Self {
        Shutdown { sender: Arc::new(watch::Sender::new(false)) }
    }

    /// A token that SIGTERM and SIGINT set. The service manager hears of it first: what waits for the token may end the process at once. Must be called on a runtime.
    ///
    /// # Errors
    /// If the system refuses the signal handlers.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Shutdown::new();
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let token = shutdown.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            supervisor::stopping();
            token.begin();
        });
        Ok(shutdown)
    }

    /// Sets it, which ends everything that waits for this token.
    pub fn begin(&self) {
        self.sender.send_replace(true);
    }

    /// True once it is set.
    pub fn has_begun(&self) -> bool {
        *self.sender.borrow()
    }

    /// Returns once it is set.
    pub async fn wait(&self) {
        let mut receiver = self.sender.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = receiver.wait_for(|begun| *begun).await;
    }
}
