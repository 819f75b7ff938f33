//! Cuts the log of a web site into sessions: what a visitor does without a long break. A secondary sort by time.
//!
//! ```text
//! cargo run --release --example sessions -- --local --break 1800 log.tsv OUT
//! ```
//!
//! Reads `visitor<TAB>time<TAB>page`, time in seconds, in any order. Writes `visitor<TAB>begin<TAB>seconds<TAB>pages`, a line for each
//! session.
//!
//! A session ends when nothing comes for as long as the break. So the lines of a visitor are needed in the order of time. The key is
//! `(visitor, time)`: the engine's sort does it, and [`Job::group_by_first`] makes one group of each visitor. The reducer holds one
//! session, however many the visitor has.

use std::borrow::Cow;
use std::process::ExitCode;

use mr_api::{
    Args, Auto, Job, Output, Plan, Reducer, Result, Values, counters, text, text_out, usage_error,
};

const HELP: &str = "\
Cuts a log into the sessions of its visitors.

Usage: sessions [options] IN... OUT

  IN...                  lines `visitor<TAB>seconds<TAB>page`
  OUT                    a new directory: lines `visitor<TAB>begin<TAB>seconds<TAB>pages`
  --break SECONDS        the silence that ends a session (default 1800)

Example:
  sessions --break 900 /logs /sessions
";

counters! {
    enum Lines {
        Malformed,
    }
}

fn main() -> ExitCode {
    mr_api::main(HELP, plan)
}

fn plan(args: &mut Args) -> Result<Plan> {
    let silence: u64 = args.value("--break")?.unwrap_or(1800);
    if silence == 0 {
        return usage_error("--break must be above 0");
    }
    let (inputs, output) = args.inputs_and_output()?;
    let job = Job::new("sessions")
        .input(text(inputs))
        .map_fn::<Visit, (), _>(|line, out| {
            let text = line.to_str_lossy();
            let mut fields = text.split('\t');
            match (fields.next(), fields.next().and_then(|time| time.parse::<u64>().ok())) {
                (Some(visitor), Some(time)) if fields.next().is_some() => {
                    out.emit((visitor, time), ())
                }
                _ => {
                    out.count(Lines::Malformed);
                    Ok(())
                }
            }
        })
        .group_by_first()
        .reduce(Sessions { silence })
        .reducers(Auto)
        .output(text_out(output));
    Ok(job.into())
}

/// A visitor and a time.
type Visit = (String, u64);

/// Cuts the visits of a visitor where they are too far from each other.
#[derive(Clone)]
struct Sessions {
    silence: u64,
}

/// A session so far.
#[derive(Clone, Copy)]
struct Session {
    begin: u64,
    end: u64,
    pages: u64,
}

impl Reducer for Sessions {
    type Key = Visit;
    type Value = ();

    fn reduce(
        &mut self,
        (visitor, begin): (Cow<'_, str>, u64),
        visits: &mut Values<'_, Visit, ()>,
        out: &mut Output,
    ) -> Result<()> {
        let mut now = Session { begin, end: begin, pages: 0 };
        let mut write =
            |Session { begin, end, pages }| out.write(&visitor, (begin, end - begin, pages));
        while visits.next_value()?.is_some() {
            let (_, time) = visits.current_key()?;
            if time - now.end >= self.silence {
                write(now)?;
                now = Session { begin: time, end: time, pages: 0 };
            }
            now = Session { end: time, pages: now.pages + 1, ..now };
        }
        write(now)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mr_api::LocalRunner;
    use mr_api::testing::JobDriver;

    use super::*;

    /// Sorts the times of each visitor in memory and cuts between neighbours.
    fn slow(visits: &[(u64, u64)], silence: u64) -> String {
        let mut times = BTreeMap::<String, Vec<u64>>::new();
        for (visitor, time) in visits {
            times.entry(format!("v{visitor}")).or_default().push(*time);
        }
        let mut lines = String::new();
        for (visitor, times) in &mut times {
            times.sort_unstable();
            for session in times.chunk_by(|a, b| b - a < silence) {
                let (begin, end) = (session[0], session[session.len() - 1]);
                lines += &format!("{visitor}\t{begin}\t{}\t{}\n", end - begin, session.len());
            }
        }
        lines
    }

    #[test]
    fn sessions_are_those_of_sorting_in_memory() {
        let visits: Vec<(u64, u64)> = (0..500u64).map(|n| (n * n % 7, n * 7919 % 20_011)).collect();
        let lines: String =
            visits.iter().map(|(visitor, time)| format!("v{visitor}\t{time}\t/p\n")).collect();
        for silence in [1, 100, 300, 100_000] {
            let runner = LocalRunner::new().reducers(1).split_bytes(700).tiny_memory();
            let driver = JobDriver::new().file("in", lines.clone() + "bad\n").runner(runner);
            let run = driver.run(|path| {
                let words = ["--break".to_owned(), silence.to_string(), path("in"), path("out")];
                plan(&mut Args::from_words(words)?)
            });
            let run = run.unwrap();
            assert_eq!(run.text("part"), slow(&visits, silence), "a break of {silence}");
            assert_eq!(mr_api::task::counted(&run.counters[0], Lines::Malformed), 1);
        }
    }
}
