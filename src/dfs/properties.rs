//! The properties that shell commands know, from configuration files and from `-D key=value`.
//!
//! Scripts pass many properties of Hadoop's without a meaning here; a warning names them. A name with a typing error, close to a known one, is an error:
//! continuing would do something else than intended. Not so in files: they are for other programs, too, whose names may be close.
//! Values are read as Hadoop reads them.

use protocol::property::{Umask, Value};

use super::fs::Failure;

/// Most letters by which a name may differ to count as a misspelt known one.
const SLIP_MAX: usize = 2;
/// Milliseconds of a minute, the unit of `fs.trash.interval`.
const MINUTE_MS: u64 = 60_000;

/// Properties of one command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Properties {
    /// Bytes per block of new files; `None` for the cluster's default.
    pub(crate) block_size: Option<u64>,
    /// Replicas of new files; `None` for the cluster's default.
    pub(crate) replication: Option<u16>,
    /// Whether DataNodes on this machine are reached over their Unix sockets; `None` for the client's configuration.
    pub(crate) short_circuit: Option<bool>,
    /// Permission bits to clear in new files and directories.
    pub(crate) umask: Umask,
    /// How long deleted files stay in the trash if the NameNode does not decide, milliseconds; 0 for no trash.
    pub(crate) trash_interval_ms: u64,
    /// The file system of plain paths, as `-fs` names it.
    pub(crate) file_system: Option<String>,
    /// `-rm -safely` asks before it deletes more files than this for good; 0 or less for never.
    pub(crate) delete_limit: i64,
}

/// A property that commands know.
struct Key {
    name: &'static str,
    /// A description of valid values, for the error message.
    expected: &'static str,
    /// Stores a value; `None` if it is not valid.
    read: fn(&mut Properties, &str) -> Option<()>,
}

/// Every known property. One without a reader cannot exist.
#[rustfmt::skip]
static KEYS: &[Key] = &[
    Key { name: "dfs.blocksize", expected: "a size like 134217728 or 128m", read: block_size },
    Key { name: "dfs.block.size", expected: "a size like 134217728 or 128m", read: block_size },
    Key { name: "dfs.replication", expected: "a number from 1 on", read: replication },
    Key { name: "dfs.client.read.shortcircuit", expected: "`true' or `false'", read: short_circuit },
    Key { name: "fs.defaultFS", expected: "a file system like webhdfs://host:port", read: file_system },
    Key { name: "fs.default.name", expected: "a file system like webhdfs://host:port", read: file_system },
    Key { name: "fs.permissions.umask-mode", expected: Umask::WANTED, read: umask },
    Key { name: "hadoop.shell.safely.delete.limit.num.files", expected: "a number of files", read: delete_limit },
    Key { name: "fs.trash.interval", expected: "a number of minutes", read: trash_interval },
];

fn block_size(properties: &mut Properties, value: &str) -> Option<()> {
    properties.block_size = Some(size(value.trim()).filter(|size| *size > 0)?);
    Some(())
}

fn replication(properties: &mut Properties, value: &str) -> Option<()> {
    properties.replication =
        Some(value.trim().parse().ok().filter(|replication| *replication > 0)?);
    Some(())
}

fn short_circuit(properties: &mut Properties, value: &str) -> Option<()> {
    properties.short_circuit = Some(bool::parse(value)?);
    Some(())
}

fn file_system(properties: &mut Properties, value: &str) -> Option<()> {
    properties.file_system = Some(value.to_owned()).filter(|value| !value.is_empty());
    properties.file_system.as_ref().map(drop)
}

fn umask(properties: &mut Properties, value: &str) -> Option<()> {
    properties.umask = Umask::parse(value)?;
    Some(())
}

fn trash_interval(properties: &mut Properties, value: &str) -> Option<()> {
    let minutes: f64 = value.trim().parse().ok().filter(|minutes: &f64| minutes.is_finite())?;
    // Less than none is none.
    properties.trash_interval_ms = (minutes * MINUTE_MS as f64) as u64;
    Some(())
}

fn delete_limit(properties: &mut Properties, value: &str) -> Option<()> {
    properties.delete_limit = value.trim().parse().ok()?;
    Some(())
}

impl Default for Properties {
    fn default() -> Self {
        Properties {
            block_size: None,
            replication: None,
            short_circuit: None,
            umask: Umask::default(),
            trash_interval_ms: 0,
            file_system: None,
            delete_limit: 100,
        }
    }
}

impl Properties {
    /// Reads what files say and then `-D` arguments; later ones win. Passes names of arguments without a meaning here to `unknown`.
    pub(crate) fn new(
        of_files: &[(String, String)],
        given: &[(String, String)],
        mut unknown: impl FnMut(&str),
    ) -> Result<Self, Failure> {
        let mut properties = Properties::default();
        let all = of_files.iter().map(|property| (property, false));
        for ((name, value), is_given) in all.chain(given.iter().map(|property| (property, true))) {
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                if is_given {
                    check_spelling(name)?;
                    unknown(name);
                }
                continue;
            };
            (key.read)(&mut properties, value).ok_or_else(|| {
                Failure::Value(format!("{name}: `{value}' is not {}", key.expected))
            })?;
        }
        Ok(properties)
    }
}

fn check_spelling(name: &str) -> Result<(), Failure> {
    let is_near = |known: &&&str| strsim::damerau_levenshtein(known, name) <= SLIP_MAX;
    match KEYS.iter().map(|key| &key.name).find(is_near) {
        Some(known) => {
            Err(Failure::Value(format!("unknown property `{name}'; did you mean `{known}'?")))
        }
        None => Ok(()),
    }
}

