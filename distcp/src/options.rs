//! The command line: Hadoop 3.4's options, and what becomes of each.

use std::collections::BTreeSet;

use crate::attributes::Attributes;
use crate::error::{Error, Result};
use crate::throttle::MEGABYTES_PER_SECOND_MIN;

/// What an option does here.
enum Effect {
    Honoured,
    /// It is accepted, and a warning says why it changes nothing.
    Idle(&'static str),
    /// It is refused, with what to do instead.
    Refused(&'static str),
}

/// One option.
struct Row {
    name: &'static str,
    /// Words that follow it.
    values: usize,
    effect: Effect,
}

const fn row(name: &'static str, values: usize) -> Row {
    Row { name, values, effect: Effect::Honoured }
}

const fn idle(name: &'static str, values: usize, why: &'static str) -> Row {
    Row { name, values, effect: Effect::Idle(why) }
}

const fn refused(name: &'static str, values: usize, instead: &'static str) -> Row {
    Row { name, values, effect: Effect::Refused(instead) }
}

/// All options; `-p` is read apart, as its letters follow at once.
#[rustfmt::skip]
const OPTIONS: &[Row] = &[
    row("-append", 0),
    row("-async", 0),
    row("-atomic", 0),
    row("-bandwidth", 1),
    row("-copybuffersize", 1),
    row("-delete", 0),
    row("-diff", 2),
    row("-direct", 0),
    row("-f", 1),
    row("-filters", 1),
    row("-i", 0),
    row("-log", 1),
    row("-m", 1),
    row("-numListstatusThreads", 1),
    row("-overwrite", 0),
    row("-skipcrccheck", 0),
    row("-strategy", 1),
    row("-tmp", 1),
    row("-update", 0),
    row("-updateRoot", 0),
    row("-v", 0),
    idle("-useiterator", 0, "the list is in memory, about 300 bytes for each file; -filters makes it shorter"),
    refused("-blocksperchunk", 1, "one map copies a file; -m lets more files be copied at once"),
    refused("-filelimit", 1, "-f LISTFILE or -filters FILE say what is copied"),
    refused("-mapredSslConf", 1, "another cluster is reached by swebhdfs://host:port, with the authorities of this machine (SSL_CERT_FILE names others)"),
    refused("-rdiff", 2, "`-update -delete DIR/.snapshot/NAME DIR` brings a directory back to a snapshot"),
    refused("-sizelimit", 1, "-f LISTFILE or -filters FILE say what is copied"),
    refused("-useTrash", 0, "what -delete removes is gone; a snapshot of the target keeps it"),
    refused("-xtrack", 1, "`hdfs dfs -ls -R` of both sides shows what the target has more"),
];

/// Maps by default, as in Hadoop.
const MAPS_DEFAULT: u32 = 20;
/// Most maps: beyond that the list of tasks is the larger work.
const MAPS_MAX: u32 = 10_000;
/// Most threads that list, as in Hadoop.
const LISTING_THREADS_MAX: usize = 40;
/// Bytes that are read at once; Hadoop's default, 8 KiB, would be sixteen calls for each packet.
const BUFFER_BYTES_DEFAULT: usize = 1 << 20;
/// Most of them.
const BUFFER_BYTES_MAX: usize = 64 << 20;

/// What a command line asks for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Options {
    pub(crate) preserve: Attributes,
    pub(crate) update: bool,
    pub(crate) overwrite: bool,
    pub(crate) delete: bool,
    pub(crate) append: bool,
    pub(crate) ignore_failures: bool,
    pub(crate) skip_crc: bool,
    pub(crate) direct: bool,
    pub(crate) atomic: bool,
    pub(crate) detached: bool,
    pub(crate) verbose: bool,
    pub(crate) dynamic: bool,
    pub(crate) update_root: bool,
    pub(crate) maps: u32,
    /// Megabytes a second of each map.
    pub(crate) bandwidth: Option<f64>,
    pub(crate) buffer_bytes: usize,
    pub(crate) listing_threads: usize,
    pub(crate) temporary: Option<String>,
    pub(crate) log: Option<String>,
    pub(crate) list_file: Option<String>,
    pub(crate) filters: Option<String>,
    /// From and to which snapshot.
    pub(crate) diff: Option<(String, String)>,
    pub(crate) sources: Vec<String>,
    pub(crate) target: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            preserve: Attributes::default(),
            update: false,
            overwrite: false,
            delete: false,
            append: false,
            ignore_failures: false,
            skip_crc: false,
            direct: false,
            atomic: false,
            detached: false,
            verbose: false,
            dynamic: false,
            update_root: false,
            maps: MAPS_DEFAULT,
            bandwidth: None,
            buffer_bytes: BUFFER_BYTES_DEFAULT,
            listing_threads: 1,
            temporary: None,
            log: None,
            list_file: None,
            filters: None,
            diff: None,
            sources: Vec::new(),
            target: String::new(),
        }
    }
}

