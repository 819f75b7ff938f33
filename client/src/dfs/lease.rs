//! Keeps the leases of open writers: one thread per client, only while writers are open.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::client::Inner;

/// How often leases are renewed: three times within the soft limit of 60 s.
const RENEW_INTERVAL: Duration = Duration::from_secs(20);

/// Counts open writers.
#[derive(Debug, Default)]
pub(super) struct Leases {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    writer_count: usize,
    running: bool,
}

/// One open writer.
#[derive(Debug)]
pub(super) struct Lease {
    client: Arc<Inner>,
}

impl Lease {
    /// Counts a writer and makes sure that the thread runs.
    pub(super) fn hold(client: &Arc<Inner>) -> Self {
        let mut state = client.leases.state.lock();
        state.writer_count += 1;
        if !state.running {
            let weak = Arc::downgrade(client);
            let spawned =
                thread::Builder::new().name("lease".to_owned()).spawn(move || renew(&weak));
            state.running = spawned.is_ok();
        }
        Lease { client: Arc::clone(client) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.client.leases.state.lock().writer_count -= 1;
    }
}

/// Runs until an interval passes without a writer, or the client is gone.
fn renew(client: &Weak<Inner>) {
    loop {
        thread::sleep(RENEW_INTERVAL);
        let Some(client) = client.upgrade() else { return };
        {
            let mut state = client.leases.state.lock();
            if state.writer_count == 0 {
                state.running = false;
                return;
            }
        }
        if let Err(error) = client.renew_leases(RENEW_INTERVAL) {
            tracing::warn!(error = %crate::error::chain(&error), "cannot renew leases");
        }
    }
}
