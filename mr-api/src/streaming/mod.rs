//! Hadoop Streaming: a job whose mapper and reducer are commands that read records on standard input and print records.
//!
//! ```text
//! input ─► format ─► mapper script ─► key, value ─► sort, shuffle ─► reducer script ─► output
//! ```
//!
//! The program that receives the command line also runs the streaming job: [`run`] is driver and task runner alike, and a worker starts it
//! with the same words.

mod aggregate;
mod args;
mod command;
mod environment;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod input;
mod io;
mod key_field;
mod process;
mod read_ahead;
mod stages;
mod typed;
mod unread;

use mr_model::job::{Job, Plan};
use mr_model::runner::{amend, combine_fillings, say};
use mr_model::{BoxError, Error, Result};
use protocol::error::chain;
use protocol::property::Scope;

use crate::run::{Shipped, conf, entry};

pub use crate::run::conf::as_default;
pub use crate::run::{Speaker, Voice};
pub use args::HELP;

use args::{Request, Spec};
use stages::{StreamCombiner, StreamMapper, StreamReducer};

/// Last line of Hadoop's driver when it fails.
const FAILED: &str = "Streaming Command Failed!";
/// Reduce tasks by default, as in Hadoop: scripts rely on one output file.
const REDUCERS_DEFAULT: u32 = 1;

/// Runs `hanno job streaming WORDS`. `prefix` holds the words before those, which a worker needs to reach this function again.
///
/// The exit code: 0 if the job succeeded, 1 if it failed, and also for a wrong command line, as with Hadoop's.
pub fn run(prefix: &[&str], words: &[String], voice: Voice) -> u8 {
    let outcome = start(prefix, words, voice);
    match (voice, outcome) {
        (Voice::Log(lead), Err(error)) if !entry::asks_help(&error) => {
            say(format_args!("{}{}\n{FAILED}\n", lead("ERROR", Speaker::StreamJob), told(&error)));
            entry::EXIT_FAILED
        }
        (_, outcome) => entry::report(HELP, outcome, entry::EXIT_FAILED),
    }
}

/// What Hadoop's log has of a failure. Those of a job are there already.
fn told(error: &BoxError) -> String {
    match error.downcast_ref() {
        Some(Error::JobFailed { .. } | Error::JobKilled { .. }) => "Job not successful!".to_owned(),
        Some(Error::Usage { .. } | Error::Property(_)) => chain(&**error),
        _ => format!("Error Launching job : {}", chain(&**error)),
    }
}

fn start(prefix: &[&str], words: &[String], voice: Voice) -> Result<()> {
    let words = conf::expand(words)?;
    let Request { spec, mut options } = args::parse(&words)?;
    options.voice = voice;
    let quiet = options.quiet;
    let all: Vec<String> = prefix.iter().map(|word| (*word).to_owned()).chain(words).collect();
    entry::start(&all, options, Scope::Streaming, || Ok((plan(&spec)?, Shipped::default())))?;
    if let (Voice::Log(lead), false) = (voice, quiet) {
        let lead = lead("INFO", Speaker::StreamJob);
        say(format_args!("{lead}Output directory: {}\n", spec.output));
    }
    Ok(())
}

/// The job that a command line describes.
fn plan(spec: &Spec) -> Result<Plan> {
    let job = Job::new(spec.name.clone()).input(spec.input()).map(StreamMapper::new(spec));
    let job = amend(job, |settings| {
        settings.side_files.extend(spec.side_files.iter().cloned());
        settings.describe(&spec.describe());
        if let Some(partition) = spec.partition().filter(|_| !spec.is_map_only()) {
            settings.partition = partition;
        }
    });
    if spec.is_map_only() {
        return Ok(job.output(spec.output()).into());
    }
    let reducer = StreamReducer::new(spec);
    let job = match StreamCombiner::new(spec) {
        Some(combiner) => combine_fillings(job, combiner, reducer),
        None => job.reduce(reducer),
    };
    Ok(job.reducers(spec.reducers.unwrap_or(REDUCERS_DEFAULT)).output(spec.output()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_command_line_ends_as_with_hadoop() {
        let run = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            let logged = run(&[], &words, Voice::Log(|level, who| format!("{level} {who:?}: ")));
            let plain = run(&[], &words, Voice::Plain);
            assert_eq!(logged, plain, "{words:?}");
            plain
        };
        assert_eq!(run(&["-what"]), 1);
        assert_eq!(run(&["-input", "a"]), 1);
        assert_eq!(run(&["-input", "a", "-output", "b", "-D", "mapred.reduce.tasks=x"]), 1);
        assert_eq!(run(&["-help"]), 0);
    }
}