/// Reads a command line. Returns warnings, too.
pub(crate) fn parse(words: &[String]) -> Result<(Options, Vec<String>)> {
    let (mut options, mut warnings, mut paths) = (Options::default(), Vec::new(), Vec::new());
    let mut words = words.iter();
    // Options with a value: of two values one would be ignored, and with `-filters` its files be deleted.
    let mut given = BTreeSet::new();
    let mut once = |name: &'static str| match given.insert(name) {
        true => Ok(()),
        false => Err(Error::usage(format!("{name} is given twice"))),
    };
    while let Some(word) = words.next() {
        if let Some(letters) = word.strip_prefix("-p").filter(|_| is_preserve(word)) {
            once("-p")?;
            options.preserve = Attributes::parse(letters)?;
            continue;
        }
        if !word.starts_with('-') || word == "-" {
            paths.push(word.clone());
            continue;
        }
        let Some(row) = OPTIONS.iter().find(|row| row.name.eq_ignore_ascii_case(word)) else {
            return Err(Error::usage(format!("Unrecognized option: {word}")));
        };
        if let Effect::Refused(instead) = row.effect {
            return Err(Error::usage(format!("{} is not supported: {instead}", row.name)));
        }
        if let Effect::Idle(why) = row.effect {
            warnings.push(format!("{} changes nothing: {why}", row.name));
        }
        let values: Vec<&String> = words.by_ref().take(row.values).collect();
        if values.len() < row.values {
            return Err(Error::usage(format!("Missing argument for option: {}", row.name)));
        }
        if row.values > 0 {
            once(row.name)?;
        }
        options.take(row.name, &values)?;
    }
    options.target = paths
        .pop()
        .ok_or_else(|| Error::usage("Target path not specified: distcp OPTIONS SRC... DST"))?;
    options.sources = paths;
    options.check()?;
    Ok((options, warnings))
}

/// True for `-p` with letters at once.
fn is_preserve(word: &str) -> bool {
    word.strip_prefix("-p").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_lowercase()))
}

impl Options {
    fn take(&mut self, name: &str, values: &[&String]) -> Result<()> {
        let value = values.first().map(|text| text.as_str()).unwrap_or_default();
        match name {
            "-append" => self.append = true,
            "-async" => self.detached = true,
            "-atomic" => self.atomic = true,
            "-bandwidth" => self.bandwidth = Some(bandwidth(name, value)?),
            "-copybuffersize" => {
                let bytes = number(name, value, BUFFER_BYTES_MAX as u64)?;
                self.buffer_bytes = usize::try_from(bytes).unwrap_or(BUFFER_BYTES_MAX);
            }
            "-delete" => self.delete = true,
            "-diff" => {
                let to = values.get(1).map(|text| text.as_str()).unwrap_or_default();
                self.diff = Some((value.to_owned(), to.to_owned()));
            }
            "-direct" => self.direct = true,
            "-f" => self.list_file = Some(value.to_owned()),
            "-filters" => self.filters = Some(value.to_owned()),
            "-i" => self.ignore_failures = true,
            "-log" => self.log = Some(value.to_owned()),
            "-m" => {
                let count = number(name, value, u64::from(MAPS_MAX))?;
                self.maps = u32::try_from(count).unwrap_or(MAPS_MAX);
            }
            "-numListstatusThreads" => {
                let count = number(name, value, u64::MAX)?;
                let count = usize::try_from(count).unwrap_or(LISTING_THREADS_MAX);
                self.listing_threads = count.min(LISTING_THREADS_MAX);
            }
            "-overwrite" => self.overwrite = true,
            "-skipcrccheck" => self.skip_crc = true,
            "-strategy" => {
                self.dynamic = match value {
                    "dynamic" => true,
                    "uniformsize" => false,
                    _ => {
                        return Err(Error::usage(format!(
                            "-strategy: `{value}` is none; there are uniformsize and dynamic"
                        )));
                    }
                };
            }
            "-tmp" => self.temporary = Some(value.to_owned()),
            "-update" => self.update = true,
            "-updateRoot" => self.update_root = true,
            "-v" => self.verbose = true,
            _ => {}
        }
        Ok(())
    }

    /// Refuses what does not go together.
    fn check(&self) -> Result<()> {
        let refused = |reason: &str| Err(Error::usage(reason));
        let is_sync = self.update || self.overwrite;
        match (self.list_file.is_some(), self.sources.is_empty()) {
            (true, false) => return refused("Both source file listing and source paths present"),
            (false, true) => return refused("Source paths are missing: distcp OPTIONS SRC... DST"),
            _ => {}
        }
        if self.update && self.overwrite {
            return refused("Overwrite and update options are mutually exclusive");
        }
        if self.delete && !is_sync {
            return refused("Delete missing is applicable only with update or overwrite options");
        }
        if self.atomic && is_sync {
            return refused("Atomic commit can't be used with sync folder or overwrite options");
        }
        if self.temporary.is_some() && !self.atomic {
            return refused("-tmp is for the work path of -atomic");
        }
        if self.append && !self.update {
            return refused("Append is valid only with update options");
        }
        if self.append && self.skip_crc {
            return refused("Append is disallowed when skipping CRC");
        }
        if self.verbose && self.log.is_none() {
            return refused("-v is valid only with -log option");
        }
        if self.update_root && !is_sync {
            return refused("-updateRoot is valid only with -update or -overwrite");
        }
        if let Some((from, to)) = &self.diff {
            if from.is_empty() || to.is_empty() {
                return refused("-diff: a snapshot has a name; the present is `.`");
            }
            if !self.update {
                return refused("-diff is valid only with -update option");
            }
            if self.delete {
                return refused("-delete and -diff are mutually exclusive");
            }
            if self.sources.len() != 1 {
                return refused("-diff takes one source directory");
            }
        }
        Ok(())
    }
}

