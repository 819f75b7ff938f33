//! `-bandwidth`: how long a map waits so that it reads no more than allowed.

use std::time::Duration;

/// Bytes in a megabyte, as Hadoop counts them.
const MEGABYTE: f64 = (1 << 20) as f64;

/// How long to wait after so many bytes in so much time, for an average of at most so many megabytes a second.
pub(crate) fn pause(bytes: u64, elapsed: Duration, megabytes_per_second: f64) -> Duration {
    let due = bytes as f64 / (megabytes_per_second * MEGABYTE);
    Duration::try_from_secs_f64(due - elapsed.as_secs_f64()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_make_up_for_what_came_too_early() {
        let second = Duration::from_secs(1);
        assert_eq!(pause(3 << 20, second, 1.0), 2 * second);
        assert_eq!(pause(3 << 20, 3 * second, 1.0), Duration::ZERO);
        assert_eq!(pause(0, second, 0.5), Duration::ZERO);
        assert_eq!(pause(1 << 20, Duration::ZERO, 2.0), second / 2);
    }
}
