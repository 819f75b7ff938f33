//! Handles Ctrl-C, SIGTERM and SIGHUP while files are being written: deletes a half-written file, closes a file being appended to at its present length, and
//! ends the process with 130 (143, 129).
//!
//! Whoever creates a temporary file or appends holds a [`Temporary`] for it. After a signal no new one is handed out: a thread that requests one waits for the
//! end. A signal that the process was started to ignore (`nohup`) stays ignored.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use std::{io, process};

use tokio::signal::unix::{Signal, SignalKind, signal};
use transport::rpc::runtime;

use crate::dfs::fs::{Failure, FsPath, Named, Store};
use crate::output::{EXIT_INTERRUPTED, report};

/// Exit code after SIGTERM, as shells give it.
const EXIT_TERMINATED: i32 = 143;
/// Exit code after SIGHUP.
const EXIT_HUNG_UP: i32 = 129;
/// Longest time for deleting: an unreachable cluster must not hold up the user.
const CLEAN_UP_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Registry {
    next: u64,
    unfinished: BTreeMap<u64, Unfinished>,
}

/// What remains to be done on a signal.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Unfinished {
    /// A file that only its writer knows: it is deleted.
    New(FsPath),
    /// A file of others being appended to: its lease is released.
    Appended(FsPath),
}

fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
    let lock = REGISTRY.get_or_init(Mutex::default).lock();
    // A panic elsewhere does not invalidate the list of files to delete.
    lock.unwrap_or_else(PoisonError::into_inner)
}

/// A file that is cleaned up if the user interrupts while this lives.
#[derive(Debug)]
pub(super) struct Temporary {
    number: u64,
}

impl Temporary {
    /// A new file at `place`, which an interrupt deletes.
    pub(super) fn new(place: FsPath) -> Self {
        Temporary::of(Unfinished::New(place))
    }

    /// A file at `place`, which an interrupt closes.
    pub(super) fn appended(place: FsPath) -> Self {
        Temporary::of(Unfinished::Appended(place))
    }

    fn of(unfinished: Unfinished) -> Self {
        let mut registry = registry();
        let number = registry.next;
        registry.next += 1;
        registry.unfinished.insert(number, unfinished);
        Temporary { number }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        registry().unfinished.remove(&self.number);
    }
}

/// From now on, a signal cleans up and ends the process.
///
/// # Errors
/// If the system refuses the handlers.
pub(super) fn watch(store: &Store) -> Result<(), Failure> {
    let _inside = runtime().enter();
    let listen = |kind: SignalKind| match sys::process::ignores(kind.as_raw_value()) {
        true => Ok(None),
        false => signal(kind).map(Some),
    };
    let fail = |error: io::Error| Failure::Text(format!("cannot handle signals: {error}"));
    let mut interrupt = listen(SignalKind::interrupt()).map_err(fail)?;
    let mut terminate = listen(SignalKind::terminate()).map_err(fail)?;
    let mut hangup = listen(SignalKind::hangup()).map_err(fail)?;
    let store = store.clone();
    runtime().spawn(async move {
        let code = tokio::select! {
            () = next(&mut interrupt) => i32::from(EXIT_INTERRUPTED),
            () = next(&mut terminate) => EXIT_TERMINATED,
            () = next(&mut hangup) => EXIT_HUNG_UP,
        };
        let (sender, receiver) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            // Held to the end of the process, so nobody can start a file now.
            let registry = registry();
            for unfinished in registry.unfinished.values() {
                end(&store, unfinished);
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

/// Waits for a signal; forever if it is ignored.
async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

fn end(store: &Store, unfinished: &Unfinished) {
    let ended = match unfinished {
        Unfinished::New(place) => {
            let named = Named { typed: place.to_string(), path: place.clone() };
            store.delete(&named, false).map(drop)
        }
        Unfinished::Appended(place) => {
            let named = Named { typed: place.to_string(), path: place.clone() };
            store.recover_lease(&named)
        }
    };
    if let Err(failure) = ended {
        let (Unfinished::New(place) | Unfinished::Appended(place)) = unfinished;
        report!("hanno: cannot end the writing of {place}: {failure}");
    }
}
