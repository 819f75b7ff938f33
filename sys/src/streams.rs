//! Whether this process was started without standard output.
//!
//! Before `main`, the language's runtime opens `/dev/null` in the place of a standard stream that is closed. What is written there is lost without an error.
//! Only a function that the loader calls earlier can see it.

#![allow(unsafe_code, reason = "what runs before `main`; the proofs are at the items")]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the loader calls each address in this section once, with the C calling convention, before `main`. The arguments that it passes may be ignored.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: this reads the flags of a descriptor, or fails if that is not open. It needs nothing of the runtime.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// # Errors
/// EBADF if this process was started without standard output.
pub fn check_stdout() -> io::Result<()> {
    match WAS_CLOSED.load(Ordering::Relaxed) {
        true => Err(io::Error::from_raw_os_error(libc::EBADF)),
        false => Ok(()),
    }
}
