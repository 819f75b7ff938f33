//! What programs of jobs print on standard output: help, and what `--json` shows.
//!
//! Invariants: nothing else in them writes there. What a program was asked to print is printed, or it says that it is not.

use std::io::{self, ErrorKind, IsTerminal, Write, stdout};

use mr_model::runner::for_terminal;
use mr_model::{Error, Result};
use serde::Serialize;

/// Prints one line.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    Ok(print(&format!("{}\n", serde_json::to_string(value)?))?)
}

/// Prints a text; control characters never reach a terminal. A reader that has left misses nothing.
///
/// # Errors
/// The text is lost.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    match write(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Unprinted(error)),
        _ => Ok(()),
    }
}

fn write(text: &str) -> io::Result<()> {
    sys::streams::check_stdout()?;
    let mut stdout = stdout().lock();
    let printable = for_terminal(text, stdout.is_terminal());
    stdout.write_all(printable.as_bytes())?;
    stdout.flush()
}
