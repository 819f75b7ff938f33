//! The highest temperature of each station with the day of the measurement, without sorting in memory: a secondary sort.
//!
//! ```text
//! cargo run --release --example secondary_sort -- --local readings.tsv OUT
//! ```
//!
//! Reads `station<TAB>day<TAB>tenths of a degree`. The key is `(station, Desc(temperature))`: the engine's sort puts the hottest reading of
//! a station first. [`Job::group_by_first`] sends all keys of a station to one reduce task and makes them one group. The reducer takes the
//! first value and is done; the rest of the group is skipped.

use std::process::ExitCode;

use mr_api::datum::Desc;
use mr_api::{Args, Emit, Job, Line, Lines, Mapper, Plan, Result, Sink, reduce_fn, text, text_out};

const HELP: &str = "\
Finds the hottest day of each station.

Usage: secondary_sort [options] IN... OUT

  IN                     lines `station<TAB>day<TAB>tenths of a degree`
  OUT                    a new directory: lines `station<TAB>day<TAB>tenths`
";

fn main() -> ExitCode {
    mr_api::main(HELP, plan)
}

type Key = (String, Desc<i32>);

/// Emits `((station, falling temperature), day)`; counts malformed lines.
#[derive(Clone)]
struct Readings;

impl Mapper for Readings {
    type In = Lines;
    type Key = Key;
    type Value = String;

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<Key, String, S>) -> Result<()> {
        let text = line.to_str_lossy();
        let mut fields = text.split('\t');
        let reading =
            (fields.next(), fields.next(), fields.next().and_then(|t| t.parse::<i32>().ok()));
        match reading {
            (Some(station), Some(day), Some(tenths)) => out.emit((station, Desc(tenths)), day),
            _ => {
                out.counter("Readings", "malformed").increment();
                Ok(())
            }
        }
    }
}

fn plan(args: &mut Args) -> Result<Plan> {
    let (inputs, output) = args.inputs_and_output()?;
    let job = Job::new("hottest-days")
        .input(text(inputs))
        .map(Readings)
        .group_by_first()
        .reduce(reduce_fn::<Key, String, _>(|(station, Desc(tenths)), values, out| {
            match values.next_value()? {
                Some(day) => out.write(station, (day, tenths)),
                None => Ok(()),
            }
        }))
        .output(text_out(output));
    Ok(job.into())
}

#[cfg(test)]
mod tests {
    use mr_api::LocalRunner;

    use super::*;

    #[test]
    fn the_hottest_day_comes_first_in_its_group() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let input = "oslo\tmon\t-12\nrome\ttue\t301\noslo\twed\t45\nrome\tfri\t-300\nbad line\n";
        std::fs::write(path("in"), input).unwrap();
        let mut args = Args::from_words([path("in"), path("out")]).unwrap();
        let runner = LocalRunner::new().reducers(1).tiny_memory();
        let counters = runner.run(plan(&mut args).unwrap()).unwrap();
        let text = std::fs::read_to_string(path("out/part-r-00000")).unwrap();
        assert_eq!(text, "oslo\twed\t45\nrome\ttue\t301\n");
        assert_eq!(counters[0].value("Readings", "malformed"), 1);
    }
}
