//! Handles Ctrl-C, SIGTERM and SIGHUP while files are being written: deletes a half-written file, closes a file being appended to at its present length, and
//! ends the process with 130 (143, 129).
//!
//! Whoever creates a temporary file or appends holds a [`Temporary`] for it. After a signal no new one is handed out: a thread that requests one waits for the
//! end. A signal that the process was started to ignore (`nohup`) stays ignored.
//!
//! A file of the cluster is ended by its inode, under this process's lease: what others have put at its path meanwhile is not touched.

use std::collections::BTreeMap;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, process};

use protocol::InodeId;
use tokio::signal::unix::{Signal, SignalKind, signal};
use transport::rpc::runtime;

use crate::dfs::fs::{Failure, FsPath, Named, Store, Writer};
use crate::output::{EXIT_INTERRUPTED, report};

/// Exit code after SIGTERM, as shells give it.
const EXIT_TERMINATED: i32 = 143;
/// Exit code after SIGHUP.
const EXIT_HUNG_UP: i32 = 129;
/// Longest time for deleting: an unreachable cluster must not hold up the user.
const CLEAN_UP_MAX: Duration = Duration::from_secs(5);
/// Of that, the time for files that are being opened: an answer of the NameNode takes milliseconds.
const OPENING_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Registry {
    next: u64,
    unfinished: BTreeMap<u64, Unfinished>,
    /// A signal came: nothing new begins.
    is_ending: bool,
}

/// What remains to be done on a signal.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Unfinished {
    /// A file of this machine under a name that only its writer knows: it is deleted.
    Machine(FsPath),
    /// A file of the cluster that is being opened.
    Opening { place: FsPath, keep: bool },
    /// An open file of the cluster: it is deleted, or closed if it is to be kept.
    Open { place: FsPath, file: InodeId, keep: bool },
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);
/// A file is open now, or finished.
static CHANGED: Condvar = Condvar::new();

fn registry() -> MutexGuard<'static, Registry> {
    // A panic elsewhere does not invalidate the list of files to end.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is cleaned up if the user interrupts while this lives.
#[derive(Debug)]
pub(super) struct Temporary {
    number: u64,
}

impl Temporary {
    /// A new file at `place`, which an interrupt deletes.
    pub(super) fn new(place: FsPath) -> Self {
        Temporary::of(match place {
            FsPath::Machine(_) => Unfinished::Machine(place),
            FsPath::Cluster(_) => Unfinished::Opening { place, keep: false },
        })
    }

    /// A file at `place`, which an interrupt closes.
    pub(super) fn appended(place: FsPath) -> Self {
        Temporary::of(Unfinished::Opening { place, keep: true })
    }

    fn of(unfinished: Unfinished) -> Self {
        let mut registry = registry();
        while registry.is_ending {
            registry = CHANGED.wait(registry).unwrap_or_else(PoisonError::into_inner);
        }
        let number = registry.next;
        registry.next += 1;
        registry.unfinished.insert(number, unfinished);
        Temporary { number }
    }

    /// Its file is open; without this, an interrupt leaves it to the end of its lease.
    pub(super) fn opened(&self, writer: &Writer) {
        let Some(file) = writer.inode() else { return };
        if let Some(unfinished) = registry().unfinished.get_mut(&self.number)
            && let Unfinished::Opening { place, keep } = unfinished
        {
            *unfinished = Unfinished::Open { place: place.clone(), file, keep: *keep };
        }
        CHANGED.notify_all();
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        registry().unfinished.remove(&self.number);
        CHANGED.notify_all();
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
            let mut registry = registry();
            registry.is_ending = true;
            let is_opening = |registry: &mut Registry| {
                registry.unfinished.values().any(|it| matches!(it, Unfinished::Opening { .. }))
            };
            let waited = CHANGED.wait_timeout_while(registry, OPENING_MAX, is_opening);
            // Held to the end of the process: nobody completes what is ended here.
            let (registry, _) = waited.unwrap_or_else(PoisonError::into_inner);
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
    let named = |place: &FsPath| Named { typed: place.to_string(), path: place.clone() };
    let (place, ended) = match unfinished {
        Unfinished::Machine(place) => (place, store.delete(&named(place), false).map(drop)),
        Unfinished::Open { place, file, keep } => {
            (place, store.abandon(&named(place), *file, *keep))
        }
        Unfinished::Opening { place, .. } => {
            (place, Err(Failure::Text("it is still being opened".to_owned())))
        }
    };
    if let Err(failure) = ended {
        report!("hanno: cannot end the writing of {place}: {failure}");
    }
}
