//! Waiting for several sockets at once.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// First wait that counts in full in [`Wait::awake`]: if it takes longer, this process was stopped itself.
const AWAKE_SLICE_MIN: Duration = Duration::from_millis(10);
/// Waits double up to this one: a long wait wakes up once a second.
const AWAKE_SLICE_MAX: Duration = Duration::from_secs(1);

/// The result of a wait for several sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait<const N: usize> {
    /// Which of them were ready; none if the timeout passed first.
    pub ready: [bool; N],
    /// How long it took, counting only time while this process ran. Of a time in which it was stopped, it counts no more than it had waited before, or 10 ms.
    pub awake: Duration,
}

/// Waits until one of `sockets` has bytes to read, has ended or has failed, and returns which; all are false if `timeout` passes first. A `None` is not waited
/// for; with nothing but those it returns at once.
///
/// # Errors
/// The system's error.
pub fn wait_readable<'a, const N: usize>(
    sockets: [impl Into<Option<BorrowedFd<'a>>>; N],
    timeout: Duration,
) -> io::Result<[bool; N]> {
    wait(sockets.map(Into::into), PollFlags::IN, timeout)
}

/// As [`wait_readable`], for callers that measure how long a peer kept them waiting.
///
/// # Errors
/// The system's error.
pub fn wait_readable_awake<'a, const N: usize>(
    sockets: [impl Into<Option<BorrowedFd<'a>>>; N],
    timeout: Duration,
) -> io::Result<Wait<N>> {
    wait_awake(sockets.map(Into::into), PollFlags::IN, timeout)
}

/// Waits until `socket` takes bytes, or has failed.
///
/// # Errors
/// The system's error.
pub fn wait_writable_awake(socket: BorrowedFd<'_>, timeout: Duration) -> io::Result<Wait<1>> {
    wait_awake([Some(socket)], PollFlags::OUT, timeout)
}

fn wait_awake<const N: usize>(
    sockets: [Option<BorrowedFd<'_>>; N],
    events: PollFlags,
    timeout: Duration,
) -> io::Result<Wait<N>> {
    let (begin, mut awake, mut slice) = (Instant::now(), Duration::ZERO, AWAKE_SLICE_MIN);
    loop {
        let slice_begin = Instant::now();
        let rest = timeout.saturating_sub(begin.elapsed());
        let ready = wait(sockets, events, rest.min(slice))?;
        awake += slice_begin.elapsed().min(slice);
        if ready != [false; N] || rest <= slice {
            return Ok(Wait { ready, awake });
        }
        slice = (slice * 2).min(AWAKE_SLICE_MAX);
    }
}

fn wait<const N: usize>(
    sockets: [Option<BorrowedFd<'_>>; N],
    events: PollFlags,
    timeout: Duration,
) -> io::Result<[bool; N]> {
    let count = sockets.iter().flatten().count();
    let Some(any) = sockets.iter().flatten().next() else { return Ok([false; N]) };
    // The sockets to wait for come first; the filler after them is not read.
    let mut entries = [*any; N].map(|any| PollFd::from_borrowed_fd(any, events));
    for (entry, socket) in entries.iter_mut().zip(sockets.into_iter().flatten()) {
        *entry = PollFd::from_borrowed_fd(socket, events);
    }
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    loop {
        match poll(&mut entries[..count], Some(&timeout)) {
            Ok(_) => {
                let mut found = entries.iter().map(|entry| !entry.revents().is_empty());
                return Ok(sockets.map(|socket| socket.is_some() && found.next() == Some(true)));
            }
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
        let right_alone = [None, Some(right.as_fd())];
        assert_eq!(wait_readable(right_alone, Duration::ZERO).unwrap(), [false, true]);
    }

    #[test]
    fn counts_how_long_it_waits() {
        let (left, mut left_peer) = UnixStream::pair().unwrap();
        let timeout = Duration::from_millis(35);
        let waited = wait_readable_awake([left.as_fd()], timeout).unwrap();
        assert_eq!(waited.ready, [false]);
        // Less than the timeout, if this thread does not run immediately after a slice.
        let longest = timeout + AWAKE_SLICE_MIN;
        assert!(!waited.awake.is_zero() && waited.awake <= longest, "{waited:?}");
        left_peer.write_all(b"x").unwrap();
        assert_eq!(wait_readable_awake([left.as_fd()], Duration::MAX).unwrap().ready, [true]);
        assert_eq!(wait_writable_awake(left.as_fd(), Duration::MAX).unwrap().ready, [true]);
    }
}
