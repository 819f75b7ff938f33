//! Wakes a thread that waits for sockets, from another thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that is readable after [`Wake::notify`], until [`Wake::clear`].
#[derive(Debug)]
pub struct Wake {
    event: OwnedFd,
}

impl Wake {
    /// A new one, not notified yet.
    ///
    /// # Errors
    /// The system's error: no more descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Wake { event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Makes it readable.
    pub fn notify(&self) {
        // This fails only after 2^64 - 2 notifications: the descriptor is then readable.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Waits until it is notified; false if `timeout` passes first.
    ///
    /// # Errors
    /// The system's error.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let [is_notified] = crate::poll::wait_readable([self.as_fd()], timeout)?;
        Ok(is_notified)
    }

    /// Forgets all notifications so far.
    pub fn clear(&self) {
        // This fails only if there are none.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_readable_from_a_notification_until_it_is_cleared() {
        let wake = Wake::new().unwrap();
        let is_readable = || wake.wait(Duration::ZERO).unwrap();
        assert!(!is_readable());
        wake.notify();
        wake.notify();
        assert!(is_readable());
        wake.clear();
        assert!(!is_readable());
        wake.clear();
        std::thread::scope(|scope| {
            scope.spawn(|| wake.notify());
            assert!(wake.wait(Duration::from_secs(60)).unwrap());
        });
    }
}