fn number(name: &str, text: &str, most: u64) -> Result<u64> {
    match text.parse::<u64>() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        Ok(_) if most < u64::MAX => {
            Err(Error::usage(format!("{name}: `{text}` is not between 1 and {most}")))
        }
        _ => Err(Error::usage(format!("{name}: `{text}` is no whole number from 1"))),
    }
}

fn bandwidth(name: &str, text: &str) -> Result<f64> {
    const LEAST: f64 = MEGABYTES_PER_SECOND_MIN;
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= LEAST);
    number.ok_or_else(|| {
        Error::usage(format!("{name}: `{text}` is no number of megabytes, {LEAST} at least"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<(Options, Vec<String>)> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn every_honoured_option_changes_something() {
        let plain = read("/a /b").unwrap().0;
        for row in OPTIONS {
            let value = match row.name {
                "-strategy" => "dynamic",
                "-bandwidth" | "-m" | "-copybuffersize" | "-numListstatusThreads" => "7",
                _ => "x",
            };
            let values = vec![value; row.values].join(" ");
            let with = match row.name {
                "-delete" | "-append" | "-diff" | "-updateRoot" => "-update",
                "-tmp" => "-atomic",
                "-v" => "-log l",
                _ => "",
            };
            let sources = if row.name == "-f" { "" } else { "/a" };
            let rest = format!("{with} {sources} /b");
            let found = read(&format!("{} {values} {rest}", row.name));
            match row.effect {
                Effect::Honoured => {
                    let without =
                        if row.name == "-f" { plain.clone() } else { read(&rest).unwrap().0 };
                    assert_ne!(found.unwrap().0, without, "{}", row.name);
                }
                Effect::Idle(_) => {
                    let (options, warnings) = found.unwrap();
                    assert_eq!((options, warnings.len()), (plain.clone(), 1), "{}", row.name);
                }
                Effect::Refused(_) => {
                    let text = found.unwrap_err().to_string();
                    assert!(text.starts_with(row.name), "{text}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (line, expected) in [
            ("", "Target path not specified"),
            ("/a", "Source paths are missing"),
            ("-f l /a /b", "Both source file listing"),
            ("-update -overwrite /a /b", "mutually exclusive"),
            ("-delete /a /b", "only with update or overwrite"),
            ("-atomic -update /a /b", "Atomic commit"),
            ("-tmp /t /a /b", "-tmp is for"),
            ("-append /a /b", "only with update"),
            ("-update -append -skipcrccheck /a /b", "when skipping CRC"),
            ("-v /a /b", "only with -log"),
            ("-diff x y /a /b", "only with -update"),
            ("-update -delete -diff x y /a /b", "-delete and -diff"),
            ("-m 0 /a /b", "`0` is not between 1 and"),
            ("-m x /a /b", "no whole number"),
            ("-bandwidth 0 /a /b", "0.01 at least"),
            ("-bandwidth 0.001 /a /b", "0.01 at least"),
            ("-strategy best /a /b", "there are uniformsize and dynamic"),
            ("-nothing /a /b", "Unrecognized option: -nothing"),
            ("-pz /a /b", "-p: `z`"),
            ("-pU /a /b", "Unrecognized option: -pU"),
            ("-pu -pg /a /b", "-p is given twice"),
            ("-filters f -FILTERS g /a /b", "-filters is given twice"),
            ("-m 2 -m 2 /a /b", "-m is given twice"),
            ("-log l -v -log m /a /b", "-log is given twice"),
            ("-log", "Missing argument for option: -log"),
        ] {
            let text = read(line).unwrap_err().to_string();
            assert!(text.contains(expected), "{line}: {text}");
        }
    }

    #[test]
    fn a_switch_may_be_given_twice() {
        let (once, twice) = ("-update -i /a /b", "-update -i -update -i /a /b");
        assert_eq!(read(once).unwrap().0, read(twice).unwrap().0);
    }

    #[test]
    fn a_snapshot_without_a_name_is_not_the_present() {
        for [from, to] in [["", "s2"], ["s1", ""]] {
            let words = ["-update", "-diff", from, to, "/a", "/b"].map(str::to_owned);
            let text = parse(&words).unwrap_err().to_string();
            assert!(text.contains("a snapshot has a name"), "{text}");
        }
    }
}
