//! What a page shows of what a command prints.
//!
//! It is the same, line by line, but for the following: `…` as a line stands for any lines, inside a line for any text. The digits of ids that tell when
//! a cluster began, of dates, times, ports of this machine, and of counters of time and memory may differ.

use std::sync::LazyLock;

use regex::Regex;

/// Stands for what is left out.
const LEFT_OUT: &str = "…";

/// What differs from run to run, each with what remains of it.
static VARIABLE: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let pairs = [
        (r"\b(job|task|attempt)_\d+_", "${1}_N_"),
        (r"\b\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "DATE"),
        (r"\b\d+\.\d+ ?s(ec)?\b", "N s"),
        (r"(127\.0\.0\.1:)\d+", "${1}N"),
        (r"(MICROS|\(ms\)|\(bytes\) snapshot)=\d+", "${1}=N"),
    ];
    pairs.map(|(pattern, rest)| (Regex::new(pattern).unwrap(), rest)).into()
});

/// An error if it is not what is shown.
pub(super) fn compare(shown: &str, printed: &str) -> Result<(), String> {
    let [expected, found] = [shown, printed].map(plain);
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    if are_same(&lines(&expected), &lines(&found)) {
        return Ok(());
    }
    Err(format!("what is shown is not what is printed\nshown:\n{shown}printed:\n{printed}"))
}

/// Without what may differ.
fn plain(text: &str) -> String {
    let replace = |text: String, (pattern, rest): &(Regex, &str)| {
        pattern.replace_all(&text, *rest).into_owned()
    };
    VARIABLE.iter().fold(text.to_owned(), replace)
}

fn are_same(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == LEFT_OUT => {
            (0..=printed.len()).any(|count| are_same(rest, &printed[count..]))
        }
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, printed)| is_same(first, line) && are_same(rest, printed)),
    }
}

fn is_same(shown: &str, line: &str) -> bool {
    match shown.split_once(LEFT_OUT) {
        None => shown == line,
        Some((begin, rest)) => line.strip_prefix(begin).is_some_and(|line| {
            let ends = line.char_indices().map(|(at, _)| at).chain([line.len()]);
            ends.into_iter().any(|at| is_same(rest, &line[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_varies_may_differ() {
        for (shown, printed) in [
            ("", ""),
            ("a\nb\n", "a\nb\n"),
            ("a\n…\nc\n", "a\nc\n"),
            ("a\n…\nc\n", "a\nb\nb\nc\n"),
            ("…\nc\n", "a\nc\nc\n"),
            ("a … c …\n", "a b c d\n"),
            ("job_202611231000_0001 ok\n", "job_202701010203_0001 ok\n"),
            ("2026-11-23 10:00 a\n", "2027-01-02 03:04 a\n"),
            ("in 0.05s, 1.2 s, 1.234sec\n", "in 10.5s, 0.0 s, 0.001sec\n"),
            ("http://127.0.0.1:9870/\n", "http://127.0.0.1:11040/\n"),
            ("MAP_MICROS=1\n", "MAP_MICROS=234\n"),
            ("(ms)=1 (bytes) snapshot=1\n", "(ms)=0 (bytes) snapshot=99\n"),
        ] {
            assert_eq!(compare(shown, printed), Ok(()), "{shown} {printed}");
        }
        for (shown, printed) in [
            ("", "a\n"),
            ("a\n", ""),
            ("a\n", "b\n"),
            ("a\n", "a\nb\n"),
            ("a\n…\nc\n", "a\nb\n"),
            ("a … c\n", "a b d\n"),
            ("job_202611231000_0001\n", "job_202611231000_0002\n"),
            ("http://127.0.0.1:9870/\n", "http://127.0.0.2:9870/\n"),
            ("Map input records=1\n", "Map input records=2\n"),
            ("MAP_MICROS=1\n", "MAP_SORT_MICROS=1\n"),
            ("5 tests in 0.05s\n", "6 tests in 0.05s\n"),
        ] {
            assert!(compare(shown, printed).is_err(), "{shown} {printed}");
        }
    }
}
