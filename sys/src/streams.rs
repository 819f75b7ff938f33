//! Whether this process was started without standard input or output.
//!
//! Before `main`, the language's runtime opens `/dev/null` in the place of a standard stream that is closed. What is written there is lost without an error,
//! and what is read there is an empty file. Only a function that the loader calls earlier can see it.

#![allow(unsafe_code, reason = "what runs before `main`; the proofs are at the items")]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static INPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);
static OUTPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the loader calls each address in this section once, with the C calling convention, before `main`. The arguments that it passes may be ignored.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = look;

extern "C" fn look() {
    let streams =
        [(libc::STDIN_FILENO, &INPUT_WAS_CLOSED), (libc::STDOUT_FILENO, &OUTPUT_WAS_CLOSED)];
    for (descriptor, was_closed) in streams {
        // SAFETY: this reads the flags of a descriptor, or fails if that is not open. It needs nothing of the runtime.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        was_closed.store(flags == -1, Ordering::Relaxed);
    }
}

/// # Errors
/// EBADF if this process was started without standard input.
pub fn check_stdin() -> io::Result<()> {
    check(&INPUT_WAS_CLOSED)
}

/// # Errors
/// EBADF if this process was started without standard output.
pub fn check_stdout() -> io::Result<()> {
    check(&OUTPUT_WAS_CLOSED)
}

fn check(was_closed: &AtomicBool) -> io::Result<()> {
    match was_closed.load(Ordering::Relaxed) {
        true => Err(io::Error::from_raw_os_error(libc::EBADF)),
        false => Ok(()),
    }
}
