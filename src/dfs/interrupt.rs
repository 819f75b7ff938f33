//! Ctrl-C and SIGTERM while files are being copied: what is half-written is deleted, then the process ends with 130 (143).
//!
//! Whoever makes a temporary file holds a [`Temporary`] for it. After a signal no new one is handed out: a thread that asks
//! for one waits for the end.

use std::collections::BTreeMap;
use std::process;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use client::rpc::runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::path::Named;
use super::place::Place;
use super::store::Store;
use crate::output::EXIT_INTERRUPTED;

/// Exit code after SIGTERM, as shells give it.
const EXIT_TERMINATED: i32 = 143;
/// Longest time that deleting may take: a cluster that is away must not hold the user.
const CLEAN_UP_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Registry {
    next: u64,
    places: BTreeMap<u64, Place>,
}

fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
    let lock = REGISTRY.get_or_init(Mutex::default).lock();
    // A panic elsewhere does not make the list of files to delete wrong.
    lock.unwrap_or_else(PoisonError::into_inner)
}

/// A file that is deleted if the user interrupts while this lives.
#[derive(Debug)]
pub(super) struct Temporary {
    number: u64,
}

impl Temporary {
    /// The file at `place`.
    pub(super) fn new(place: Place) -> Self {
        let mut registry = registry();
        let number = registry.next;
        registry.next += 1;
        registry.places.insert(number, place);
        Temporary { number }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        registry().places.remove(&self.number);
    }
}

/// From here on a signal cleans up and ends the process.
///
/// # Errors
/// If the system refuses the handlers.
pub(super) fn watch(store: &Store) -> std::io::Result<()> {
    let _inside = runtime().enter();
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let store = store.clone();
    runtime().spawn(async move {
        let code = tokio::select! {
            _ = interrupt.recv() => i32::from(EXIT_INTERRUPTED),
            _ = terminate.recv() => EXIT_TERMINATED,
        };
        let (sender, receiver) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            // Held to the end of the process, so that nobody begins a file now.
            let registry = registry();
            for place in registry.places.values() {
                delete(&store, place);
            }
            // The waiting side may have given up.
            let _ = sender.send(());
            std::thread::sleep(CLEAN_UP_MAX);
        });
        // Either way the process ends now.
        let _ = tokio::time::timeout(CLEAN_UP_MAX, receiver).await;
        process::exit(code);
    });
    Ok(())
}

fn delete(store: &Store, place: &Place) {
    let named = Named { typed: place.to_string(), path: place.clone() };
    if let Err(failure) = store.delete(&named, false) {
        eprintln!("hanno: cannot delete {place}: {failure}");
    }
}
