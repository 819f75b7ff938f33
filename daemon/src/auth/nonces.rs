//! The nonces of accepted requests: no signed request is accepted twice, however many arrive.
//!
//! A nonce is a stream, of one sender, and a number, which the sender counts up. Requests of a stream can overtake each other. So the daemon keeps for each
//! stream its highest number and one bit for each of the 65,000 below (the window of IPsec receivers, RFC 6479): memory grows with the senders, not with the
//! requests. Only words with a bit in them are kept, so a stream costs what was seen of it, whatever numbers it names.
//!
//! Streams belong to a role, or to a job, and each of these has a share of the room. So no job can keep those of another out. Nothing is taken back for others:
//! what is forgotten could be sent again.
//!
//! Invariants: a number is accepted at most once while its signature is valid; a number below the window is refused, since nobody can say whether it was seen;
//! nobody is refused for the streams of another job.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use protocol::auth::{CLOCK_SKEW_MAX, Nonce};

use super::signer::Owner;
use crate::shares::{PART, Shares};

/// Words from a stream's highest number down: this many requests of one busy sender, less one word's, can overtake a late one.
const WORDS_MAX: u64 = 1024;
const WORD_BITS: u64 = u64::BITS as u64;
/// Most streams kept per window, at some hundred bytes each: of one role or job alone 1,600 new senders a second. New ones beyond that are refused until the
/// window moves on; only holders of the secret, or of a pass among tasks of its job, can cause that.
const STREAMS_MAX: usize = 1_340_000;
/// Most words of all streams of a window, at 16 bytes each 128 MiB: that of 8,000 senders at their busiest. More is refused until the window moves on.
const WORDS_TOTAL_MAX: usize = 8 << 20;
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
#[derive(Debug)]
pub(crate) struct Nonces {
    window: u64,
    now: HashMap<(Owner, u64), Stream>,
    before: HashMap<(Owner, u64), Stream>,
    /// Streams in `now`, and words of them.
    streams: Shares<Owner>,
    words: Shares<Owner>,
}

impl Default for Nonces {
    fn default() -> Self {
        Nonces {
            window: 0,
            now: HashMap::new(),
            before: HashMap::new(),
            streams: Shares::new(STREAMS_MAX, PART),
            words: Shares::new(WORDS_TOTAL_MAX, PART),
        }
    }
}

impl Nonces {
    /// Accepts a nonce of `owner`, once.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn take(&mut self, owner: Owner, nonce: Nonce, now_ms: u64) -> Result<(), Refused> {
        let window = now_ms / u64::try_from(WINDOW.as_millis()).expect("ten minutes");
        // If the clock is set back past the start of a window, earlier signatures are valid again: forget nothing.
        if window != self.window && window + 1 != self.window {
            let old = std::mem::take(&mut self.now);
            self.before = if window == self.window + 1 { old } else { HashMap::new() };
            self.window = window;
            self.streams.clear();
            self.words.clear();
        }
        let key = (owner, nonce.stream);
        if let Some(stream) = self.now.get_mut(&key) {
            let before = stream.words.len();
            let more = usize::from(stream.grows(nonce.number));
            self.words.take(&owner, more).map_err(|_| Refused::Full)?;
            let taken = stream.take(nonce.number);
            self.words.give_back(&owner, before + more - stream.words.len());
            return taken;
        }
        let known = self.before.get(&key);
        let (words, grows) =
            known.map_or((0, true), |known| (known.words.len(), known.grows(nonce.number)));
        // What is known stays where it is if there is no room for it: nothing of it is forgotten.
        self.take_room(&owner, words, usize::from(grows))?;
        let mut stream = self.before.remove(&key).unwrap_or_default();
        let taken = stream.take(nonce.number);
        self.words.give_back(&owner, words + usize::from(grows) - stream.words.len());
        self.now.insert(key, stream);
        taken
    }

    /// Room for a stream in this window.
    fn take_room(&mut self, owner: &Owner, words: usize, more: usize) -> Result<(), Refused> {
        self.streams.take(owner, 1).map_err(|_| Refused::Full)?;
        self.words.take(owner, words + more).map_err(|_| {
            self.streams.give_back(owner, 1);
            Refused::Full
        })
    }
}

/// The numbers seen of a stream: number `n` is bit `n % 64` of the word of block `n / 64`, if there is one.
#[derive(Debug, Default)]
struct Stream {
    newest: u64,
    /// In the order of their blocks; none is [`WORDS_MAX`] or more below that of the newest.
    words: VecDeque<Word>,
}

#[derive(Debug)]
struct Word {
    block: u64,
    seen: u64,
}

