//! When to verify which replica: each once per period, evenly, never faster than a rate.

use std::ops::Bound;
use std::time::Duration;

use protocol::BlockId;

/// The scanner's place in its round. Times are durations since the DataNode started.
#[derive(Clone, Debug)]
pub struct Scrub {
    period: Duration,
    rate: u64,
    round_start: Duration,
    cursor: Option<BlockId>,
    /// When the next round begins, if this one is over.
    not_before: Duration,
    /// Nothing is read until then, to keep the rate.
    rests_until: Duration,
    /// How long the round had already lasted when the DataNode started.
    head_start: Duration,
    /// The last replica handed out was a suspect.
    favoured: bool,
}

/// What the scanner does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Verify this replica.
    Scan(BlockId),
    /// Do nothing until then.
    Wait(Duration),
}

impl Scrub {
    /// Verifies every replica once per `period`, reading at most `rate` bytes per second.
    pub fn new(period: Duration, rate: u64) -> Self {
        Scrub {
            period,
            rate: rate.max(1),
            round_start: Duration::ZERO,
            cursor: None,
            not_before: Duration::ZERO,
            rests_until: Duration::ZERO,
            head_start: Duration::ZERO,
            favoured: false,
        }
    }

    /// Continues a round that had reached `cursor` and lasted for `age` when the DataNode started.
    pub fn resume(&mut self, cursor: Option<BlockId>, age: Duration) {
        self.cursor = cursor;
        self.head_start = age.min(self.period);
    }

    /// The last replica of this round that was handed out, and when the round began. A beginning before the start of the DataNode is given as its distance
    /// before that start.
    pub fn place(&self) -> (Option<BlockId>, Duration, Duration) {
        (self.cursor, self.round_start, self.head_start)
    }

    /// A suspected replica, if it may be read now. It waits neither for its turn nor for the next round. While a round runs, however, every second replica
    /// comes from the round: an endless stream of suspects holds up nothing.
    pub fn suspect(
        &mut self,
        now: Duration,
        pop: impl FnOnce() -> Option<BlockId>,
    ) -> Option<Next> {
        if now < self.rests_until {
            return None;
        }
        if std::mem::take(&mut self.favoured) && now >= self.not_before {
            return None;
        }
        let found = pop()?;
        self.favoured = true;
        Some(Next::Scan(found))
    }

    /// The next step at `now`; `after` finds the first replica within the bound.
    pub fn next(
        &mut self,
        now: Duration,
        after: impl FnOnce(Bound<BlockId>) -> Option<BlockId>,
    ) -> Next {
        let until = self.not_before.max(self.rests_until);
        if now < until {
            return Next::Wait(until);
        }
        match after(self.cursor.map_or(Bound::Unbounded, Bound::Excluded)) {
            Some(block) => {
                self.cursor = Some(block);
                Next::Scan(block)
            }
            None => {
                // A round is over; the next begins a period after this one did.
                self.cursor = None;
                let period = self.period.saturating_sub(std::mem::take(&mut self.head_start));
                self.round_start = (self.round_start + period).max(now);
                self.not_before = self.round_start;
                Next::Wait(self.not_before)
            }
        }
    }

    /// Records that `bytes` were read, ending at `now`.
    pub fn scanned(&mut self, now: Duration, bytes: u64) {
        self.rests_until = now + Duration::from_secs_f64(bytes as f64 / self.rate as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_replica_is_scanned_once_per_period_within_the_rate() {
        let blocks: BTreeSet<BlockId> = (1..=5).map(BlockId).collect();
        let period = Duration::from_secs(100);
        let mut scrub = Scrub::new(period, 10);
        let mut now = Duration::ZERO;
        let mut scanned = Vec::new();
        while now < Duration::from_secs(250) {
            match scrub.next(now, |from| blocks.range((from, Bound::Unbounded)).next().copied()) {
                Next::Scan(block) => {
                    scanned.push((now.as_secs(), block.0));
                    scrub.scanned(now, 20);
                }
                Next::Wait(until) => now = until,
            }
        }
        let round = |start: u64| (0..5).map(move |n| (start + 2 * n, n + 1));
        let expected: Vec<_> = round(0).chain(round(100)).chain(round(200)).collect();
        assert_eq!(scanned, expected);
    }

    #[test]
    fn a_round_goes_on_after_a_restart_and_suspects_come_first() {
        let day = Duration::from_secs(86_400);
        let mut scrub = Scrub::new(21 * day, 1000);
        scrub.resume(Some(BlockId(7)), 20 * day);
        let after = |bound| {
            assert_eq!(bound, Bound::Excluded(BlockId(7)));
            None
        };
        assert_eq!(scrub.next(Duration::ZERO, after), Next::Wait(day));
        let suspected = || Some(BlockId(3));
        let now = Some(Next::Scan(BlockId(3)));
        assert_eq!(scrub.suspect(Duration::ZERO, suspected), now, "before the next round");
        scrub.scanned(Duration::ZERO, 2000);
        assert_eq!(scrub.suspect(Duration::from_secs(1), suspected), None, "the rate is kept");
        assert_eq!(scrub.suspect(Duration::from_secs(2), suspected), now);
        assert_eq!(scrub.next(day, |_| Some(BlockId(1))), Next::Scan(BlockId(1)));
        assert_eq!(scrub.place(), (Some(BlockId(1)), day, Duration::ZERO));
        assert_eq!(
            scrub.next(day, |_| None),
            Next::Wait(22 * day),
            "the next round is a whole one"
        );
    }

    #[test]
    fn suspects_without_end_leave_every_second_turn_to_the_round() {
        let blocks: BTreeSet<BlockId> = (1..=3).map(BlockId).collect();
        let mut scrub = Scrub::new(Duration::from_secs(100), 10);
        let now = Duration::ZERO;
        let mut scanned = Vec::new();
        for _ in 0..8 {
            let suspect = scrub.suspect(now, || Some(BlockId(9)));
            let after = |from| blocks.range((from, Bound::Unbounded)).next().copied();
            match suspect.unwrap_or_else(|| scrub.next(now, after)) {
                Next::Scan(block) => scanned.push(block.0),
                Next::Wait(_) => {}
            }
        }
        assert_eq!(scanned, [9, 1, 9, 2, 9, 3, 9], "the last turn ended the round");
        assert_eq!(scrub.suspect(now, || Some(BlockId(9))), Some(Next::Scan(BlockId(9))));
        assert_eq!(
            scrub.suspect(now, || Some(BlockId(8))),
            Some(Next::Scan(BlockId(8))),
            "none is due"
        );
    }
}
