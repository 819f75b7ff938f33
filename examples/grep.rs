//! Finds the matches of a regular expression and counts how often each occurs: two chained jobs.
//!
//! ```text
//! cargo run --release --example grep -- --local src matches 'fn [a-z_]+'
//! grep IN OUT '(\w+)@(\w+)' 2                # count only what the second group matched
//! ```
//!
//! The first job, `grep-search`, counts: its mapper emits each match with the number one, and [`Sum`] adds them up. Its output is
//! [`intermediate`]: a directory that only the next job sees. The second job, `grep-sort`, reads it with [`previous`] and sorts by falling
//! count. Its key is `(Desc<u64>, bytes)`: the order of encoded keys is the order of their values, so the engine's sort by bytes does the
//! work. One reduce task makes one sorted file of lines `count<TAB>match`.
//!
//! Mappers here are closures ([`Job::map_fn`]), which use everything that they capture, like the expression: each worker builds it again
//! from the same arguments. Anything else that the function reads must be sent along, as [`Args::file`] does for the file of `-f`.

use std::process::ExitCode;

use mr_api::datum::Desc;
use mr_api::{
    Always, Args, Auto, Job, Plan, Result, Sum, intermediate, parse, previous, reduce_fn, text,
    text_out, usage_error,
};
use regex::bytes::Regex;

const HELP: &str = "\
Counts what a regular expression matches in text files, most frequent first.

Usage: grep [options] IN... OUT REGEX [GROUP]
       grep [options] -f FILE IN... OUT

  IN...                  files or directories
  OUT                    a new directory for the result: lines `count<TAB>match`
  REGEX                  the expression
  GROUP                  number of the group to count (default: 0, the whole match); with it there is one IN
  -f FILE                the expression stands in FILE
  -i                     ignore case

Examples:
  grep --local src found 'fn [a-z_]+'
  grep /logs /errors 'ERROR ([A-Z]+)' 1
";

fn main() -> ExitCode {
    mr_api::main(HELP, plan)
}

fn plan(args: &mut Args) -> Result<Plan> {
    let ignore_case = args.flag("-i");
    let file: Option<String> = args.value("-f")?;
    let mut operands = args.operands()?;
    if let Some(file) = file {
        let expression = std::fs::read_to_string(args.file(&file)?)?;
        operands.push(expression.trim_end().to_owned());
    }
    let Request { inputs, output, regex, group } = request(operands)?;
    let regex = if ignore_case { format!("(?i){regex}") } else { regex };
    let regex = Regex::new(&regex)?;
    if group >= regex.captures_len() {
        return usage_error(format!("the expression has no group {group}"));
    }

    let search = Job::new("grep-search")
        .input(text(inputs))
        .map_fn::<Vec<u8>, u64, _>(move |line, out| {
            if group == 0 {
                return regex
                    .find_iter(&line)
                    .try_for_each(|found| out.emit(found.as_bytes(), 1u64));
            }
            for found in regex.captures_iter(&line) {
                if let Some(found) = found.get(group) {
                    out.emit(found.as_bytes(), 1u64)?;
                }
            }
            Ok(())
        })
        .combine(Sum)
        .reduce(Sum)
        .reducers(Auto)
        .output(intermediate());

    let sort = Job::new("grep-sort")
        .input(previous())
        .map_fn::<(Desc<u64>, Vec<u8>), (), _>(|line, out| {
            let tab = line.iter().rposition(|byte| *byte == b'\t').ok_or("a line without a tab")?;
            let count: u64 = parse(&line[tab + 1..], "count", line.bytes)?;
            out.emit((Desc(count), &line[..tab]), ())
        })
        .reduce(reduce_fn(|(count, found), _values, out| out.write(count, found)))
        .reducers(Always(1))
        .output(text_out(output));

    Ok(Plan::from(search).then(sort))
}

struct Request {
    inputs: Vec<String>,
    output: String,
    regex: String,
    group: usize,
}

/// `IN... OUT REGEX`, or `IN OUT REGEX GROUP`.
fn request(mut operands: Vec<String>) -> Result<Request> {
    let group = match &operands[..] {
        [_, _, _, group] => group.parse().ok(),
        _ => None,
    };
    if group.is_some() {
        operands.pop();
    }
    match (operands.pop(), operands.pop()) {
        (Some(regex), Some(output)) if !operands.is_empty() => {
            Ok(Request { inputs: operands, output, regex, group: group.unwrap_or(0) })
        }
        _ => usage_error("an input, an output and an expression are needed"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mr_api::LocalRunner;

    use super::*;

    const TEXT: &str = "fn main() { fn inner() {} }\nlet x = FN;\n\nfn main fn\tmain\r\nfn z\n";

    fn grep(words: &[&str]) -> String {
        let scratch = tempfile::tempdir().unwrap();
        let (input, output) = (scratch.path().join("in"), scratch.path().join("out"));
        std::fs::write(&input, TEXT).unwrap();
        let all = [&words[..1], &[input.to_str().unwrap(), output.to_str().unwrap()], &words[1..]];
        let mut args =
            Args::from_words(all.concat().into_iter().filter(|w| !w.is_empty())).unwrap();
        LocalRunner::new().split_bytes(7).tiny_memory().run(plan(&mut args).unwrap()).unwrap();
        let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().collect();
        assert_eq!(left.len(), 2, "nothing but input and output is left: {left:?}");
        std::fs::read_to_string(output.join("part-r-00000")).unwrap()
    }

    /// Counts line by line with a map and sorts.
    fn slow(regex: &str, group: usize) -> String {
        let regex = Regex::new(regex).unwrap();
        let mut counts = BTreeMap::<Vec<u8>, u64>::new();
        for line in TEXT.split(['\n', '\r']) {
            for found in regex.captures_iter(line.as_bytes()) {
                if let Some(found) = found.get(group) {
                    *counts.entry(found.as_bytes().to_vec()).or_default() += 1;
                }
            }
        }
        let mut sorted: Vec<_> = counts.into_iter().collect();
        sorted.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        sorted
            .iter()
            .map(|(found, count)| format!("{count}\t{}\n", String::from_utf8_lossy(found)))
            .collect()
    }

    #[test]
    fn matches_are_counted_and_sorted() {
        assert_eq!(grep(&["", "fn [a-z]+"]), slow("fn [a-z]+", 0));
        assert_eq!(grep(&["", "fn [a-z]+"]), "2\tfn main\n1\tfn inner\n1\tfn z\n");
        assert_eq!(grep(&["", r"fn\s([a-z]+)", "1"]), slow(r"fn\s([a-z]+)", 1));
        assert_eq!(grep(&["-i", "fn"]), slow("(?i)fn", 0));
        assert_eq!(grep(&["", "nowhere"]), "");
    }

    #[test]
    fn mistakes_are_named() {
        for words in [&["in", "out"][..], &["in", "out", "("], &["in", "out", "x", "1"]] {
            let mut args = Args::from_words(words.iter().copied()).unwrap();
            assert!(plan(&mut args).is_err(), "{words:?}");
        }
    }
}