impl Stream {
    fn take(&mut self, number: u64) -> Result<(), Refused> {
        let block = number / WORD_BITS;
        if self.is_late(block) {
            return Err(Refused::Late);
        }
        let at = self.place(block).unwrap_or_else(|at| {
            if self.words.is_empty() {
                // Most senders send little.
                self.words.reserve_exact(1);
            }
            self.words.insert(at, Word { block, seen: 0 });
            at
        });
        let (word, bit) = (&mut self.words[at].seen, 1 << (number % WORD_BITS));
        if *word & bit != 0 {
            return Err(Refused::Seen);
        }
        *word |= bit;
        self.newest = self.newest.max(number);
        let newest = self.newest / WORD_BITS;
        while self.words.front().is_some_and(|word| newest - word.block >= WORDS_MAX) {
            self.words.pop_front();
        }
        Ok(())
    }

    /// True if nobody can say whether a number of this block was seen. Of a stream of which nothing is known, nothing was seen.
    fn is_late(&self, block: u64) -> bool {
        !self.words.is_empty() && (self.newest / WORD_BITS).saturating_sub(block) >= WORDS_MAX
    }

    /// True if this number needs a word more.
    fn grows(&self, number: u64) -> bool {
        let block = number / WORD_BITS;
        !self.is_late(block) && self.place(block).is_err()
    }

