//! A job whose function reads what is not in its arguments: variables of the environment, a file, a value that changes with each call.
//!
//! `capturing [--unsent PATH] [--clock] STOP-WORDS IN OUT` counts words of at least `MIN_LENGTH` letters that are not in STOP-WORDS.

use std::collections::BTreeSet;
use std::fs;
use std::process::ExitCode;

use mr_api::{Args, Job, Plan, Result, Sum, text, text_out};

fn main() -> ExitCode {
    mr_api::main("Usage: capturing [--unsent PATH] [--clock] STOP-WORDS IN OUT", plan)
}

fn plan(args: &mut Args) -> Result<Plan> {
    if let Some(path) = args.value::<String>("--unsent")? {
        let _ = fs::read_to_string(path)?;
    }
    let is_by_clock = args.flag("--clock");
    let mut operands = args.operands()?;
    let (Some(output), Some(input), Some(stop_words)) =
        (operands.pop(), operands.pop(), operands.pop())
    else {
        return mr_api::usage_error("three operands are needed");
    };
    let length_min: usize = std::env::var("MIN_LENGTH").unwrap_or("1".to_owned()).parse()?;
    let is_set = args.env("NEVER_SET_FOR_CAPTURING").is_some();
    let stop_words: BTreeSet<String> =
        fs::read_to_string(args.file(&stop_words)?)?.lines().map(str::to_owned).collect();
    let made = args.once("made", || Ok(format!("{:?}", std::time::SystemTime::now())))?;
    let mut job = Job::new("capturing").depends_on((&made, is_set));
    if is_by_clock {
        job = job.depends_on(std::time::SystemTime::now());
    }
    let job = job
        .input(text([input]))
        .map_fn::<String, u64, _>(move |line, out| {
            let line = line.to_str_lossy();
            let wanted = |word: &&str| word.len() >= length_min && !stop_words.contains(*word);
            line.split_whitespace().filter(wanted).try_for_each(|word| out.emit(word, 1u64))
        })
        .combine(Sum)
        .reduce(Sum)
        .reducers(1)
        .output(text_out(output));
    Ok(job.into())
}
