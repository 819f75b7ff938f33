//! Which known name a mistyped one was meant to be.
//!
//! Invariant: names are compared behind what they begin with in common, so a long common prefix makes no two names alike.

/// Most typing errors in any name. A longer rest may have one for every [`CHARS_PER_ERROR`] characters.
const ERRORS_MAX: usize = 2;
const CHARS_PER_ERROR: usize = 4;
/// Where more than one character of so many differs, a short rest is another word.
const CHARS_PER_ERROR_MIN: usize = 3;

/// The known name nearest to `name`, if it is near enough to have been meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed: Vec<char> = name.chars().collect();
    let near = known.into_iter().filter_map(|known| Some((errors(&typed, known)?, known)));
    near.min().map(|(_, known)| known)
}

/// How many typing errors make `known` of `typed`; `None` if that are too many.
fn errors(typed: &[char], known: &str) -> Option<usize> {
    let known: Vec<char> = known.chars().collect();
    let common = typed.iter().zip(&known).take_while(|(one, other)| one == other).count();
    let (rest, known) = (&typed[common..], &known[common..]);
    let length = rest.len().max(known.len());
    let errors_max = (length / CHARS_PER_ERROR).max(ERRORS_MAX);
    let errors_max = errors_max.min(length / CHARS_PER_ERROR_MIN).max(1);
    let found = distance(rest, known);
    (found <= errors_max && found * CHARS_PER_ERROR_MIN <= typed.len()).then_some(found)
}

/// How many characters must be put in, left out, replaced, or swapped with the next (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        let known = [
            "bind",
            "heartbeat_ms",
            "rack",
            "replication",
            "mapreduce.job.maps",
            "mapreduce.job.name",
            "mapreduce.job.reduces",
            "mapreduce.map.memory.mb",
            "mapreduce.reduce.memory.mb",
        ];
        for (typed, meant) in [
            ("hartbeat_ms", Some("heartbeat_ms")),
            ("replicatoin", Some("replication")),
            ("replicas", None),
            ("rak", Some("rack")),
            ("bindings", None),
            ("b", None),
            ("mapreduce.job.reducers", Some("mapreduce.job.reduces")),
            ("mapreduce.job.nmae", Some("mapreduce.job.name")),
            ("mapreduce.job.map", Some("mapreduce.job.maps")),
            ("mapreduce.job.tags", None),
            ("mapreduce.job.ubertask", None),
            ("mapreduce.map.cpu.vcores", None),
            ("mapreduce.map.memory.xb", Some("mapreduce.map.memory.mb")),
            ("", None),
        ] {
            assert_eq!(nearest(typed, known), meant, "{typed}");
        }
    }

    #[test]
    fn distances_of_words() {
        for (one, other, expected) in
            [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("ab", "ba", 1), ("é", "e", 1)]
        {
            let [a, b] = [one, other].map(|word| word.chars().collect::<Vec<char>>());
            assert_eq!((distance(&a, &b), distance(&b, &a)), (expected, expected), "{one} {other}");
        }
    }
}