    /// Where the word of a block is, or belongs. Mostly it is the last.
    fn place(&self, block: u64) -> Result<usize, usize> {
        match self.words.back() {
            Some(last) if last.block == block => Ok(self.words.len() - 1),
            Some(last) if last.block > block => {
                self.words.binary_search_by_key(&block, |word| word.block)
            }
            _ => Err(self.words.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use protocol::JobId;
    use protocol::auth::Role;

    use super::*;

    const NOW: u64 = 1_700_000_000_000;
    const WINDOW_MS: u64 = 600_000;
    const NUMBERS_KEPT: u64 = (WORDS_MAX - 1) * WORD_BITS;
    const CLIENT: Owner = Owner::Role(Role::Client);

    fn nonce(number: u64) -> Nonce {
        Nonce { stream: 7, number }
    }

    #[test]
    fn a_number_is_taken_once_as_long_as_its_signature_is_good() {
        for start in [NOW, NOW + WINDOW_MS - 1, NOW + WINDOW_MS / 2] {
            let mut nonces = Nonces::default();
            nonces.take(CLIENT, nonce(5), start).unwrap();
            for later in (0..=WINDOW_MS).step_by(10_000) {
                let again = nonces.take(CLIENT, nonce(5), start + later);
                assert_eq!(again, Err(Refused::Seen), "{later}");
            }
            assert_eq!(
                nonces.take(Owner::Role(Role::Worker), nonce(5), start),
                Ok(()),
                "another sender"
            );
        }
    }

    #[test]
    fn a_clock_that_is_set_back_makes_nobody_forget() {
        let border = NOW / WINDOW_MS * WINDOW_MS;
        let mut nonces = Nonces::default();
        nonces.take(CLIENT, nonce(5), border - 1).unwrap();
        nonces.take(CLIENT, nonce(6), border).unwrap();
        for later in [border - 1, border, border - WINDOW_MS, border + WINDOW_MS - 1] {
            for number in [5, 6] {
                let again = nonces.take(CLIENT, nonce(number), later);
                assert_eq!(again, Err(Refused::Seen), "{number} at {later}");
            }
        }
    }

    #[test]
    fn millions_of_requests_of_one_sender_are_taken() {
        let mut nonces = Nonces::default();
        for number in 0..5_000_000 {
            nonces.take(CLIENT, nonce(number), NOW).unwrap();
        }
        let stream = &nonces.now[&(CLIENT, 7)];
        assert_eq!((nonces.now.len(), stream.words.len() as u64), (1, WORDS_MAX));
        assert_eq!(nonces.words.taken(), stream.words.len());
    }

    fn job(number: u32) -> Owner {
        Owner::Job(JobId { cluster_start: 1, number })
    }

    #[test]
    fn what_all_senders_take_is_bounded_and_a_job_has_a_share_of_it() {
        let mut nonces = Nonces { words: Shares::new(1 << 16, PART), ..Nonces::default() };
        // Every request needs a word of its own.
        let far = |at: u64| Nonce { stream: at % 16, number: at * WORD_BITS * 100 };
        let fill = |nonces: &mut Nonces, owner| {
            (0..)
                .take_while(|at| {
                    nonces.take(owner, Nonce { stream: *at, number: u64::MAX / 2 }, NOW).is_ok()
                })
                .count()
        };
        for at in 0..1000 {
            nonces.take(job(1), far(at), NOW).unwrap();
        }
        assert!(nonces.words.of(&job(1)) <= 1000);
        assert_eq!(fill(&mut nonces, job(2)), ((1 << 16) - nonces.words.of(&job(1))) / 4 * 3);
        assert_eq!(
            nonces.take(job(2), Nonce { stream: u64::MAX, number: 0 }, NOW),
            Err(Refused::Full)
        );
        // Others go on, also under new streams; and a number of a word that is there costs nothing.
        for number in 3..8 {
            assert_eq!(nonces.take(job(number), far(1), NOW), Ok(()));
        }
        assert_eq!(nonces.take(job(2), Nonce { stream: 0, number: u64::MAX / 2 - 1 }, NOW), Ok(()));
        assert!(nonces.words.taken() <= 1 << 16);
        let held: usize = nonces.now.values().map(|stream| stream.words.len()).sum();
        assert_eq!(nonces.words.taken(), held);
        assert_eq!(nonces.take(job(2), far(u64::MAX / 6400), NOW + WINDOW_MS), Ok(()));
    }

    #[test]
    fn a_job_that_names_high_numbers_under_new_streams_keeps_no_other_out() {
        let mut nonces = Nonces::default();
        for stream in 0..20_000 {
            assert_eq!(nonces.take(job(1), Nonce { stream, number: u64::MAX / 2 }, NOW), Ok(()));
        }
        assert_eq!(nonces.words.taken(), 20_000);
        assert_eq!(nonces.take(job(2), nonce(1), NOW), Ok(()));
    }

    #[test]
    fn a_stream_of_before_that_finds_no_room_is_not_forgotten() {
        let mut nonces = Nonces { streams: Shares::new(2, PART), ..Nonces::default() };
        nonces.take(job(1), nonce(5), NOW).unwrap();
        let later = NOW + WINDOW_MS;
        for number in [2, 3] {
            nonces.take(job(number), nonce(5), later).unwrap();
        }
        for number in [5, 6] {
            assert_eq!(nonces.take(job(1), nonce(number), later), Err(Refused::Full));
        }
        nonces.streams.give_back(&job(2), 1);
        assert_eq!(nonces.take(job(1), nonce(5), later), Err(Refused::Seen));
        assert_eq!(nonces.take(job(1), nonce(6), later), Ok(()));
    }

    #[test]
    fn who_sends_little_takes_little() {
        let mut stream = Stream::default();
        (0..64).for_each(|number| stream.take(number).unwrap());
        assert_eq!((stream.words.len(), stream.words.capacity()), (1, 1));
        stream.take(64).unwrap();
        assert_eq!(stream.words.len(), 2);
        stream.take(u64::MAX).unwrap();
        assert_eq!((stream.words.len(), stream.take(u64::MAX)), (1, Err(Refused::Seen)));
        assert_eq!(stream.take(65), Err(Refused::Late));
    }

    #[test]
    fn silent_streams_are_forgotten_and_too_many_are_refused() {
        let mut nonces = Nonces::default();
        let most = Shares::<Owner>::new(STREAMS_MAX, PART).alone() as u64;
        assert!(most > 1_000_000);
        for stream in 0..most {
            nonces.take(CLIENT, Nonce { stream, number: 0 }, NOW).unwrap();
        }
        let one_more = Nonce { stream: u64::MAX, number: 0 };
        assert_eq!(nonces.take(CLIENT, one_more, NOW), Err(Refused::Full));
        assert_eq!(nonces.take(Owner::Role(Role::Datanode), one_more, NOW), Ok(()), "another");
        let known = Nonce { stream: 0, number: 1 };
        nonces.take(CLIENT, known, NOW).unwrap();
        nonces.take(CLIENT, one_more, NOW + WINDOW_MS).unwrap();
        nonces.take(CLIENT, one_more, NOW + 3 * WINDOW_MS).unwrap();
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

        /// What is accepted stays refused for as long as its signature is valid, whatever jobs, streams, numbers and times come between.
        #[test]
        fn nothing_is_taken_twice_within_a_window_of_time(
            steps in proptest::collection::vec(
                (0_u32..3, 0_u64..3, prop_oneof![0_u64..200, any::<u64>()], 0_u64..WINDOW_MS / 3),
                1..300,
            ),
            streams in 1_usize..8,
            words in 1_usize..30,
        ) {
            let (streams, words) = (Shares::new(streams, PART), Shares::new(words, PART));
            let mut nonces = Nonces { streams, words, ..Nonces::default() };
            let (mut seen, mut now) = (Vec::new(), NOW);
            for (owner, stream, number, passed) in steps {
                now += passed / 50;
                let key = (owner, stream, number);
                if nonces.take(job(owner), Nonce { stream, number }, now).is_ok() {
                    let valid = seen.iter().any(|(other, at)| *other == key && now - at < WINDOW_MS);
                    prop_assert!(!valid, "{key:?} twice");
                    seen.push((key, now));
                }
                let held: usize = nonces.now.values().map(|stream| stream.words.len()).sum();
                prop_assert_eq!((nonces.words.taken(), nonces.streams.taken()), (held, nonces.now.len()));
            }
        }
    }
}
