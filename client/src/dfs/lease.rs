//! Keeps the leases of open writers: one thread per client, which runs only while writers are open.

use std::sync::{Arc, Weak};
use std::thread;

use flow::lease::RENEW_INTERVAL;
use parking_lot::Mutex;

use super::link::Link;

/// The open writers of a client.
#[derive(Debug)]
pub(super) struct Leases {
    link: Arc<Link>,
    state: Mutex<flow::lease::Leases>,
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
        if state.hold() {
            let weak = Arc::downgrade(self);
            let spawned =
                thread::Builder::new().name("lease".to_owned()).spawn(move || renew(&weak));
            if spawned.is_err() {
                state.cannot_renew();
            }
        }
        Lease { leases: Arc::clone(self) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.state.lock().release();
    }
}

/// Runs until an interval passes without a writer, or the client is gone.
fn renew(leases: &Weak<Leases>) {
    loop {
        thread::sleep(RENEW_INTERVAL);
        let Some(leases) = leases.upgrade() else { return };
        if !leases.state.lock().is_due() {
            return;
        }
        if let Err(error) = leases.link.renew_leases(RENEW_INTERVAL) {
            tracing::warn!(error = %protocol::error::chain(&error), "cannot renew leases");
        }
    }
}
