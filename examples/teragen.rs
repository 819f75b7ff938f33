//! Makes the input of `terasort`: records that are the same on every machine, whatever the number of tasks.
//!
//! The job has no input files: [`mr_api::job::rows`] spreads record numbers over map tasks. Each task jumps to its first record and
//! continues from there.

use std::process::ExitCode;

use examples::gensort;
use examples::record::KEY_BYTES;
use mr_api::formats::{Format, Rows};
use mr_api::job::{raw_out, rows};
use mr_api::map::Records;
use mr_api::{Args, Emit, Job, Mapper, Plan, Result, Sink, usage_error};

const HELP: &str = "\
Makes records of 100 bytes for terasort.

Usage: teragen [options] ROWS OUT

  ROWS                   number of records; k, m, b and t stand for thousands and so on
  OUT                    a new directory
  --maps N               tasks that make them (default 2)

Example:
  teragen 10m /tera-in
";

/// Tasks, as in Hadoop.
const MAPS_DEFAULT: u32 = 2;

fn main() -> ExitCode {
    mr_api::main(HELP, plan)
}

/// Describes the job.
fn plan(args: &mut Args) -> Result<Plan> {
    let maps = args.value("--maps")?.unwrap_or(MAPS_DEFAULT);
    let operands = args.operands()?;
    let [count, output] = &operands[..] else {
        return usage_error("teragen takes ROWS and OUT");
    };
    let Some(count) = row_count(count) else {
        return usage_error("ROWS is a number, perhaps with k, m, b or t behind it");
    };
    let job =
        Job::new("teragen").input(rows(count, maps)).map(Make).output(raw_out(output.as_str()));
    Ok(job.into())
}

/// Parses `10m` and the like.
fn row_count(text: &str) -> Option<u64> {
    let (number, zeros) = match text.chars().last()? {
        'k' => (&text[..text.len() - 1], 3),
        'm' => (&text[..text.len() - 1], 6),
        'b' => (&text[..text.len() - 1], 9),
        't' => (&text[..text.len() - 1], 12),
        _ => (text, 0),
    };
    number.parse::<u64>().ok()?.checked_mul(10u64.pow(zeros))
}

/// Makes the record of each number.
#[derive(Clone)]
struct Make;

impl Mapper for Make {
    type In = Rows;
    type Key = Vec<u8>;
    type Value = Vec<u8>;

    fn run<S: Sink>(
        &mut self,
        numbers: Records<'_, Rows>,
        out: &mut Emit<Vec<u8>, Vec<u8>, S>,
    ) -> Result<()> {
        let mut records = None;
        numbers.for_each(|number| {
            let records = records.get_or_insert_with(|| gensort::Records::starting_at(number));
            let record = records.next().ok_or("there is always another record")?;
            let (key, value) = record.split_at(KEY_BYTES);
            out.emit(key, value)
        })
    }

    fn map<S: Sink>(
        &mut self,
        _: <Rows as Format>::Record<'_>,
        _: &mut Emit<Vec<u8>, Vec<u8>, S>,
    ) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mr_api::LocalRunner;

    use super::*;

    #[test]
    fn records_do_not_depend_on_the_number_of_tasks() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let made = |maps: u32| {
            let (maps, output) = (maps.to_string(), path(&format!("out-{maps}")));
            let words = ["--maps", &maps, "1k", &output];
            LocalRunner::new().run(plan(&mut Args::from_words(words).unwrap()).unwrap()).unwrap();
            let part = |map| fs::read(format!("{output}/part-m-{map:05}")).unwrap();
            (0..maps.parse().unwrap()).flat_map(part).collect::<Vec<u8>>()
        };
        let want: Vec<u8> = gensort::Records::starting_at(0).take(1000).flatten().collect();
        assert_eq!(made(1), want);
        assert_eq!(made(7), want);
        assert_eq!(row_count("2b"), Some(2_000_000_000));
        assert!(row_count("x").is_none() && row_count("").is_none());
    }
}
