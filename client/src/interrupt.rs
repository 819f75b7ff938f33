//! Handles Ctrl-C, SIGTERM and SIGHUP while something is half done: has it undone, the newest first, and ends the process with 130 (143, 129).
//!
//! Whoever begins what must not stay half done holds an [`Unfinished`] for it. After a signal no new one is handed out: a thread that requests one, or lets go of
//! one, waits for the end. So does who is about to complete something and asks ([`Undisturbed`]): Ctrl-C in a pipeline also ends the program that writes into
//! the pipe, and its end would be taken for the end of the data. A signal that the process was started to ignore (`nohup`) stays ignored.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::mpsc;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, process, thread};

use sys::signals;

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

/// How long who completes what came through a pipe waits for a signal: the writer at the other end may have got it first, and be gone. Ctrl-C reaches both in
/// one step; whoever ends processes one by one takes some milliseconds.
const PIPE_PAUSE: Duration = Duration::from_millis(20);
/// Only signals end the wait for signals.
const LONG: Duration = Duration::from_secs(3600);

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
        let _now = Undisturbed::now();
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
        let mut registry = registry();
        let begun = registry.unfinished.get(&self.number).is_some_and(|it| it.undo.is_some());
        // What can be undone is left to the signal that has come.
        if !begun || signals::caught().is_none() {
            registry.unfinished.remove(&self.number);
        }
        drop(registry);
        CHANGED.notify_all();
        let _now = Undisturbed::now();
    }
}

/// No signal has come: what is written may become complete. Whatever publishes a file takes one of these.
#[derive(Debug)]
pub struct Undisturbed(());

impl Undisturbed {
    /// At this moment. After a signal, waits for the end of the process.
    pub fn now() -> Self {
        if signals::caught().is_some() {
            wait_for_end();
        }
        Undisturbed(())
    }

    /// The same, for what was read to the end of a pipe or socket: whoever wrote into it may have ended by a signal that is to come here, too.
    pub fn behind_a_pipe() -> Self {
        // What keeps it from waiting keeps nothing from being complete.
        let _ = signals::wait(PIPE_PAUSE);
        Undisturbed::now()
    }
}

/// The thread that handles signals ends the process.
fn wait_for_end() -> ! {
    loop {
        thread::park();
    }
}

/// From now on, a signal has undone what is unfinished and ends the process; `tell` hears what could not be undone. Who calls this again changes nothing.
///
/// # Errors
/// If the system refuses the handlers.
pub fn watch(tell: fn(&str)) -> io::Result<()> {
    static IS_WATCHED: Mutex<bool> = Mutex::new(false);
    let mut is_watched = IS_WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if *is_watched {
        return Ok(());
    }
    // First the thread: without it a signal would end nothing.
    let (all_caught, begin) = mpsc::channel();
    let handle = move || {
        if begin.recv().is_ok() {
            end(tell);
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(handle)?;
    for signal in [signals::INTERRUPT, signals::TERMINATE, signals::HANG_UP] {
        signals::catch(signal)?;
    }
    // It waits for this.
    let _ = all_caught.send(());
    *is_watched = true;
    Ok(())
}

/// Waits for a signal, undoes and ends the process.
fn end(tell: fn(&str)) {
    let code = loop {
        match signals::wait(LONG) {
            Ok(Some(signals::INTERRUPT)) => break EXIT_INTERRUPTED,
            Ok(Some(signals::HANG_UP)) => break EXIT_HUNG_UP,
            Ok(Some(_)) => break EXIT_TERMINATED,
            Ok(None) => {}
            // No descriptors or no memory for a wait: the next one may work.
            Err(_) => thread::sleep(PIPE_PAUSE),
        }
    };
    let (sender, receiver) = mpsc::channel();
    let undo = move || {
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
        thread::sleep(CLEAN_UP_MAX);
    };
    if thread::Builder::new().spawn(undo).is_ok() {
        // Either way the process ends now.
        let _ = receiver.recv_timeout(CLEAN_UP_MAX);
    }
    process::exit(code);
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

    /// Names, in a process of its own, the file by which it says that something was undone.
    const UNDONE_VARIABLE: &str = "HANNO_TEST_UNDONE";

    /// In a process of its own, which the signal ends.
    #[test]
    fn nothing_is_complete_once_a_signal_has_come() {
        let Some(mark) = std::env::var_os(UNDONE_VARIABLE) else {
            let directory = tempfile::tempdir().unwrap();
            let mark = directory.path().join("undone");
            let status = process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "interrupt::tests::nothing_is_complete_once_a_signal_has_come"])
                .env(UNDONE_VARIABLE, &mark)
                .status();
            assert_eq!(status.unwrap().code(), Some(EXIT_TERMINATED));
            assert!(mark.try_exists().unwrap(), "it was undone");
            return;
        };
        watch(|text| panic!("{text}")).unwrap();
        watch(|text| panic!("{text}")).unwrap();
        let undo: Undo = Box::new(move || Ok(std::fs::write(mark, "")?));
        let unfinished = Unfinished::new("something".to_owned(), undo);
        // Any thread may have it.
        sys::process::terminate(process::id()).unwrap();
        let _undisturbed = Undisturbed::behind_a_pipe();
        drop(unfinished);
        process::exit(0);
    }

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
