//! Which map copies what: bundles of about the same work.

/// What a file or directory costs besides its bytes: opening, creating and renaming take about as long as so many bytes.
const ENTRY_BYTES: u64 = 256 << 10;

/// A map has at least so much to do, if there is so much: less is not worth a process.
const BUNDLE_BYTES_MIN: u64 = 4 << 20;

/// Bundles of so many entries, whose bytes are given; each entry is in one of them. No bundle is empty, and there are at most `count`.
///
/// The largest come first, each into the bundle that has least so far: no bundle has more than 4/3 of the best possible. Entries keep their order within
/// a bundle.
pub(crate) fn bundles(bytes: &[u64], count: u32) -> Vec<Vec<usize>> {
    let all = bytes.iter().fold(0, |sum: u64, entry| sum.saturating_add(load_of(*entry)));
    let worthwhile = usize::try_from(all.div_ceil(BUNDLE_BYTES_MIN)).unwrap_or(usize::MAX);
    let count = bytes.len().min(count as usize).min(worthwhile);
    let mut order: Vec<usize> = (0..bytes.len()).collect();
    order.sort_by_key(|index| (std::cmp::Reverse(bytes[*index]), *index));
    let mut bundles: Vec<(u64, Vec<usize>)> = vec![(0, Vec::new()); count];
    // A heap of (load, number), smallest first.
    let mut loads: std::collections::BinaryHeap<_> =
        (0..count).map(|number| std::cmp::Reverse((0u64, number))).collect();
    for index in order {
        let Some(std::cmp::Reverse((load, number))) = loads.pop() else { break };
        let load = load.saturating_add(load_of(bytes[index]));
        bundles[number].1.push(index);
        bundles[number].0 = load;
        loads.push(std::cmp::Reverse((load, number)));
    }
    // The longest starts first.
    bundles.sort_by_key(|(load, _)| std::cmp::Reverse(*load));
    bundles
        .into_iter()
        .map(|(_, mut entries)| {
            entries.sort_unstable();
            entries
        })
        .collect()
}

/// What an entry of so many bytes costs.
fn load_of(bytes: u64) -> u64 {
    bytes.saturating_add(ENTRY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shared_evenly_and_nothing_is_lost() {
        let megabyte = 1 << 20;
        let bytes: Vec<u64> = (0..97u64)
            .map(|number| (number * 7919 % 101) * megabyte)
            .chain([400 * megabyte])
            .collect();
        for count in [1, 3, 7, 20, 200] {
            let found = bundles(&bytes, count);
            assert_eq!(found.len(), bytes.len().min(count as usize));
            let mut all: Vec<usize> = found.concat();
            all.sort_unstable();
            assert_eq!(all, (0..bytes.len()).collect::<Vec<_>>());
            assert!(found.iter().all(|bundle| !bundle.is_empty() && bundle.is_sorted()));
            let load = |bundle: &Vec<usize>| {
                bundle.iter().map(|index| bytes[*index] + ENTRY_BYTES).sum::<u64>()
            };
            let total: u64 = found.iter().map(load).sum();
            let largest = bytes.iter().max().unwrap() + ENTRY_BYTES;
            let most = total / found.len() as u64 + largest;
            assert!(found.iter().all(|bundle| load(bundle) <= most), "{count}");
        }
        assert!(bundles(&[], 5).is_empty());
        assert_eq!(bundles(&[0; 16], 20).len(), 1);
        assert_eq!(bundles(&[0; 17], 20).len(), 2);
    }
}
