//! The driver's and tasks' messages: the only code here that writes to the standard error stream.
//!
//! Invariants: a job never fails because nobody reads its messages.

use std::borrow::Cow;
use std::fmt;
use std::io::{IsTerminal, Write, stderr};

use protocol::printable::printable;

/// Writes to stderr, if anybody still reads it: `eprint!` panics if nobody does. Control characters never reach a terminal, because the
/// messages of failed tasks can hold anything.
pub fn say(text: fmt::Arguments<'_>) {
    let text = text.to_string();
    draw(&for_terminal(&text, stderr().is_terminal()));
}

/// What a terminal may get of a text, or all of it.
pub fn for_terminal(text: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { printable(text) } else { Cow::Borrowed(text) }
}

/// Writes this program's own text to stderr.
pub fn draw(own: &str) {
    let mut stderr = stderr().lock();
    let _ = stderr.write_all(own.as_bytes()).and_then(|()| stderr.flush());
}
