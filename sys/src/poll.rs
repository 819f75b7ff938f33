//! Waiting for several sockets at once.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Waits until one of `sockets` has bytes to read, has ended or has failed, and tells which; all false when `timeout` is
/// over first.
///
/// # Errors
/// What the system says.
pub fn wait_readable<const N: usize>(
    sockets: [BorrowedFd<'_>; N],
    timeout: Duration,
) -> io::Result<[bool; N]> {
    let mut entries = sockets.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN));
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    loop {
        match poll(&mut entries, Some(&timeout)) {
            Ok(_) => return Ok(entries.map(|entry| !entry.revents().is_empty())),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn tells_who_is_readable() {
        let (left, mut left_peer) = UnixStream::pair().unwrap();
        let (right, right_peer) = UnixStream::pair().unwrap();
        let both = || wait_readable([left.as_fd(), right.as_fd()], Duration::ZERO).unwrap();
        assert_eq!(both(), [false, false]);
        left_peer.write_all(b"x").unwrap();
        assert_eq!(both(), [true, false]);
        drop(right_peer);
        assert_eq!(both(), [true, true]);
    }
}
