//! A queue whose entries can be reached by their place. It grows and shrinks by pages, so that no push moves the others.

use std::collections::VecDeque;

/// Entries of a page: an allocation for so many calls, of less than 100 KB.
const PAGE: usize = 1024;

/// See the module. Places count from 0 and are never used again.
pub(super) struct Ring<T> {
    pages: VecDeque<VecDeque<T>>,
    /// Place of the front.
    first: u64,
    /// Entries of the front page that are gone.
    popped: usize,
    len: usize,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Ring { pages: VecDeque::new(), first: 0, popped: 0, len: 0 }
    }
}

impl<T> Ring<T> {
    /// Appends an entry; returns its place.
    pub(super) fn push(&mut self, entry: T) -> u64 {
        if (self.popped + self.len).is_multiple_of(PAGE) {
            self.pages.push_back(VecDeque::with_capacity(PAGE));
        }
        self.pages.back_mut().expect("one was just appended, or has room").push_back(entry);
        self.len += 1;
        self.end() - 1
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.pages.front()?.front()
    }

    /// Takes the entry at the front, with its place.
    pub(super) fn pop(&mut self) -> Option<(u64, T)> {
        let entry = self.pages.front_mut()?.pop_front()?;
        let place = self.first;
        self.first += 1;
        self.len -= 1;
        self.popped += 1;
        if self.popped == PAGE {
            self.pages.pop_front();
            self.popped = 0;
        }
        Some((place, entry))
    }

    /// The entry at a place, of which the lowest 32 bits are given: there are never as many entries.
    pub(super) fn at(&self, place: u32) -> Option<&T> {
        #[expect(clippy::cast_possible_truncation, reason = "the same bits as of `place`")]
        let distance = place.wrapping_sub(self.first as u32) as usize;
        let index = self.popped + distance;
        let page = self.pages.get(index / PAGE)?;
        page.get(if index < PAGE { distance } else { index % PAGE })
    }

    /// The entries from a place on, each with its place.
    pub(super) fn since(&self, place: u64) -> impl Iterator<Item = (u64, &T)> {
        let skipped = usize::try_from(place.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let index = self.popped + skipped;
        let pages = self.pages.iter().enumerate().skip(index / PAGE);
        let entries = pages.flat_map(move |(number, page)| {
            let gone = if number == 0 { self.popped } else { 0 };
            page.iter().skip(index.saturating_sub(number * PAGE + gone))
        });
        (self.first.max(place)..).zip(entries)
    }

    /// Place of the front.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Place of the next entry.
    pub(super) fn end(&self) -> u64 {
        self.first + self.len as u64
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_at_their_places_however_many_came_and_went() {
        let mut ring = Ring::default();
        let (mut first, mut end) = (0u64, 0u64);
        let rounds = [3, 1, PAGE, PAGE - 4, 5, 3 * PAGE, 2 * PAGE + 7, 1, 2 * PAGE, 1];
        for (round, count) in rounds.into_iter().enumerate() {
            for _ in 0..count {
                if round % 2 == 0 {
                    assert_eq!(ring.push(end), end);
                    end += 1;
                } else if let Some((place, entry)) = ring.pop() {
                    assert_eq!((place, entry), (first, first));
                    first += 1;
                }
            }
            assert_eq!((ring.first(), ring.end(), ring.len() as u64), (first, end, end - first));
            assert_eq!(ring.front().copied(), (first < end).then_some(first));
            for place in first..end {
                assert_eq!(ring.at(u32::try_from(place).unwrap()), Some(&place));
            }
            assert_eq!(ring.at(u32::try_from(end).unwrap()), None);
            for from in [0, first, first + 1, (first + end) / 2, end, end + 9] {
                let found: Vec<u64> = ring
                    .since(from)
                    .map(|(place, entry)| {
                        assert_eq!(place, *entry);
                        place
                    })
                    .collect();
                assert_eq!(found, (first.max(from)..end).collect::<Vec<_>>(), "from {from}");
            }
        }
    }
}
