//! Keeps the leases of open writers: one thread per client, which runs only while writers are open.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::link::Link;

/// How often leases are renewed: three times within the soft limit of 60 s.
const RENEW_INTERVAL: Duration = Duration::from_secs(20);

/// Counts open writers of a client.
#[derive(Debug)]
pub(super) struct Leases {
    link: Arc<Link>,
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
    leases: Arc<Leases>,
}

impl Leases {
    pub(super) fn new(link: &Arc<Link>) -> Self {
        Leases { link: Arc::clone(link), state: Mutex::default() }
    }

    /// Counts a writer and makes sure that the thread runs.
    pub(super) fn hold(self: &Arc<Self>) -> Lease {
        let mut state = self.state.lock();
        state.writer_count += 1;
        if !state.running {
            let weak = Arc::downgrade(self);
            let spawned =
                thread::Builder::new().name("lease".to_owned()).spawn(move || renew(&weak));
            state.running = spawned.is_ok();
        }
        Lease { leases: Arc::clone(self) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.state.lock().writer_count -= 1;
    }
}

/// Runs until an interval passes without a writer, or the client is gone.
fn renew(leases: &Weak<Leases>) {
    loop {
        thread::sleep(RENEW_INTERVAL);
        let Some(leases) = leases.upgrade() else { return };
        {
            let mut state = leases.state.lock();
            if state.writer_count == 0 {
                state.running = false;
                return;
            }
        }
        if let Err(error) = leases.link.renew_leases(RENEW_INTERVAL) {
            tracing::warn!(error = %crate::error::chain(&error), "cannot renew leases");
        }
    }
}
