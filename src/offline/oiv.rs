//! `hdfs oiv`: the name space of an image, or of the directory of a NameNode that was stopped.

use std::ffi::OsString;
use std::path::Path;

use namenode::offline::Image;

use super::distribution::Classes;
use super::options::{Given, Known};
use super::{Tool, Wrong, check_apart, delimited, distribution, image_xml, write_to};
use crate::absent::{self, Absent};
use crate::connect::{Overrides, describe};
use crate::output::local_zone;
use crate::reference::Outline;

const USAGE: &str = "\
Usage: hdfs oiv -p PROCESSOR -i INPUT [-o OUTPUT]

Shows the name space in an image that `hdfs dfsadmin -fetchImage` wrote, or in the data directory of a NameNode that was stopped: there, what the next start
would read. It takes as much memory as a NameNode takes for that name space.

  -i <input>, --inputFile <input>            the image or the directory
  -o <output>, --outputFile <output>         the file to write, or - for standard output, the default
  -p <processor>, --processor <processor>    XML: everything but answers to calls and DataNodes in maintenance, in Hadoop's elements;
                                             Delimited: a line of columns for each file and directory, without snapshots;
                                             FileDistribution: how many files have which size
  -delimiter <text>                          of Delimited: what separates columns, a tab if nothing else
  -maxSize <bytes>                           of FileDistribution: larger files are counted together, 128 GiB if nothing else
  -step <bytes>                              of FileDistribution: the width of a class of sizes, 2 MiB if nothing else
  -format                                    of FileDistribution: sizes as people write them
  -h, --help                                 print this

Example:
  hdfs dfsadmin -fetchImage . && hdfs oiv -p Delimited -i 00000000000000001234.image -o files.tsv
";

const KNOWN: &[Known] = &[
    Known { names: &["-i", "--inputFile", "-inputFile"], takes_value: true },
    Known { names: &["-o", "--outputFile", "-outputFile"], takes_value: true },
    Known { names: &["-p", "--processor", "-processor"], takes_value: true },
    Known { names: &["-delimiter", "--delimiter"], takes_value: true },
    Known { names: &["-maxSize", "--maxSize"], takes_value: true },
    Known { names: &["-step", "--step"], takes_value: true },
    Known { names: &["-format", "--format"], takes_value: false },
    Known { names: &["-h", "--help", "-help"], takes_value: false },
];

/// Each processor with the options that are its own.
const PROCESSORS: [(&str, &[&str]); 3] = [
    ("XML", &[]),
    ("Delimited", &["-delimiter"]),
    ("FileDistribution", &["-maxSize", "-step", "-format"]),
];

/// What Hadoop's command takes if none is named.
const PROCESSOR_OF_HADOOP: &str = "Web";

/// What writes.
enum Processor {
    Xml,
    Delimited(String),
    Distribution(Classes),
}

const TOOL: Tool = Tool { name: "oiv", usage: USAGE, known: KNOWN, absent: absent::OIV_OPTIONS };

/// The options, for completions and the manual page.
pub(crate) fn outline() -> Outline {
    Outline::with_options(USAGE)
}

/// Runs the command line after `oiv` and returns the exit code.
pub(crate) fn run(words: &[OsString], _: &Overrides) -> u8 {
    TOOL.run(words, view)
}

fn view(given: &Given) -> Result<(), Wrong> {
    let processor = processor(given)?;
    let input = given.needed("-i")?;
    let output = given.value("-o").unwrap_or("-");
    check_apart(input, output)?;
    let image = Image::read(Path::new(input)).map_err(|error| Wrong::Failed(describe(&error)))?;
    write_to(output, |out| match &processor {
        Processor::Xml => image_xml::write(&image, out),
        Processor::Delimited(delimiter) => {
            delimited::write(image.namespace(), delimiter, local_zone(), out)
        }
        Processor::Distribution(classes) => distribution::write(image.namespace(), *classes, out),
    })
}

fn processor(given: &Given) -> Result<Processor, Wrong> {
    let name = given.value("-p").unwrap_or(PROCESSOR_OF_HADOOP);
    let Some((known, own)) = PROCESSORS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))
    else {
        let is_meant = |absent: &&Absent| absent.name.eq_ignore_ascii_case(name);
        let meant = absent::OIV_PROCESSORS.iter().find(is_meant);
        if meant.is_some_and(|meant| absent::refuse("oiv", meant.name, absent::OIV_PROCESSORS)) {
            return Err(Wrong::Refused);
        }
        return Err(Wrong::Usage(format!("unknown processor {name}")));
    };
    let mut options = PROCESSORS.iter().flat_map(|(_, options)| options.iter());
    if let Some(option) = options.find(|option| given.has(option) && !own.contains(option)) {
        return Err(Wrong::Usage(format!("option {option} is not one of processor {known}")));
    }
    Ok(match *known {
        "XML" => Processor::Xml,
        "Delimited" => {
            let delimiter = given.value("-delimiter").unwrap_or(delimited::DELIMITER);
            if delimiter.is_empty() {
                return Err(Wrong::Usage("option -delimiter needs at least one character".into()));
            }
            Processor::Delimited(delimiter.to_owned())
        }
        _ => {
            let (size_max, step) = (given.bytes("-maxSize")?, given.bytes("-step")?);
            Processor::Distribution(Classes::new(size_max, step, given.has("-format")))
        }
    })
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
    fn processors_that_are_not_here_are_refused_by_name() {
        for name in ["Web", "reversexml", "DetectCorruption"] {
            assert_eq!(wrong(&["-p", name, "-i", "x"]), Wrong::Refused, "{name}");
        }
        assert_eq!(wrong(&["-i", "x"]), Wrong::Refused, "Hadoop's default");
        for option in ["-t", "-addr", "-m", "-sp", "-ec"] {
            assert_eq!(wrong(&["-p", "XML", option]), Wrong::Refused, "{option}");
        }
    }

    #[test]
    fn an_option_of_another_processor_is_not_ignored() {
        for words in [
            &["-p", "XML", "-i", "x", "-delimiter", ";"][..],
            &["-p", "Delimited", "-i", "x", "-step", "1"],
            &["-p", "delimited", "-i", "x", "-delimiter", ""],
            &["-p", "FileDistribution", "-i", "x", "-step", "many"],
            &["-p", "JSON", "-i", "x"],
            &["-p", "XML"],
        ] {
            assert!(matches!(wrong(words), Wrong::Usage(_)), "{words:?}");
        }
        assert!(matches!(wrong(&["-p", "xml", "-i", "/none/x"]), Wrong::Failed(_)));
    }

    #[test]
    fn help_is_no_mistake() {
        assert_eq!(run(&["--help".into()], &Overrides::default()), EXIT_OK);
        assert_eq!(run(&[], &Overrides::default()), EXIT_OK, "as Hadoop's");
    }
}
