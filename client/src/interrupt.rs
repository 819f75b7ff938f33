//! Handles Ctrl-C, SIGTERM and SIGHUP while something is half done: has it undone, the newest first, and ends the process with 130 (143, 129).
//!
//! Whoever begins what must not stay half done holds an [`Unfinished`] for it. After a signal no new one is handed out: a thread that requests one, or lets go of
//! one, waits for the end. A signal that the process was started to ignore (`nohup`) stays ignored.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, process};

use tokio::signal::unix::{Signal, SignalKind, signal};
use transport::rpc::runtime;

/// Exit code after Ctrl-C, as shells give it.
const EXIT_INTERRUPTED: i32 = 130;
/// Exit code after SIGTERM.
const EXIT_TERMINATED: i32 = 143;
/// Exit code after SIGHUP.
const EXIT_HUNG_UP: i32 = 129;
/// Longest time for undoing: an unreachable cluster must not hold up the user.
const CLEAN_UP_MAX: Duration = Duration::from_secs(5);
/// Of that, the time for what cannot be undone yet: an answer of the NameNode takes milliseconds.
const BEGINNING_MAX: Duration = Duration::from_secs(2);

/// What became of an attempt to undo something.
pub type Undone = Result<(), Box<dyn Error + Send + Sync>>;

/// Undoes something.
pub type Undo = Box<dyn FnOnce() -> Undone + Send>;

#[derive(Default)]
struct Registry {
    next: u64,
    unfinished: BTreeMap<u64, Begun>,
    /// A signal came: nothing new begins.
    is_ending: bool,
}

/// Something half done.
struct Begun {
    what: String,
    /// `None` as long as it cannot be undone.
    undo: Option<Undo>,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);
/// Something can be undone now, or is finished.
static CHANGED: Condvar = Condvar::new();

fn registry() -> MutexGuard<'static, Registry> {
    // A panic elsewhere does not invalidate the list of what to undo.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something that is undone if the user interrupts while this lives.
#[derive(Debug)]
pub struct Unfinished {
    number: u64,
}

impl Unfinished {
    /// Something that can be undone. Messages call it `what`: "the writing of /a".
    pub fn new(what: String, undo: Undo) -> Self {
        Unfinished::of(Begun { what, undo: Some(undo) })
    }

    /// Something that cannot be undone yet: a signal waits for it for a moment.
    pub fn beginning(what: String) -> Self {
        Unfinished::of(Begun { what, undo: None })
    }

    fn of(begun: Begun) -> Self {
        let mut registry = registry();
        while registry.is_ending {
            registry = CHANGED.wait(registry).unwrap_or_else(PoisonError::into_inner);
        }
        let number = registry.next;
        registry.next += 1;
        registry.unfinished.insert(number, begun);
        Unfinished { number }
    }

    /// From now on it can be undone.
    pub fn begun(&self, undo: Undo) {
        if let Some(begun) = registry().unfinished.get_mut(&self.number) {
            begun.undo = Some(undo);
        }
        CHANGED.notify_all();
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        registry().unfinished.remove(&self.number);
        CHANGED.notify_all();
    }
}

/// From now on, a signal has undone what is unfinished and ends the process; `tell` hears what could not be undone.
///
/// # Errors
/// If the system refuses the handlers.
pub fn watch(tell: fn(&str)) -> io::Result<()> {
    let _inside = runtime().enter();
    let listen = |kind: SignalKind| match sys::process::ignores(kind.as_raw_value()) {
        true => Ok(None),
        false => signal(kind).map(Some),
    };
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    runtime().spawn(async move {
        let code = tokio::select! {
            () = next(&mut interrupt) => EXIT_INTERRUPTED,
            () = next(&mut terminate) => EXIT_TERMINATED,
            () = next(&mut hangup) => EXIT_HUNG_UP,
        };
        let (sender, receiver) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let mut registry = registry();
            registry.is_ending = true;
            let is_beginning =
                |registry: &mut Registry| registry.unfinished.values().any(|it| it.undo.is_none());
            let waited = CHANGED.wait_timeout_while(registry, BEGINNING_MAX, is_beginning);
            // Held to the end of the process: nobody completes what is undone here.
            let (mut registry, _) = waited.unwrap_or_else(PoisonError::into_inner);
            undo_all(&mut registry, tell);
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

fn undo_all(registry: &mut Registry, tell: fn(&str)) {
    while let Some((_, Begun { what, undo })) = registry.unfinished.pop_last() {
        let undone = match undo {
            Some(undo) => undo(),
            None => Err("it is only beginning".into()),
        };
        if let Err(error) = undone {
            tell(&format!("cannot end {what}: {}", protocol::error::chain(&*error)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn what_is_unfinished_is_undone_the_newest_first() {
        let (undone, mut all) = (Arc::new(Mutex::new(Vec::new())), Registry::default());
        for name in ["directory", "file", "lost", "new"] {
            let list = Arc::clone(&undone);
            let undo: Undo = Box::new(move || {
                list.lock().unwrap().push(name);
                if name == "lost" { Err("no answer".into()) } else { Ok(()) }
            });
            let begun = Begun { what: name.to_owned(), undo: (name != "new").then_some(undo) };
            all.unfinished.insert(all.next, begun);
            all.next += 1;
        }
        undo_all(&mut all, |text| TOLD.lock().unwrap().push(text.to_owned()));
        assert_eq!(*undone.lock().unwrap(), ["lost", "file", "directory"]);
        let told = ["cannot end new: it is only beginning", "cannot end lost: no answer"];
        assert_eq!(*TOLD.lock().unwrap(), told);
    }
}
