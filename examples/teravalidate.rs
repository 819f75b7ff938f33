//! Checks the output of `terasort`: records are in order within each file and from file to file. Also computes a checksum that does not
//! depend on the order, to compare with the input's.
//!
//! One map per file compares neighbours and passes on the file's first and last key. One reduce compares these from file to file, in the
//! order of names. As in Hadoop, the output of a correct sort holds only the checksum; otherwise it names the errors.

use std::process::ExitCode;

use examples::record::{KEY_BYTES, RECORD_BYTES};
use mr_api::formats::{FixedLength, Uncut};
use mr_api::map::Records;
use mr_api::reduce::Groups;
use mr_api::{
    Always, Args, Emit, Job, Mapper, Output, Plan, Reducer, Result, Sink, Values, from_files,
    parse, text_out,
};

const HELP: &str = "\
Checks that records are sorted, and sums them up.

Usage: teravalidate [options] IN... OUT

  IN...                  the output of terasort, or any files of records
  OUT                    a new directory: `checksum<TAB>hex<TAB>records`, and a line for each pair out of order
  --unsorted             checksum alone, for terasort's input

Example:
  teravalidate /tera-out /report && hanno dfs -cat '/report/part*'
";

fn main() -> ExitCode {
    mr_api::main(HELP, plan)
}

/// Describes the job.
fn plan(args: &mut Args) -> Result<Plan> {
    let sorted = !args.flag("--unsorted");
    let (inputs, output) = args.inputs_and_output()?;
    // One task sees all neighbours of a file.
    let input = from_files(inputs, Uncut(FixedLength { bytes: RECORD_BYTES as u32 }));
    let job = Job::new("teravalidate")
        .input(input)
        .map(CheckFile { sorted })
        .reduce(CheckOrder)
        .reducers(Always(1))
        .output(text_out(output));
    Ok(job.into())
}

/// Sum of the CRC-32 of records: equal for equal sets of records, whatever their order.
type Checksum = u128;

/// A finding about a file: checksum and records, first or last key, or a complaint.
type Finding = (u8, String, Vec<u8>);
const SUM: u8 = 0;
const FIRST: u8 = 1;
const LAST: u8 = 2;
const WRONG: u8 = 3;

#[derive(Clone)]
struct CheckFile {
    sorted: bool,
}

impl Mapper for CheckFile {
    type In = Uncut<FixedLength>;
    /// The file, then the order of findings within it.
    type Key = (String, u8);
    type Value = Finding;

    fn run<S: Sink>(
        &mut self,
        records: Records<'_, Uncut<FixedLength>>,
        out: &mut Emit<(String, u8), Finding, S>,
    ) -> Result<()> {
        let file = out.context().input().map(|input| input.path.clone()).unwrap_or_default();
        let (mut sum, mut count, mut last): (Checksum, u64, Option<[u8; KEY_BYTES]>) = (0, 0, None);
        records.for_each(|record| {
            sum += Checksum::from(crc(record));
            count += 1;
            let key = *record.first_chunk().ok_or("a record has a key")?;
            match last {
                None if self.sorted => out.emit((&file, FIRST), (FIRST, "", &key[..]))?,
                Some(last) if self.sorted && last > key => {
                    let text = format!("record {count} is below the one before it");
                    out.emit((&file, WRONG), (WRONG, text, &key[..]))?;
                }
                _ => {}
            }
            last = Some(key);
            Ok(())
        })?;
        let text = format!("{sum:x} {count}");
        out.emit((&file, SUM), (SUM, text, &b""[..]))?;
        match last {
            Some(key) if self.sorted => out.emit((&file, LAST), (LAST, "", &key[..])),
            _ => Ok(()),
        }
    }

    fn map<S: Sink>(&mut self, _: &[u8], _: &mut Emit<(String, u8), Finding, S>) -> Result<()> {
        Ok(())
    }
}

fn crc(record: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in record {
        crc = CRC_TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
    }
    !crc
}

/// CRC-32 of each byte, by the reflected polynomial of IEEE 802.3.
const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Processes the files in the order of their names.
#[derive(Clone)]
struct CheckOrder;

impl Reducer for CheckOrder {
    type Key = (String, u8);
    type Value = Finding;

    fn run(
        &mut self,
        groups: &mut Groups<'_, (String, u8), Finding>,
        out: &mut Output,
    ) -> Result<()> {
        let (mut sum, mut count): (Checksum, u64) = (0, 0);
        let mut last: Option<(String, Vec<u8>)> = None;
        while let Some(((file, _), mut values)) = groups.next_group()? {
            let file = file.into_owned();
            while let Some((kind, text, key)) = values.next_value()? {
                match kind {
                    SUM => {
                        let (hex, records) = text.split_once(' ').ok_or("a sum and a count")?;
                        sum += Checksum::from_str_radix(hex, 16)?;
                        count += parse::<u64>(records, "count", &*text)?;
                    }
                    FIRST => {
                        if let Some((before, last)) = &last
                            && last.as_slice() > key
                        {
                            out.write("error", format!("{file} begins below the end of {before}"))?;
                        }
                    }
                    LAST => last = Some((file.clone(), key.to_vec())),
                    _ => out.write("error", format!("{file}: {text}"))?,
                }
            }
        }
        out.write("checksum", format!("{sum:x}\t{count}"))
    }

    fn reduce(
        &mut self,
        _: (std::borrow::Cow<'_, str>, u8),
        _: &mut Values<'_, (String, u8), Finding>,
        _: &mut Output,
    ) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use examples::gensort;
    use mr_api::LocalRunner;

    use super::*;

    fn report(files: &[&[[u8; RECORD_BYTES]]], unsorted: bool) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        fs::create_dir(path("in")).unwrap();
        for (number, records) in files.iter().enumerate() {
            fs::write(path(&format!("in/part-r-{number:05}")), records.concat()).unwrap();
        }
        let mut words = vec![path("in"), path("out")];
        words.extend(unsorted.then(|| "--unsorted".to_owned()));
        LocalRunner::new().run(plan(&mut Args::from_words(words).unwrap()).unwrap()).unwrap();
        fs::read_to_string(path("out/part-r-00000")).unwrap()
    }

    #[test]
    fn order_within_and_between_files_is_checked() {
        let unsorted: Vec<_> = gensort::Records::starting_at(0).take(100).collect();
        let mut sorted = unsorted.clone();
        sorted.sort();
        let good = report(&[&sorted[..60], &[], &sorted[60..]], false);
        assert_eq!(good.lines().count(), 1, "{good}");
        assert!(good.starts_with("checksum\t") && good.ends_with("\t100\n"), "{good}");
        assert_eq!(report(&[&unsorted], true), good, "the checksum does not depend on order");
        let between = report(&[&sorted[60..], &sorted[..60]], false);
        assert!(between.contains("begins below the end of"), "{between}");
        assert!(report(&[&unsorted], false).contains("below the one before it"));
        assert_eq!(crc(b"123456789"), 0xcbf4_3926, "the check value of CRC-32");
    }
}
