//! The keys that hold a large share of a reduce's records.
//!
//! Each key comes once, with all its records, so the heaviest are known exactly, without a sketch. Invariants: memory is constant
//! ([`KEPT_MAX`] keys of [`KEY_BYTES_MAX`]); a group that is not among the heaviest costs one comparison.

use protocol::tracker::HotKey;

use crate::datum::Datum;

/// Keys kept while a reduce runs.
const KEPT_MAX: usize = HotKey::COUNT_MAX;
/// Bytes kept of a key: more than the pages display.
const KEY_BYTES_MAX: usize = 512;
/// A key with fewer records delays nobody.
const RECORDS_MIN: u64 = 1_000;
/// A key is hot if it has at least this share of its reduce's records, per cent.
const SHARE_MIN_PERCENT: u64 = 5;

/// Collects the heaviest keys.
#[derive(Debug)]
pub(crate) struct Heaviest {
    kept: Vec<(u64, Vec<u8>)>,
    /// A group with fewer records is not among them.
    least: u64,
}

impl Default for Heaviest {
    fn default() -> Self {
        Heaviest { kept: Vec::new(), least: RECORDS_MIN }
    }
}

impl Heaviest {
    /// Records a whole group.
    #[inline]
    pub(crate) fn group(&mut self, key: &[u8], records: u64) {
        if records >= self.least {
            self.keep(key, records);
        }
    }

    #[cold]
    fn keep(&mut self, key: &[u8], records: u64) {
        self.kept.push((records, key[..key.len().min(KEY_BYTES_MAX)].to_vec()));
        self.kept.sort_by(|(a, _), (b, _)| b.cmp(a));
        self.kept.truncate(KEPT_MAX);
        if self.kept.len() == KEPT_MAX {
            self.least = self.kept[KEPT_MAX - 1].0 + 1;
        }
    }

    /// Those that are hot among `all` records, most records first, as text.
    pub(crate) fn of<K: Datum>(&self, all: u64) -> Vec<HotKey> {
        let is_hot =
            |records: u64| records.saturating_mul(100) >= all.saturating_mul(SHARE_MIN_PERCENT);
        let hot = self.kept.iter().filter(|(records, _)| is_hot(*records));
        hot.map(|(records, key)| HotKey { text: shortened(&K::describe(key)), records: *records })
            .collect()
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(HotKey::CHARS_MAX) {
        None => text.to_owned(),
        Some(_) => text.chars().take(HotKey::CHARS_MAX - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(groups: &[(String, u64)]) -> Vec<(String, u64)> {
        let mut heaviest = Heaviest::default();
        groups.iter().for_each(|(key, records)| heaviest.group(key.as_bytes(), *records));
        let all = groups.iter().map(|(_, records)| records).sum();
        heaviest.of::<String>(all).into_iter().map(|hot| (hot.text, hot.records)).collect()
    }

    proptest! {
        #[test]
        fn those_told_are_the_heaviest_by_a_plain_sort(counts in proptest::collection::vec(0u64..20_000, 0..40)) {
            let groups: Vec<(String, u64)> =
                counts.iter().enumerate().map(|(at, count)| (format!("key {at:02}"), *count)).collect();
            let all: u64 = counts.iter().sum();
            let mut plain = groups.clone();
            plain.retain(|(_, records)| *records >= RECORDS_MIN && records * 100 >= all * SHARE_MIN_PERCENT);
            plain.sort_by(|(_, a), (_, b)| b.cmp(a));
            plain.truncate(KEPT_MAX);
            prop_assert_eq!(told(&groups), plain);
        }
    }

    #[test]
    fn texts_are_short() {
        let long = "ä".repeat(KEY_BYTES_MAX);
        let [(text, records)] = &told(&[(long, 5_000)])[..] else { panic!("one is hot") };
        assert_eq!((text.chars().count(), *records), (HotKey::CHARS_MAX, 5_000));
        assert!(text.ends_with('…'), "{text}");
    }
}
