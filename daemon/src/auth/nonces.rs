//! The nonces of accepted requests: no signed request is accepted twice, however many arrive.
//!
//! A nonce is a stream, of one sender, and a number, which the sender counts up. Requests of a stream can overtake each other. So the daemon keeps for each
//! stream its highest number and one bit for each of the 65,000 below (the window of IPsec receivers, RFC 6479): memory grows with the senders, not with the
//! requests.
//!
//! Invariants: a number is accepted at most once while its signature is valid; a number below the window is refused, since nobody can say whether it was seen.

use std::collections::HashMap;
use std::time::Duration;

use protocol::auth::{CLOCK_SKEW_MAX, Nonce, Role};

/// Most bits of a stream, in words: this many requests of one busy sender, less one word's, can overtake a late one. 8 KiB for such a sender, one word for one
/// that has sent little.
const WORDS_MAX: usize = 1024;
const WORD_BITS: u64 = u64::BITS as u64;
/// Most streams kept per window, at some hundred bytes each: 1,600 new senders a second. New ones beyond that are refused until the window moves on; only
/// holders of the secret, or of a pass among tasks, can cause that.
const STREAMS_MAX: usize = 1_000_000;
/// Most words of all streams of a window, 128 MiB: that of 16,000 senders at their busiest. More is refused until the window moves on.
const WORDS_TOTAL_MAX: usize = 16 << 20;
/// As long as a signature is valid: from a sender with a fast clock until it is too old.
const WINDOW: Duration = CLOCK_SKEW_MAX.saturating_mul(2);

/// Why a nonce is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// It was seen.
    Seen,
    /// So many later ones of its stream were seen that this one may have been seen too.
    Late,
    /// Too many streams.
    Full,
}

/// The streams of the present and the previous window. A stream that drops out of both was silent for a whole window, so its earlier requests would be refused
/// for their age.
#[derive(Debug, Default)]
pub(crate) struct Nonces {
    window: u64,
    /// Words of the streams in `now`.
    words: usize,
    now: HashMap<(Role, u64), Stream>,
    before: HashMap<(Role, u64), Stream>,
}

impl Nonces {
    /// Accepts a nonce of `role`, once.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn take(&mut self, role: Role, nonce: Nonce, now_ms: u64) -> Result<(), Refused> {
        let window = now_ms / u64::try_from(WINDOW.as_millis()).expect("ten minutes");
        // If the clock is set back past the start of a window, earlier signatures are valid again: forget nothing.
        if window != self.window && window + 1 != self.window {
            let old = std::mem::take(&mut self.now);
            self.before = if window == self.window + 1 { old } else { HashMap::new() };
            self.window = window;
            self.words = 0;
        }
        let key = (role, nonce.stream);
        if let Some(stream) = self.now.get_mut(&key) {
            let before = stream.words.len();
            if before < WORDS_MAX && self.words >= WORDS_TOTAL_MAX && stream.grows(nonce.number) {
                return Err(Refused::Full);
            }
            let taken = stream.take(nonce.number);
            self.words += stream.words.len() - before;
            return taken;
        }
        if self.now.len() >= STREAMS_MAX || self.words >= WORDS_TOTAL_MAX {
            return Err(Refused::Full);
        }
        let mut stream = self.before.remove(&key).unwrap_or_default();
        let taken = stream.take(nonce.number);
        self.words += stream.words.len();
        self.now.insert(key, stream);
        taken
    }
}

/// The numbers seen of a stream: bit `n % 64` of word `n / 64 % words.len()` is number `n`.
#[derive(Debug, Default)]
struct Stream {
    newest: u64,
    /// Zero, or a power of two up to [`WORDS_MAX`]; below that nothing has wrapped around yet.
    words: Vec<u64>,
}

impl Stream {
    fn take(&mut self, number: u64) -> Result<(), Refused> {
        let block = number / WORD_BITS;
        self.grow(block);
        let newest_block = self.newest / WORD_BITS;
        let count = self.words.len() as u64;
        if block > newest_block {
            let first = (newest_block + 1).max((block + 1).saturating_sub(count));
            for passed in first..=block {
                self.words[(passed % count) as usize] = 0;
            }
        } else if newest_block - block >= count {
            return Err(Refused::Late);
        }
        let (word, bit) = (&mut self.words[(block % count) as usize], 1 << (number % WORD_BITS));
        if *word & bit != 0 {
            return Err(Refused::Seen);
        }
        *word |= bit;
        self.newest = self.newest.max(number);
        Ok(())
    }

    /// True if this number needs more room.
    fn grows(&self, number: u64) -> bool {
        self.words.len() < WORDS_MAX && number / WORD_BITS >= self.words.len() as u64
    }

