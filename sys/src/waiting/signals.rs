//! Signals that ask this process to end.
//!
//! Invariant: the handler notes a signal itself. A thread that a signal has reached knows of it with the next line that it runs: what it reads afterwards, such
//! as the end of a pipe whose writer got the same signal, is never newer than the note.

#![allow(
    unsafe_code,
    reason = "handlers of signals have no safe form; the proofs are at the calls"
)]

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use libc::{c_int, c_void, sigaction, siginfo_t};

use crate::wake::Wake;

/// Ctrl-C.
pub const INTERRUPT: i32 = libc::SIGINT;
/// What `kill` sends.
pub const TERMINATE: i32 = libc::SIGTERM;
/// The terminal is gone.
pub const HANG_UP: i32 = libc::SIGHUP;

/// Signals that can be caught have lower numbers.
const NUMBERS: usize = 65;

/// The first signal that came; 0 before.
static CAUGHT: AtomicI32 = AtomicI32::new(0);
/// Readable from then on.
static WAKE: OnceLock<Wake> = OnceLock::new();
/// What was called for a signal before, and is called still.
static BEFORE: [OnceLock<Before>; NUMBERS] = [const { OnceLock::new() }; NUMBERS];

type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

enum Before {
    Plain(extern "C" fn(c_int)),
    Informed(Handler),
}

/// True if the process was started to ignore this signal, or ignores it since.
///
/// # Errors
/// The system's error.
pub fn is_ignored(signal: i32) -> io::Result<bool> {
    Ok(current(signal)?.sa_sigaction == libc::SIG_IGN)
}

/// From now on the process does not end by this signal, and [`caught`] and [`wait`] tell of it. A signal that the process was started to ignore, as `nohup` has it
/// ignore SIGHUP, stays ignored. A handler that is there already is called, too.
///
/// # Errors
/// The system's error.
pub fn catch(signal: i32) -> io::Result<()> {
    let number = usize::try_from(signal).ok().filter(|number| *number < NUMBERS);
    let number = number.ok_or(io::ErrorKind::InvalidInput)?;
    if WAKE.get().is_none() {
        let wake = Wake::new()?;
        WAKE.get_or_init(|| wake);
    }
    let before = current(signal)?;
    if before.sa_sigaction == libc::SIG_IGN || before.sa_sigaction == note as *const () as usize {
        return Ok(());
    }
    if before.sa_sigaction != libc::SIG_DFL {
        BEFORE[number].get_or_init(|| match before.sa_flags & libc::SA_SIGINFO {
            // SAFETY: the system had it called with one argument; it is neither of the two numbers that are no functions.
            0 => Before::Plain(unsafe {
                std::mem::transmute::<usize, extern "C" fn(c_int)>(before.sa_sigaction)
            }),
            // SAFETY: with this flag it had it called with three.
            _ => Before::Informed(unsafe {
                std::mem::transmute::<usize, Handler>(before.sa_sigaction)
            }),
        });
    }
    let mut action = before;
    action.sa_sigaction = note as *const () as usize;
    // Calls of the system that it disturbs go on; it runs where a thread has a stack for that.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: `action` is a whole `sigaction`, from the system, and its function is one of three arguments that does only what a handler may.
    match unsafe { sigaction(signal, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What the system does for a signal.
fn current(signal: i32) -> io::Result<sigaction> {
    let mut found = MaybeUninit::<sigaction>::uninit();
    // SAFETY: nothing is changed; the place has room for what is told.
    match unsafe { sigaction(signal, std::ptr::null(), found.as_mut_ptr()) } {
        // SAFETY: the call has filled it.
        0 => Ok(unsafe { found.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The handler. It may interrupt anything, so it takes no lock, allocates nothing and leaves `errno` as it was.
extern "C" fn note(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the place of this thread's `errno`.
    let errno = unsafe { *libc::__errno_location() };
    let _ = CAUGHT.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
    if let Some(wake) = WAKE.get() {
        wake.notify();
    }
    match usize::try_from(signal).ok().and_then(|number| BEFORE.get(number)?.get()) {
        Some(Before::Plain(before)) => before(signal),
        Some(Before::Informed(before)) => before(signal, info, context),
        None => {}
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// The first signal of those that are caught, if one has come.
pub fn caught() -> Option<i32> {
    Some(CAUGHT.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

/// The same; waits for one at most this long. Nothing is waited for if none is caught.
///
/// # Errors
/// The system's error.
pub fn wait(timeout: Duration) -> io::Result<Option<i32>> {
    if let (None, Some(wake)) = (caught(), WAKE.get()) {
        wake.wait(timeout)?;
    }
    Ok(caught())
}

#[cfg(test)]
mod tests {
    use super::*;

    static TOLD: AtomicI32 = AtomicI32::new(0);

    extern "C" fn tell(signal: c_int) {
        TOLD.store(signal, Ordering::SeqCst);
    }

    fn set(signal: i32, function: usize) {
        let mut action = current(signal).unwrap();
        action.sa_sigaction = function;
        // SAFETY: a whole action from the system; the function is a handler or one of the numbers for none.
        assert_eq!(unsafe { sigaction(signal, &raw const action, std::ptr::null_mut()) }, 0);
    }

    fn raise(signal: i32) {
        // SAFETY: it has no conditions.
        assert_eq!(unsafe { libc::raise(signal) }, 0);
    }

    /// One test: the note is the process's.
    #[test]
    fn a_signal_is_noted_before_the_next_line() {
        let (ignored, first, second) = (libc::SIGURG, libc::SIGUSR1, libc::SIGUSR2);
        assert_eq!(wait(Duration::from_secs(60)).unwrap(), None, "nothing is caught yet");
        set(ignored, libc::SIG_IGN);
        set(second, tell as *const () as usize);
        for signal in [ignored, first, second, second] {
            catch(signal).unwrap();
        }
        assert!(catch(0).is_err() && catch(-1).is_err() && catch(libc::SIGKILL).is_err());
        raise(ignored);
        assert_eq!(wait(Duration::ZERO).unwrap(), None);
        raise(first);
        assert_eq!(caught(), Some(first));
        assert_eq!(wait(Duration::from_secs(60)).unwrap(), Some(first));
        raise(second);
        assert_eq!(TOLD.load(Ordering::SeqCst), second, "who was there before is told");
        assert_eq!(caught(), Some(first));
    }
}
