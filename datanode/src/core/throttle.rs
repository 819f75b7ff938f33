//! Limits a flow of bytes to a rate that can change while it flows.

use std::time::Duration;

/// Most credit saved up while nothing flows: short pauses do not cost throughput, and long ones do not end in a burst.
const CREDIT_MAX: Duration = Duration::from_millis(200);

/// A flow. Times are durations since any fixed moment.
#[derive(Clone, Copy, Debug)]
pub struct Throttle {
    rate: u64,
    free_at: Duration,
}

impl Throttle {
    /// At most `rate` bytes per second.
    pub fn new(rate: u64) -> Self {
        Throttle { rate: rate.max(1), free_at: Duration::ZERO }
    }

    /// Bytes per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Changes the rate from now on.
    pub fn set_rate(&mut self, rate: u64) {
        self.rate = rate.max(1);
    }

    /// Takes `bytes` at `now`; returns how long to wait before continuing.
    pub fn take(&mut self, now: Duration, bytes: u64) -> Duration {
        let begin = self.free_at.max(now.saturating_sub(CREDIT_MAX));
        self.free_at = begin + Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        self.free_at.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_shared_and_changed() {
        let mut throttle = Throttle::new(1000);
        let second = Duration::from_secs(1);
        let mut now = 10 * second;
        let start = now;
        for _ in 0..100 {
            now += throttle.take(now, 100);
        }
        let took = now - start;
        assert!(took <= 10 * second && took >= 10 * second - CREDIT_MAX, "{took:?}");
        throttle.set_rate(10_000);
        let start = now;
        for _ in 0..100 {
            now += throttle.take(now, 100);
        }
        assert!(now - start <= second);
        // Two flows share it: both take at the same moment, the second waits for both.
        let first = throttle.take(now, 1000);
        assert!(throttle.take(now, 1000) >= first + Duration::from_millis(100));
        // Unused credit is not saved up.
        now += 100 * second;
        assert_eq!(throttle.take(now, 10_000), second - CREDIT_MAX);
    }
}
