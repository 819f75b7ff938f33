//! Records which environment variables a piece of code reads, and can answer in place of the environment.
//!
//! A job's function runs twice, in the driver and in the task process on a worker, and must have the same result. The driver notes what the function reads from
//! its environment, and the worker gives it the same answers. The process defines its own `getenv` for that: calls of the standard library and of C code reach
//! it. Outside of these two modes it answers like the C library's.
//!
//! Invariants: notes and answers apply only to the calling thread while the closure runs; a variable is read only from `environ`, like in the C library.
//! `std::env::vars` walks over `environ` itself and is not noted.

#![allow(
    unsafe_code,
    reason = "answering getenv is unsafe by nature; the proof is at the function"
)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_char};
use std::ptr;

/// Answers by name; `None` is a variable that is not set.
pub type Answers = BTreeMap<Vec<u8>, Option<CString>>;

enum Mode {
    Plain,
    Noting(BTreeSet<Vec<u8>>),
    /// Kept forever, like the pointers that are handed out.
    Answering(&'static Answers),
}

thread_local! {
    static MODE: RefCell<Mode> = const { RefCell::new(Mode::Plain) };
}

/// Runs `code`; returns its result and the names of the variables that it read.
pub fn note<T>(code: impl FnOnce() -> T) -> (T, BTreeSet<Vec<u8>>) {
    let _end = Scope::begin(Mode::Noting(BTreeSet::new()));
    let result = code();
    let noted = MODE.with(|mode| match &mut *mode.borrow_mut() {
        Mode::Noting(names) => std::mem::take(names),
        _ => BTreeSet::new(),
    });
    (result, noted)
}

/// Runs `code` with these values of the variables named in `answers`, whatever the environment says. The answers stay in memory: a process is meant to call
/// this once in its life.
pub fn answer<T>(answers: Answers, code: impl FnOnce() -> T) -> T {
    let _end = Scope::begin(Mode::Answering(Box::leak(Box::new(answers))));
    code()
}

/// Ends a mode, even if the code panics.
struct Scope;

impl Scope {
    fn begin(mode: Mode) -> Self {
        MODE.with(|present| *present.borrow_mut() = mode);
        Scope
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        MODE.with(|mode| *mode.borrow_mut() = Mode::Plain);
    }
}

unsafe extern "C" {
    /// The process's environment: pointers to `NAME=VALUE`, ended by null.
    static environ: *const *const c_char;
}

/// The value of an environment variable, as in POSIX.
///
/// # Safety
/// `name` is null or ends with a zero byte. Nobody changes the environment meanwhile: the standard library holds its lock around the call, and C code must
/// ensure it, as for any `getenv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getenv(name: *const c_char) -> *mut c_char {
    if name.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    // While a thread ends, or the mode changes, there is nothing to note.
    let answer = MODE.try_with(|mode| match &mut *mode.try_borrow_mut().ok()? {
        Mode::Plain => None,
        Mode::Noting(names) => {
            names.insert(name.to_vec());
            None
        }
        Mode::Answering(answers) => answers.get(name).map(Option::as_deref),
    });
    if let Ok(Some(answer)) = answer {
        return answer.map_or(ptr::null_mut(), |value| value.as_ptr().cast_mut());
    }
    // SAFETY: `environ` is null or an array of texts that ends with null, and does not change meanwhile by the caller's promise.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = CStr::from_ptr(*entry).to_bytes();
            if text.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&b'=')) {
                return (*entry).add(name.len() + 1).cast_mut();
            }
            entry = entry.add(1);
        }
    }
    ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn what_is_read_is_noted_and_answered_otherwise_for_this_code_alone() {
        let path = env::var("PATH").unwrap();
        let (read, noted) = note(|| (env::var("PATH").unwrap(), env::var_os("NOT_SET_ANYWHERE")));
        assert_eq!(read, (path.clone(), None));
        assert_eq!(noted, [b"PATH".to_vec(), b"NOT_SET_ANYWHERE".to_vec()].into());
        let answers = [
            (b"PATH".to_vec(), None),
            (b"NOT_SET_ANYWHERE".to_vec(), Some(CString::new("set").unwrap())),
        ];
        answer(answers.into(), || {
            assert_eq!(env::var_os("PATH"), None);
            assert_eq!(env::var("NOT_SET_ANYWHERE").unwrap(), "set");
            assert!(env::vars_os().next().is_some(), "what is not answered is as it was");
            let other = std::thread::spawn(|| env::var("PATH"));
            assert_eq!(other.join().unwrap().unwrap(), path);
        });
        assert_eq!(env::var("PATH").unwrap(), path);
        let failed = std::panic::catch_unwind(|| {
            answer([(b"PATH".to_vec(), None)].into(), || panic!("it ends"))
        });
        assert!(failed.is_err() && env::var("PATH").unwrap() == path);
    }
}