    /// Makes room for a block while nothing has wrapped around.
    fn grow(&mut self, block: u64) {
        if self.words.len() < WORDS_MAX && block >= self.words.len() as u64 {
            let wanted = usize::try_from(block + 1).unwrap_or(WORDS_MAX).min(WORDS_MAX);
            self.words.resize(wanted.next_power_of_two(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_700_000_000_000;
    const WINDOW_MS: u64 = 600_000;
    const NUMBERS_KEPT: u64 = (WORDS_MAX as u64 - 1) * WORD_BITS;

    fn nonce(number: u64) -> Nonce {
        Nonce { stream: 7, number }
    }

    #[test]
    fn a_number_is_taken_once_as_long_as_its_signature_is_good() {
        for start in [NOW, NOW + WINDOW_MS - 1, NOW + WINDOW_MS / 2] {
            let mut nonces = Nonces::default();
            nonces.take(Role::Client, nonce(5), start).unwrap();
            for later in (0..=WINDOW_MS).step_by(10_000) {
                let again = nonces.take(Role::Client, nonce(5), start + later);
                assert_eq!(again, Err(Refused::Seen), "{later}");
            }
            assert_eq!(nonces.take(Role::Worker, nonce(5), start), Ok(()), "another sender");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_makes_nobody_forget() {
        let border = NOW / WINDOW_MS * WINDOW_MS;
        let mut nonces = Nonces::default();
        nonces.take(Role::Client, nonce(5), border - 1).unwrap();
        nonces.take(Role::Client, nonce(6), border).unwrap();
        for later in [border - 1, border, border - WINDOW_MS, border + WINDOW_MS - 1] {
            for number in [5, 6] {
                let again = nonces.take(Role::Client, nonce(number), later);
                assert_eq!(again, Err(Refused::Seen), "{number} at {later}");
            }
        }
    }

    #[test]
    fn millions_of_requests_of_one_sender_are_taken() {
        let mut nonces = Nonces::default();
        for number in 0..5_000_000 {
            nonces.take(Role::Client, nonce(number), NOW).unwrap();
        }
        let stream = &nonces.now[&(Role::Client, 7)];
        assert_eq!((nonces.now.len(), stream.words.len()), (1, WORDS_MAX));
    }

    #[test]
    fn what_all_senders_take_is_bounded() {
        let mut nonces = Nonces::default();
        let far = |stream| Nonce { stream, number: u64::MAX / 2 };
        let taken = (0..).take_while(|stream| nonces.take(Role::Task, far(*stream), NOW).is_ok());
        assert_eq!(taken.count(), WORDS_TOTAL_MAX / WORDS_MAX);
        let known = Nonce { stream: 0, number: u64::MAX / 2 + 1 };
        assert_eq!(nonces.take(Role::Task, known, NOW), Ok(()));
        assert_eq!(nonces.take(Role::Task, far(u64::MAX), NOW + WINDOW_MS), Ok(()));
    }

    #[test]
    fn who_sends_little_takes_little() {
        let mut stream = Stream::default();
        (0..64).for_each(|number| stream.take(number).unwrap());
        assert_eq!(stream.words.len(), 1);
        stream.take(64).unwrap();
        assert_eq!(stream.words.len(), 2);
        stream.take(u64::MAX).unwrap();
        assert_eq!((stream.words.len(), stream.take(u64::MAX)), (WORDS_MAX, Err(Refused::Seen)));
        assert_eq!(stream.take(65), Err(Refused::Late));
    }

    #[test]
    fn silent_streams_are_forgotten_and_too_many_are_refused() {
        let mut nonces = Nonces::default();
        for stream in 0..STREAMS_MAX as u64 {
            nonces.take(Role::Client, Nonce { stream, number: 0 }, NOW).unwrap();
        }
        let one_more = Nonce { stream: u64::MAX, number: 0 };
        assert_eq!(nonces.take(Role::Client, one_more, NOW), Err(Refused::Full));
        let known = Nonce { stream: 0, number: 1 };
        nonces.take(Role::Client, known, NOW).unwrap();
        nonces.take(Role::Client, one_more, NOW + WINDOW_MS).unwrap();
        nonces.take(Role::Client, one_more, NOW + 3 * WINDOW_MS).unwrap();
        assert_eq!((nonces.now.len(), nonces.before.len()), (1, 0));
    }

    proptest! {
        /// Steps are mostly of a few numbers up or down, sometimes of many.
        #[test]
        fn nothing_is_taken_twice_and_nothing_within_the_window_refused(
            steps in proptest::collection::vec((any::<bool>(), 0_u64..400, 0_u32..10), 1..500),
            start in prop_oneof![Just(0), any::<u32>().prop_map(u64::from), Just(u64::MAX / 2)],
        ) {
            let mut stream = Stream::default();
            let (mut seen, mut number, mut newest) = (HashSet::new(), start, 0);
            for (up, by, many) in steps {
                let by = if many == 0 { by * 300 } else { by };
                number = if up { number + by } else { number.saturating_sub(by) };
                let taken = stream.take(number);
                if seen.contains(&number) {
                    prop_assert!(taken.is_err());
                } else if newest < number || newest - number < NUMBERS_KEPT {
                    prop_assert_eq!(taken, Ok(()));
                }
                if taken.is_ok() {
                    seen.insert(number);
                    newest = newest.max(number);
                }
            }
        }
    }
}
