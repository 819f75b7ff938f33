//! The driver's and tasks' messages: the only code that writes to the standard streams.
//!
//! Invariants: nothing else in a driver writes to the standard streams. A job never fails because nobody reads its messages; what a program was asked to print
//! is printed, or the program says that it is not.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};

use protocol::printable::printable;

/// Writes to stderr, if anybody still reads it: `eprint!` panics if nobody does. Control characters never reach a terminal, because the
/// messages of failed tasks can hold anything.
pub fn say(text: fmt::Arguments<'_>) {
    let text = text.to_string();
    draw(&for_terminal(&text, stderr().is_terminal()));
}

/// Writes to standard output; control characters never reach a terminal. A reader that has left misses nothing.
///
/// # Errors
/// Why the text is lost.
pub fn print(text: &str) -> io::Result<()> {
    let mut stdout = stdout().lock();
    let printable = for_terminal(text, stdout.is_terminal());
    let written = sys::streams::check_stdout()
        .and_then(|()| stdout.write_all(printable.as_bytes()))
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

fn for_terminal(text: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { printable(text) } else { Cow::Borrowed(text) }
}

/// Writes this program's own text to stderr.
pub fn draw(own: &str) {
    let mut stderr = stderr().lock();
    let _ = stderr.write_all(own.as_bytes()).and_then(|()| stderr.flush());
}
