//! Which member of a pipeline holds up all others. Pure.
//!
//! Every member counts how long it has waited for the members behind it: to take its packets, and to acknowledge them. The writer counts the same. If a member
//! is slow, every member before it waits equally long. So the time that a member took itself is the wait of the one before it, less its own wait:
//!
//! ```text
//!           writer --- member 0 --- member 1 --- member 2
//! waited      900          880          20            0
//! took itself               20         860           20      member 1 is slow
//! ```
//!
//! Waiting counts only while the process runs, so a process that is stopped repeatedly blames nobody else. The comparison uses sums over some seconds, so data
//! in buffers does not matter.

/// The writer's wait, milliseconds, after which members are compared: packets come in bursts, so a single moment means little.
const ROUND_MS: u64 = 2000;
/// Rounds in a row that must name the same member.
const ROUNDS_MIN: u32 = 2;
/// A member that takes less per packet is not slow, milliseconds: 1 MiB in that time is 10 MiB/s, a fifth of an old disk.
const PACKET_FLOOR_MS: u64 = 100;
/// A slow member takes at least this many times as long as any other.
const FACTOR: u64 = 3;

/// The members of one pipeline.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// At the beginning of the round: the writer's wait, then that of each member.
    begin_ms: Vec<u64>,
    packet_count: u32,
    /// Whom the last rounds named, and how many of them.
    suspect: Option<(usize, u32)>,
}

impl Pace {
    /// Records how long the writer and each member have waited since the pipeline was made, at one more acknowledged packet. At the end of a round, returns the
    /// member that is slow and stays so.
    pub fn note(&mut self, writer_ms: u64, waits_ms: &[u32]) -> Option<usize> {
        let members = waits_ms.iter().map(|ms| u64::from(*ms));
        let now_ms: Vec<u64> = std::iter::once(writer_ms).chain(members).collect();
        if self.begin_ms.len() != now_ms.len() {
            *self = Pace { begin_ms: now_ms, ..Pace::default() };
            return None;
        }
        self.packet_count += 1;
        if writer_ms.saturating_sub(self.begin_ms[0]) < ROUND_MS {
            return None;
        }
        let waited: Vec<u64> = now_ms
            .iter()
            .zip(&self.begin_ms)
            .map(|(now, begin)| now.saturating_sub(*begin))
            .collect();
        let took: Vec<u64> =
            waited.windows(2).map(|pair| pair[0].saturating_sub(pair[1])).collect();
        let named = slowest(&took, u64::from(self.packet_count));
        self.suspect = named.map(|member| match self.suspect {
            Some((same, count)) if same == member => (member, count + 1),
            _ => (member, 1),
        });
        self.begin_ms = now_ms;
        self.packet_count = 0;
        self.suspect.filter(|(_, count)| *count >= ROUNDS_MIN).map(|(member, _)| member)
    }
}

/// The member that is slow in this round alone.
fn slowest(took_ms: &[u64], packet_count: u64) -> Option<usize> {
    let (member, most) = took_ms.iter().copied().enumerate().max_by_key(|(_, ms)| *ms)?;
    let others = took_ms.iter().enumerate().filter(|(other, _)| *other != member);
    let next = others.map(|(_, ms)| *ms).max()?;
    (most >= PACKET_FLOOR_MS * packet_count && most >= FACTOR * next).then_some(member)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds packets that take each member this long, with a constant backlog in front of the slow one.
    fn run(took_ms: &[u32], packets: u32) -> Option<(u32, usize)> {
        let mut pace = Pace::default();
        let mut waited: Vec<u32> = vec![0; took_ms.len() + 1];
        for packet in 1..=packets {
            for (place, wait) in waited.iter_mut().enumerate() {
                *wait += took_ms[place..].iter().sum::<u32>();
            }
            if let Some(member) = pace.note(u64::from(waited[0]), &waited[1..]) {
                return Some((packet, member));
            }
        }
        None
    }

    #[test]
    fn only_a_member_far_behind_the_others_is_slow() {
        // The first packet begins the first round.
        let soonest = |took_ms: &[u32]| {
            let packet_ms = u64::from(took_ms.iter().sum::<u32>());
            1 + ROUNDS_MIN * ROUND_MS.div_ceil(packet_ms) as u32
        };
        for (took_ms, slow) in [
            (&[5, 5, 900][..], Some(2)),
            (&[5, 900, 5], Some(1)),
            (&[900, 5, 5], Some(0)),
            (&[0, 100, 0], Some(1)),
            (&[0, 99, 0], None),
            (&[301, 900, 300], None),
            (&[300, 900, 300], Some(1)),
            (&[1, 1, 1], None),
            // A single member has no other to be compared with.
            (&[5000], None),
            (&[], None),
        ] {
            let found = run(took_ms, 100);
            assert_eq!(found, slow.map(|member| (soonest(took_ms), member)), "{took_ms:?}");
        }
    }

    #[test]
    fn one_bad_moment_is_forgiven() {
        let mut pace = Pace::default();
        let mut waited = [0u32; 4];
        for packet in 0..200 {
            // Different members in turn; and once, a single one for a long time.
            let (victim, ms) = match packet {
                150 => (2, 30_000),
                packet if packet <= 100 => (1 + packet % 2, 2000),
                _ => (0, 1),
            };
            for (place, wait) in waited.iter_mut().enumerate() {
                *wait += if place <= victim { ms } else { 0 };
            }
            assert_eq!(pace.note(u64::from(waited[0]), &waited[1..]), None, "packet {packet}");
        }
    }

    #[test]
    fn another_pipeline_begins_anew() {
        let mut pace = Pace::default();
        for packet in 1..=4u32 {
            assert_eq!(pace.note(u64::from(packet) * 900, &[packet * 900, 0]), None);
        }
        assert_eq!(pace.note(10_000, &[0]), None, "one member less");
        // Counts that go backwards are no reason to panic or to blame.
        for _ in 0..20 {
            assert_eq!(pace.note(0, &[0]), None);
        }
    }
}
