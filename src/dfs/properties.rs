//! `-D key=value`: the properties that shell commands know.
//!
//! Scripts pass many properties of Hadoop's that mean nothing here; those are ignored as Hadoop's shell does. One that is a
//! slip of the pen away from a known one is an error, because ignoring it would do something else than was meant.

use super::error::Failure;

/// Letters that may differ for a name to be taken for a misspelt known one.
const SLIP_MAX: usize = 2;
/// Known names.
const KNOWN: [&str; 7] = [
    "dfs.blocksize",
    "dfs.block.size",
    "dfs.client.read.shortcircuit",
    "dfs.replication",
    "fs.defaultFS",
    "fs.permissions.umask-mode",
    "fs.trash.interval",
];
/// Milliseconds of a minute, the unit of `fs.trash.interval`.
const MINUTE_MS: u64 = 60_000;

/// Properties of one command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Properties {
    /// Bytes per block of new files; `None` for the cluster's default.
    pub(crate) block_size: Option<u64>,
    /// Replicas of new files; `None` for the cluster's default.
    pub(crate) replication: Option<u16>,
    /// Whether DataNodes on this machine are reached by their Unix sockets; `None` for what the client's configuration says.
    pub(crate) short_circuit: Option<bool>,
    /// Permission bits that new files and directories do not get.
    pub(crate) umask: u16,
    /// How long deleted files stay in the trash if the NameNode has no opinion, milliseconds; 0 for no trash.
    pub(crate) trash_interval_ms: u64,
}

impl Default for Properties {
    /// Hadoop's umask: others may read, nobody else may write.
    fn default() -> Self {
        Properties {
            block_size: None,
            replication: None,
            short_circuit: None,
            umask: 0o022,
            trash_interval_ms: 0,
        }
    }
}

impl Properties {
    /// Reads `-D` arguments; later ones win.
    pub(crate) fn new(given: &[(String, String)]) -> Result<Self, Failure> {
        let mut properties = Properties::default();
        for (key, value) in given {
            let wrong =
                |expected: &str| Failure::Value(format!("{key}: `{value}' is not {expected}"));
            match key.as_str() {
                "dfs.blocksize" | "dfs.block.size" => {
                    let size = size(value).filter(|size| *size > 0);
                    properties.block_size =
                        Some(size.ok_or_else(|| wrong("a size like 134217728 or 128m"))?);
                }
                "dfs.replication" => {
                    let replication = value.parse().ok().filter(|replication| *replication > 0);
                    properties.replication =
                        Some(replication.ok_or_else(|| wrong("a number from 1 on"))?);
                }
                "dfs.client.read.shortcircuit" => {
                    properties.short_circuit =
                        Some(value.parse().map_err(|_| wrong("`true' or `false'"))?);
                }
                "fs.permissions.umask-mode" => {
                    let umask = u16::from_str_radix(value, 8).ok().filter(|umask| *umask <= 0o777);
                    properties.umask = umask.ok_or_else(|| wrong("an octal mask like 022"))?;
                }
                "fs.trash.interval" => {
                    let minutes: Option<u64> = value.parse().ok();
                    properties.trash_interval_ms = minutes
                        .and_then(|minutes| minutes.checked_mul(MINUTE_MS))
                        .ok_or_else(|| wrong("a number of minutes"))?;
                }
                other => check_spelling(other)?,
            }
        }
        Ok(properties)
    }
}

fn check_spelling(key: &str) -> Result<(), Failure> {
    let meant = KNOWN.iter().find(|known| strsim::damerau_levenshtein(known, key) <= SLIP_MAX);
    match meant {
        Some(known) => {
            Err(Failure::Value(format!("unknown property `{key}'; did you mean `{known}'?")))
        }
        None => Ok(()),
    }
}

/// `134217728`, `64k`, `128m`, `1g`, `1t`.
pub(crate) fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Properties, String> {
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Properties::new(&pairs).map_err(|failure| failure.to_string())
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
        ];
        let properties = read(&pairs).unwrap();
        assert_eq!(
            properties,
            Properties {
                block_size: Some(64 << 20),
                replication: Some(2),
                short_circuit: Some(false),
                umask: 0o77,
                trash_interval_ms: 120_000
            }
        );
    }

    #[test]
    fn slips_and_bad_values_are_refused() {
        assert_eq!(
            read(&[("dfs.replicaton", "2")]).unwrap_err(),
            "unknown property `dfs.replicaton'; did you mean `dfs.replication'?"
        );
        for (key, value) in [
            ("dfs.blocksize", "0"),
            ("dfs.blocksize", "12q"),
            ("dfs.blocksize", "99999999999t"),
            ("dfs.replication", "0"),
            ("dfs.replication", "-1"),
            ("dfs.client.read.shortcircuit", "no"),
            ("fs.permissions.umask-mode", "9"),
            ("fs.trash.interval", "1d"),
        ] {
            assert!(read(&[(key, value)]).unwrap_err().starts_with(key), "{key}={value}");
        }
    }
}
