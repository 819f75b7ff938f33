//! The options that all of Hadoop's commands have in common, and the cluster address from them: those of its scripts (`--config`), before a command's name, and
//! generic ones (`-fs`, `-conf`, `-D`, …) after it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use client::ClientConfig;

use crate::connect::{Overrides, warn_unused};
use crate::dfs;
use crate::output::report;

/// Names the directory of Hadoop's configuration files, as `--config` does.
pub(crate) const DIRECTORY_VARIABLE: &str = "HADOOP_CONF_DIR";
/// The file of such a directory that names the file system.
const SITE_FILE: &str = "core-site.xml";
/// Generic options; each has a value.
const GENERIC: [&str; 7] = ["-fs", "-jt", "-D", "-conf", "-files", "-libjars", "-archives"];
/// Properties that name the file system.
const FILE_SYSTEM_KEYS: [&str; 2] = ["fs.defaultFS", "fs.default.name"];

/// Takes the options of Hadoop's scripts off the front; returns the words after them, and the cluster's address.
pub(crate) fn of_script(args: &[OsString]) -> Result<(&[OsString], Overrides), String> {
    let (mut rest, mut overrides, mut directory) = (args, Overrides::default(), None);
    while let Some((option, tail)) = rest.split_first() {
        let name = match option.to_str() {
            Some(name @ ("--config" | "--loglevel")) => name,
            Some(
                name @ ("--hostnames" | "--hosts" | "--workers" | "--daemon" | "--buildpaths"),
            ) => {
                return Err(format!(
                    "option {name} is not here: it is for starting daemons by ssh"
                ));
            }
            _ => break,
        };
        let Some((value, tail)) = tail.split_first() else {
            return Err(format!("option {name} requires 1 argument."));
        };
        match name {
            "--config" => directory = Some(value),
            _ => warn_unused(&format!("option {name}")),
        }
        rest = tail;
    }
    overrides.file_system = match directory {
        Some(directory) => {
            let named = file_system_in(Path::new(directory))?;
            named.map(|address| ("--config", address))
        }
        None => of_variable()?,
    };
    Ok((rest, overrides))
}

/// The file system named by the environment's directory, if none of our settings names a NameNode.
fn of_variable() -> Result<Option<(&'static str, String)>, String> {
    let directory = std::env::var_os(DIRECTORY_VARIABLE).filter(|value| !value.is_empty());
    let Some(directory) = directory.map(PathBuf::from) else { return Ok(None) };
    // The directory may serve other programs.
    if !directory.join(SITE_FILE).is_file() {
        return Ok(None);
    }
    let Some(address) = file_system_in(&directory)? else { return Ok(None) };
    let config = ClientConfig::load().map_err(|error| error.to_string())?;
    let authority = |text: &str| text.split_once("://").map_or(text, |(_, rest)| rest).to_owned();
    match config.namenode {
        None => Ok(Some((DIRECTORY_VARIABLE, address))),
        Some(ours) if authority(&ours) == authority(address.trim_end_matches('/')) => Ok(None),
        Some(ours) => {
            report!(
                "hanno: {DIRECTORY_VARIABLE} names {address}; {ours} is used, which our own configuration names"
            );
            Ok(None)
        }
    }
}

/// The file system that a directory of Hadoop's configuration files names.
fn file_system_in(directory: &Path) -> Result<Option<String>, String> {
    let file = directory.join(SITE_FILE);
    let text = file.to_str().ok_or("the directory of the configuration is not UTF-8")?;
    Ok(file_system_among(&properties_of(text)?))
}

/// Takes generic options off the front; returns the words after them, and the cluster's address.
pub(crate) fn generic(
    arguments: &[OsString],
    overrides: &Overrides,
) -> Result<(Vec<String>, Overrides), String> {
    let Given { words, overrides, .. } = generic_with(arguments, overrides, &[])?;
    Ok((words, overrides))
}

/// A command line without its generic options.
pub(crate) struct Given {
    pub(crate) words: Vec<String>,
    pub(crate) overrides: Overrides,
    /// Those of the wanted properties that `-conf` and `-D` set; later ones win.
    pub(crate) properties: Vec<(String, String)>,
}

