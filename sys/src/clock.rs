//! Whether something keeps this machine's clock right.

#![allow(unsafe_code, reason = "the call has no safe form; the proof is at the call")]

use std::io;
use std::mem::MaybeUninit;

/// True if the kernel reports that something keeps its clock right (NTP, PTP, a hypervisor).
///
/// # Errors
/// The system's error.
pub fn is_synchronised() -> io::Result<bool> {
    // SAFETY: a `timex` of zeros only queries and sets nothing; all its fields are numbers.
    let mut asked: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the call reads and writes this value, which lives until it returns.
    let state = unsafe { libc::adjtimex(&raw mut asked) };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(asked.status & libc::STA_UNSYNC == 0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_answers() {
        super::is_synchronised().unwrap();
    }
}