/// `134217728`, `64k`, `128m`, `1g`, `1t`, `1p`, `1e`: parses every size that a user types.
pub(crate) fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        "e" => 60,
        _ => return None,
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    // Java's largest number: HDFS's clients read it back.
    (bytes <= i64::MAX.cast_unsigned()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Properties, String> {
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Properties::new(&[], &pairs, |_| ()).map_err(|failure| failure.to_string())
    }

    fn of_files(pairs: &[(&str, &str)]) -> Properties {
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Properties::new(&pairs, &[], |name| panic!("{name}")).unwrap()
    }

    #[test]
    fn every_known_name_is_read_and_refuses_what_is_no_value() {
        for key in KEYS {
            let value = ["1", "true", "022"].into_iter().find_map(|value| {
                let properties = read(&[(key.name, value)]).ok()?;
                (properties != Properties::default() || key.name.contains("umask")).then_some(())
            });
            assert!(value.is_some(), "{} changes nothing", key.name);
            assert!(read(&[(key.name, "")]).unwrap_err().starts_with(key.name));
        }
        let mut unknown = Vec::new();
        let pair = ("x.y".to_owned(), "1".to_owned());
        Properties::new(&[], &[pair], |name| unknown.push(name.to_owned())).unwrap();
        assert_eq!(unknown, ["x.y"]);
    }

    #[test]
    fn known_keys_are_read_and_foreign_ones_ignored() {
        let pairs = [
            ("dfs.blocksize", "1"),
            ("dfs.blocksize", "64m"),
            ("dfs.replication", "2"),
            ("dfs.client.read.shortcircuit", "false"),
            ("fs.permissions.umask-mode", "077"),
            ("io.file.buffer.size", "4096"),
            ("fs.trash.interval", "2"),
            ("fs.defaultFS", "webhdfs://h:1"),
            ("hadoop.shell.safely.delete.limit.num.files", "-1"),
        ];
        let properties = read(&pairs).unwrap();
        assert_eq!(
            properties,
            Properties {
                block_size: Some(64 << 20),
                replication: Some(2),
                short_circuit: Some(false),
                umask: Umask(0o77),
                trash_interval_ms: 120_000,
                file_system: Some("webhdfs://h:1".to_owned()),
                delete_limit: -1,
            }
        );
    }

    /// One such value would keep every command from working.
    #[test]
    fn files_for_hadoop_are_read_as_there() {
        for (value, ms) in
            [("0.5", 30_000), ("1440.0", 86_400_000), ("1440", 86_400_000), ("0", 0), ("-1", 0)]
        {
            assert_eq!(of_files(&[("fs.trash.interval", value)]).trash_interval_ms, ms, "{value}");
        }
        for (value, expected) in [("True", true), ("TRUE", true), ("False", false)] {
            let properties = of_files(&[("dfs.client.read.shortcircuit", value)]);
            assert_eq!(properties.short_circuit, Some(expected), "{value}");
        }
        let all = [("dfs.blocksize", " 64m "), ("dfs.replication", " 2 ")];
        let properties = of_files(&all);
        assert_eq!((properties.block_size, properties.replication), (Some(64 << 20), Some(2)));
        // Names of another file system, and one that nobody knows.
        let others = [("kfs.blocksize", "1"), ("kfs.replication", "x"), ("dfs.replicaton", "2")];
        assert_eq!(of_files(&others), Properties::default());
        // What a command line says wins.
        let pair = |value: &str| [("dfs.replication".to_owned(), value.to_owned())];
        let both = Properties::new(&pair("2"), &pair("3"), |_| ()).unwrap();
        assert_eq!(both.replication, Some(3));
    }

    #[test]
    fn sizes_have_hadoops_units() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("10", Some(10)),
            ("10k", Some(10 << 10)),
            ("10M", Some(10 << 20)),
            ("3g", Some(3 << 30)),
            ("2T", Some(2 << 40)),
            ("1p", Some(1 << 50)),
            ("7e", Some(7 << 60)),
            ("8e", None),
            ("15e", None),
            ("9223372036854775808", None),
            ("", None),
            ("k", None),
            ("-1", None),
            ("1.5g", None),
            ("10q", None),
            ("10mb", None),
            ("10 m", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
    }

    #[test]
    fn slips_and_bad_values_are_refused() {
        assert_eq!(
            read(&[("dfs.replicaton", "2")]).unwrap_err(),
            "unknown property `dfs.replicaton'; did you mean `dfs.replication'?"
        );
        assert!(read(&[("kfs.blocksize", "1")]).unwrap_err().contains("did you mean"));
        for (key, value) in [
            ("dfs.blocksize", "0"),
            ("dfs.blocksize", "12q"),
            ("dfs.blocksize", "99999999999t"),
            ("dfs.replication", "0"),
            ("dfs.replication", "-1"),
            ("dfs.client.read.shortcircuit", "no"),
            ("fs.permissions.umask-mode", "9"),
            ("fs.permissions.umask-mode", "u=y"),
            ("fs.trash.interval", "1d"),
            ("fs.trash.interval", "NaN"),
            ("fs.trash.interval", "inf"),
        ] {
            assert!(read(&[(key, value)]).unwrap_err().starts_with(key), "{key}={value}");
        }
    }
}
