//! How a wait for a socket ends.

use std::io;
use std::time::Duration;

use sys::poll::Wait;

/// How long a wait took, counting only time while this process ran.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] if the socket did not get ready.
pub(crate) fn awake_of(wait: Wait<1>) -> io::Result<Duration> {
    if wait.ready == [false] { Err(io::ErrorKind::TimedOut.into()) } else { Ok(wait.awake) }
}
