//! `-bandwidth`: how much a map reads at once, and how long it waits so that it reads no more than allowed.
//!
//! Invariant: no wait is longer than a second if what came before was in time: whoever takes the bytes over the network would give up one who is silent for long.

use std::time::Duration;

/// Bytes in a megabyte, as Hadoop counts them.
const MEGABYTE: f64 = (1 << 20) as f64;

/// Least that can be asked for: less would be taken for a connection that hardly moves.
pub(crate) const MEGABYTES_PER_SECOND_MIN: f64 = 0.01;

/// Most bytes to read at once into a buffer of so many: those of a second.
pub(crate) fn piece(buffer_bytes: usize, megabytes_per_second: f64) -> usize {
    // A float becomes the nearest integer that there is.
    let allowed = (megabytes_per_second * MEGABYTE) as usize;
    buffer_bytes.min(allowed.max(1))
}

/// How long to wait after so many bytes in so much time, for an average of at most so many megabytes a second.
pub(crate) fn pause(bytes: u64, elapsed: Duration, megabytes_per_second: f64) -> Duration {
    let due = bytes as f64 / (megabytes_per_second * MEGABYTE);
    Duration::try_from_secs_f64(due - elapsed.as_secs_f64()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_enough_for_an_upload() {
        use transport::web::{BODY_BYTES_MIN, SILENCE_MAX};
        let second = Duration::from_secs(1);
        for megabytes in [MEGABYTES_PER_SECOND_MIN, 1.0, 1e30] {
            let bytes = piece(usize::MAX, megabytes) as u64;
            assert!(bytes as f64 <= megabytes * MEGABYTE);
            assert!(pause(bytes, Duration::ZERO, megabytes) <= second);
            // Twice as much as it takes.
            assert!(bytes.saturating_mul(SILENCE_MAX.as_secs()) > 2 * BODY_BYTES_MIN);
        }
        assert_eq!((piece(7, 1.0), piece(usize::MAX, 2.0)), (7, 2 << 20));
    }

    #[test]
    fn waits_make_up_for_what_came_too_early() {
        let second = Duration::from_secs(1);
        assert_eq!(pause(3 << 20, second, 1.0), 2 * second);
        assert_eq!(pause(3 << 20, 3 * second, 1.0), Duration::ZERO);
        assert_eq!(pause(0, second, 0.5), Duration::ZERO);
        assert_eq!(pause(1 << 20, Duration::ZERO, 2.0), second / 2);
    }
}
