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
    let near = known.into_iter().filter_map(|known| Some((errors(name, known)?, known)));
    near.min().map(|(_, known)| known)
}

/// How many typing errors make `known` of `typed`; `None` if that are too many.
fn errors(typed: &str, known: &str) -> Option<usize> {
    let pairs = typed.chars().zip(known.chars());
    let common: usize =
        pairs.take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum();
    let (rest, known) = (&typed[common..], &known[common..]);
    let length = rest.chars().count().max(known.chars().count());
    let errors_max = (length / CHARS_PER_ERROR).max(ERRORS_MAX);
    let errors_max = errors_max.min(length / CHARS_PER_ERROR_MIN).max(1);
    let found = strsim::osa_distance(rest, known);
    let is_near = found <= errors_max && found * CHARS_PER_ERROR_MIN <= typed.chars().count();
    is_near.then_some(found)
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
}
