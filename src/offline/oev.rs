//! `hdfs oev`: the records of a log, of one of its files or of the directory of a NameNode that was stopped.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use journal::RecoverError;
use namenode::core::edit::Record;
use namenode::offline::{self, OfflineError};
use protocol::wire::form::Form;

use super::ops::Op;
use super::options::{Given, Known};
use super::{Tool, Wrong, check_apart, edits, write_to};
use crate::absent;
use crate::connect::{Overrides, describe};
use crate::reference::Outline;

const USAGE: &str = "\
Usage: hdfs oev -i INPUT -o OUTPUT [-p PROCESSOR]

Shows the records of the log of a NameNode: of one file of it, which may be a copy under the same name, or all that the data directory of a NameNode that
was stopped has. Edits that Hadoop does not have are called OP_HANNO_….

  -i <input>, --inputFile <input>            the file or the directory
  -o <output>, --outputFile <output>         the file to write, or - for standard output
  -p <processor>, --processor <processor>    xml: the records, in Hadoop's elements, the default; stats: how many edits of each kind
  -h, --help                                 print this

Example:
  hdfs oev -i ~/hanno/namenode-1 -o edits.xml
";

const KNOWN: &[Known] = &[
    Known { names: &["-i", "--inputFile", "-inputFile", "--inputFilename"], takes_value: true },
    Known { names: &["-o", "--outputFile", "-outputFile", "--outputFilename"], takes_value: true },
    Known { names: &["-p", "--processor", "-processor"], takes_value: true },
    Known { names: &["-h", "--help", "-help"], takes_value: false },
];

const TOOL: Tool = Tool { name: "oev", usage: USAGE, known: KNOWN, absent: absent::OEV_OPTIONS };

/// The options, for completions and the manual page.
pub(crate) fn outline() -> Outline {
    Outline::with_options(USAGE)
}

/// Runs the command line after `oev` and returns the exit code.
pub(crate) fn run(words: &[OsString], _: &Overrides) -> u8 {
    TOOL.run(words, view)
}

fn view(given: &Given) -> Result<(), Wrong> {
    let name = given.value("-p").unwrap_or("xml").to_lowercase();
    let write = match &*name {
        "xml" => write_xml,
        "stats" => write_stats,
        _ if absent::refuse("oev", &name, absent::OEV_PROCESSORS) => return Err(Wrong::Refused),
        _ => return Err(Wrong::Usage(format!("unknown processor {name}"))),
    };
    let (input, output) = (given.needed("-i")?, given.needed("-o")?);
    check_apart(input, output)?;
    // What fails while a file is written leaves none.
    let mut failed = None;
    let written = write_to(output, |out| match write(Path::new(input), out) {
        Ok(()) => Ok(()),
        Err(Failed::Output(error)) => Err(error),
        Err(Failed::Input(error)) => {
            failed = Some(error);
            Err(io::ErrorKind::InvalidData.into())
        }
    });
    match failed {
        Some(error) => Err(Wrong::Failed(describe(&error))),
        None => written,
    }
}

/// Why the records did not come through.
enum Failed {
    Input(OfflineError),
    Output(io::Error),
}

fn write_xml(input: &Path, out: &mut dyn Write) -> Result<(), Failed> {
    let version = <Record as Form<'_>>::VERSION;
    let head = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n<EDITS>\n  <EDITS_VERSION>{version}</EDITS_VERSION>\n"
    );
    out.write_all(head.as_bytes()).map_err(Failed::Output)?;
    let mut written = Ok(());
    let read = offline::records(input, &mut |txid, epoch, record| {
        written = edits::write((txid, epoch), record, out);
        // The rest need not be read if it cannot be written.
        match written {
            Ok(()) => Ok(()),
            Err(_) => Err(RecoverError::new("the output cannot be written")),
        }
    });
    written.map_err(Failed::Output)?;
    read.map_err(Failed::Input)?;
    out.write_all(b"</EDITS>\n").map_err(Failed::Output)
}

fn write_stats(input: &Path, out: &mut dyn Write) -> Result<(), Failed> {
    let mut counts = BTreeMap::<Op, u64>::new();
    offline::records(input, &mut |_, _, record| {
        for op in edits::kinds(record) {
            *counts.entry(op).or_default() += 1;
        }
        Ok(())
    })
    .map_err(Failed::Input)?;
    out.write_all(stats(&counts).as_bytes()).map_err(Failed::Output)
}

/// Hadoop's columns. Kinds of Hadoop's that never occur here are left out.
fn stats(counts: &BTreeMap<Op, u64>) -> String {
    let version = <Record as Form<'_>>::VERSION;
    let mut text = format!("    {:<30.30}      : {version}\n", "VERSION");
    for op in Op::ALL {
        let count = counts.get(op).copied().unwrap_or_default();
        text += &format!("    {:<30.30} ({:3}): {count}\n", op.name(), op.number());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::EXIT_OK;

    fn wrong(words: &[&str]) -> Wrong {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let given = TOOL.parse(&words);
        given.and_then(|given| view(&given)).unwrap_err()
    }

    #[test]
    fn what_is_not_here_is_refused_by_name_and_mistakes_are_told() {
        assert_eq!(wrong(&["-p", "binary", "-i", "x", "-o", "y"]), Wrong::Refused);
        for option in ["-f", "-r", "-v", "--recover"] {
            assert_eq!(wrong(&[option]), Wrong::Refused, "{option}");
        }
        for words in [&["-i", "x"][..], &["-o", "y"], &["-p", "json", "-i", "x", "-o", "y"]] {
            assert!(matches!(wrong(words), Wrong::Usage(_)), "{words:?}");
        }
        assert_eq!(run(&["-h".into()], &Overrides::default()), EXIT_OK);
        assert_eq!(run(&[], &Overrides::default()), EXIT_OK, "as Hadoop's");
    }

    #[test]
    fn a_log_that_cannot_be_read_leaves_no_output() {
        let home = tempfile::tempdir().unwrap();
        let (input, output) = (home.path().join("edits"), home.path().join("out"));
        std::fs::write(&input, "no log").unwrap();
        let (input, output_text) = (input.to_str().unwrap(), output.to_str().unwrap());
        assert!(matches!(wrong(&["-i", input, "-o", output_text]), Wrong::Failed(_)));
        // Hadoop declares these names, and describes shorter ones, which it takes for their beginnings.
        let long = ["--inputFilename", input, "--outputFilename", output_text];
        assert!(matches!(wrong(&long), Wrong::Failed(_)));
        assert!(!output.try_exists().unwrap());
    }

    #[test]
    fn statistics_have_hadoops_columns() {
        let text = stats(&[(Op::Mkdir, 2), (Op::Answer, 1)].into());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "    VERSION                             : 1");
        assert_eq!(lines[1], "    OP_ADD                         (  0): 0");
        assert_eq!(lines[3], "    OP_MKDIR                       (  3): 2");
        assert_eq!(lines[lines.len() - 2], "    OP_HANNO_ANSWER                (139): 1");
        assert_eq!(lines.len(), Op::ALL.len() + 1);
    }
}
