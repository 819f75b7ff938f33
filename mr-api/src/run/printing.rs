//! What programs of jobs print on standard output: help, and what `--json` shows.
//!
//! Invariants: nothing else in them writes there. What a program was asked to print is printed, or it says that it is not. What it prints by itself it prints
//! through [`stdout`], which keeps the same: the language's own takes text for an output that was closed at the start, and loses it.

use std::io::{self, ErrorKind, IsTerminal, StdoutLock, Write};

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
    let mut stdout = io::stdout().lock();
    let printable = for_terminal(text, stdout.is_terminal());
    stdout.write_all(printable.as_bytes())?;
    stdout.flush()
}

/// Standard output, for what a program prints itself. If a text is lost, the error says that it was standard output, also where that was closed before the program
/// began. A reader that has left misses nothing.
///
/// ```
/// use std::io::Write;
///
/// writeln!(mr_api::stdout(), "{} words", 7)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn stdout() -> Stdout {
    Stdout(io::stdout().lock())
}

/// See [`stdout`].
#[derive(Debug)]
pub struct Stdout(StdoutLock<'static>);

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = sys::streams::check_stdout().and_then(|()| self.0.write(bytes));
        named(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        named(self.0.flush(), ())
    }
}

/// An error of standard output; for a reader that has left, what is as good as written.
fn named<T>(written: io::Result<T>, all: T) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(all),
        Err(error) if error.kind() != ErrorKind::Interrupted => {
            Err(io::Error::new(error.kind(), Error::Unprinted(error)))
        }
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_text_names_standard_output() {
        let lost = named(Err(io::Error::from(ErrorKind::StorageFull)), 7).unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::StorageFull);
        let told = protocol::error::chain(&lost);
        assert_eq!(told, "cannot write to standard output: no storage space");
        assert_eq!(named(Err(ErrorKind::BrokenPipe.into()), 7).unwrap(), 7);
        assert_eq!(named(Ok(3), 7).unwrap(), 3);
        let again = named(Err(io::Error::from(ErrorKind::Interrupted)), 7).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Interrupted);
    }
}
