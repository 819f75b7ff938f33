//! Hadoop's sort benchmark: records of 100 bytes, sorted as a whole by their first ten.
//!
//! ```text
//! cargo build --release --examples
//! teragen 10m /tera-in          # 10 million records, 1 GB
//! terasort /tera-in /tera-out
//! teravalidate /tera-out /tera-report
//! ```
//!
//! One line makes this a sort of the whole output and not of each part: [`Job::total_order`]. The driver samples keys all over the input
//! and gives each reduce task a range of keys with about as many records as any other. There is nothing to reduce: each record is written
//! unchanged.
//!
//! The records are gensort's (`https://www.ordinal.com/gensort.html`), byte for byte: `teragen` makes them.

use std::process::ExitCode;

use examples::record::{KEY_BYTES, RECORD_BYTES};
use mr_api::formats::FixedLength;
use mr_api::job::raw_out;
use mr_api::{
    Args, Auto, Emit, Job, Mapper, Output, Plan, Reducer, Result, Sink, Values, from_files,
};

const HELP: &str = "\
Sorts files of 100-byte records by their first ten bytes.

Usage: terasort [options] IN... OUT

  IN...                  files or directories of records, as `teragen` makes them
  OUT                    a new directory: part-r-00000 and so on, one after the other in order
  --replication N        copies of the output (default 1, as in Hadoop)

Example:
  terasort --reducers 8 /tera-in /tera-out
";

/// Copies of the output, which can be made again.
const REPLICATION_DEFAULT: u16 = 1;

fn main() -> ExitCode {
    mr_api::main(HELP, plan)
}

/// Describes the job.
fn plan(args: &mut Args) -> Result<Plan> {
    let replication = args.value("--replication")?.unwrap_or(REPLICATION_DEFAULT);
    let (inputs, output) = args.inputs_and_output()?;
    let job = Job::new("terasort")
        .input(from_files(inputs, FixedLength { bytes: RECORD_BYTES as u32 }))
        .map(Records)
        .total_order()
        .reduce(Write)
        .reducers(Auto)
        .output(raw_out(output).replication(replication));
    Ok(job.into())
}

/// Cuts a record into key and value.
#[derive(Clone)]
struct Records;

impl Mapper for Records {
    type In = FixedLength;
    type Key = Vec<u8>;
    type Value = Vec<u8>;

    #[inline]
    fn map<S: Sink>(&mut self, record: &[u8], out: &mut Emit<Vec<u8>, Vec<u8>, S>) -> Result<()> {
        let (key, value) = record.split_at(KEY_BYTES);
        out.emit(key, value)
    }
}

/// Writes every record.
#[derive(Clone)]
struct Write;

impl Reducer for Write {
    type Key = Vec<u8>;
    type Value = Vec<u8>;

    #[inline]
    fn reduce(
        &mut self,
        key: &[u8],
        values: &mut Values<'_, Vec<u8>, Vec<u8>>,
        out: &mut Output,
    ) -> Result<()> {
        while let Some(value) = values.next_value()? {
            out.write(key, value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use examples::gensort;
    use mr_api::LocalRunner;

    use super::*;

    #[test]
    fn the_parts_together_are_sorted_and_hold_every_record() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let mut records: Vec<[u8; RECORD_BYTES]> =
            gensort::Records::starting_at(0).take(20_000).collect();
        fs::write(path("in"), records.concat()).unwrap();
        records.sort();
        for runner in [LocalRunner::new().reducers(5), LocalRunner::new().reducers(3).tiny_memory()]
        {
            let _ = fs::remove_dir_all(path("out"));
            let mut args = Args::from_words([path("in"), path("out")]).unwrap();
            runner.run(plan(&mut args).unwrap()).unwrap();
            let mut files: Vec<_> =
                fs::read_dir(path("out")).unwrap().map(|entry| entry.unwrap().path()).collect();
            files.retain(|file| file.file_name().unwrap().to_string_lossy().starts_with("part-"));
            files.sort();
            let parts: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
            assert!(parts.iter().all(|part| part.len() > 1_000_000 / parts.len()), "balanced");
            assert_eq!(parts.concat(), records.concat());
        }
    }
}