/// The same for a command that reads the properties `wanted`.
pub(crate) fn generic_with(
    arguments: &[OsString],
    overrides: &Overrides,
    wanted: &[&str],
) -> Result<Given, String> {
    let mut overrides = overrides.clone();
    let mut words = Vec::new();
    for argument in arguments {
        words.push(argument.to_str().ok_or("an argument that is not UTF-8")?.to_owned());
    }
    let (mut of_files, mut given) = (Vec::new(), Vec::new());
    loop {
        let (option, value, taken) = match &words[..] {
            [option, value, ..] if GENERIC.contains(&option.as_str()) => {
                (option.clone(), value.clone(), 2)
            }
            [option] if GENERIC.contains(&option.as_str()) => {
                return Err(format!("option {option} requires 1 argument."));
            }
            [option, ..] if option.starts_with("-D") && option.contains('=') => {
                ("-D".to_owned(), option[2..].to_owned(), 1)
            }
            _ => break,
        };
        words.drain(..taken);
        match (option.as_str(), value.split_once('=')) {
            ("-fs", _) => overrides.file_system = Some(("-fs", value)),
            ("-jt", _) => overrides.jobtracker = Some(value),
            ("-conf", _) => of_files.extend(properties_of(&value)?),
            ("-D", Some((name, value))) if FILE_SYSTEM_KEYS.contains(&name) => {
                // `-fs` wins wherever it stands.
                if overrides.file_system.as_ref().is_none_or(|(option, _)| *option != "-fs") {
                    overrides.file_system = Some(("fs.defaultFS", value.to_owned()));
                }
            }
            ("-D", Some((name, value))) if wanted.contains(&name) => {
                given.push((name.to_owned(), value.to_owned()));
            }
            ("-D", Some((name, _))) => warn_unused(&format!("property {name}")),
            ("-D", None) => return Err(format!("-D needs key=value, not `{value}'")),
            (option, _) => warn_unused(option),
        }
    }
    overrides.file_system = overrides
        .file_system
        .or_else(|| file_system_among(&of_files).map(|address| ("fs.defaultFS", address)));
    let of_files = of_files.into_iter().filter(|(name, _)| wanted.contains(&name.as_str()));
    Ok(Given { words, overrides, properties: of_files.chain(given).collect() })
}

/// The properties in one of Hadoop's configuration files.
fn properties_of(file: &str) -> Result<Vec<(String, String)>, String> {
    dfs::xml::of_files(&[file]).map_err(|failure| failure.to_string())
}

/// The file system that properties name; the last one wins.
fn file_system_among(properties: &[(String, String)]) -> Option<String> {
    let is_it = |(key, _): &&(String, String)| FILE_SYSTEM_KEYS.contains(&key.as_str());
    properties.iter().rev().find(is_it).map(|(_, value)| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn options_of_scripts_are_honoured_or_refused() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path().to_str().unwrap();
        for line in [
            &["--config"][..],
            &["--config", dir, "dfs"],
            &["--daemon", "start"],
            &["--hostnames", "a"],
        ] {
            assert!(of_script(&words(line)).is_err(), "{line:?}");
        }
        let site = "<configuration><property><name>fs.defaultFS</name><value>hanno://g:2</value></property></configuration>";
        std::fs::write(directory.path().join(SITE_FILE), site).unwrap();
        let args = words(&["--loglevel", "WARN", "--config", dir, "dfs", "-ls"]);
        let (rest, overrides) = of_script(&args).unwrap();
        assert_eq!(rest, words(&["dfs", "-ls"]));
        assert_eq!(overrides.file_system, Some(("--config", "hanno://g:2".to_owned())));
    }

    #[test]
    fn generic_options_come_first() {
        let args = words(&["-D", "a=b", "-fs", "webhdfs://h:1", "-Dx=y", "-report", "-fs"]);
        let (rest, overrides) = generic(&args, &Overrides::default()).unwrap();
        assert_eq!(rest, ["-report", "-fs"]);
        assert_eq!(overrides.file_system, Some(("-fs", "webhdfs://h:1".to_owned())));
        for line in [
            &["-Dfs.defaultFS=hanno://g:2", "-jt", "j:1", "x"][..],
            &["-jt", "j:1", "-D", "fs.defaultFS=hanno://g:2"],
        ] {
            let (_, overrides) = generic(&words(line), &Overrides::default()).unwrap();
            let expected = Some(("fs.defaultFS", "hanno://g:2".to_owned()));
            assert_eq!(
                (overrides.file_system, overrides.jobtracker.as_deref()),
                (expected, Some("j:1"))
            );
        }
        for line in [&["-fs"][..], &["-D", "x"], &["-conf", "/no/such.xml"]] {
            assert!(generic(&words(line), &Overrides::default()).is_err(), "{line:?}");
        }
    }
}
