//! The options that all of Hadoop's commands have in common, and the cluster address from them: those of its scripts (`--config`), before a command's name, and
//! generic ones (`-fs`, `-conf`, `-D`, …) after it.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use client::ClientConfig;
use client::site::{Site, SiteError};
use protocol::error::chain;

use crate::connect::{Overrides, warn_unused};
use crate::output::report;

/// Names the directory of Hadoop's configuration files, as `--config` does.
pub(crate) const DIRECTORY_VARIABLE: &str = "HADOOP_CONF_DIR";
/// The files of such a directory that clients read. The first names the file system.
const SITE_FILES: [&str; 3] = ["core-site.xml", "hdfs-site.xml", "mapred-site.xml"];
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
    let variable = std::env::var_os(DIRECTORY_VARIABLE).filter(|value| !value.is_empty());
    match (directory, variable) {
        (Some(directory), _) => {
            let directory = Path::new(directory);
            std::fs::metadata(directory.join(SITE_FILES[0]))
                .map_err(|error| format!("{}: {error}", directory.join(SITE_FILES[0]).display()))?;
            overrides.site = site_in(directory)?;
            let named = file_system_among(&overrides.site);
            overrides.file_system = named.map(|address| ("--config", address));
        }
        // It may serve other programs.
        (None, Some(directory)) => {
            of_variable(Path::new(&directory), &mut overrides)?;
        }
        _ => {}
    }
    Ok((rest, overrides))
}

/// Takes what the environment's directory says. Our own settings win over the file system that it names, not over its other properties.
fn of_variable(directory: &Path, overrides: &mut Overrides) -> Result<(), String> {
    if !directory.is_dir() {
        report!("hanno: {DIRECTORY_VARIABLE} names {}, which is no directory", directory.display());
        return Ok(());
    }
    let site = site_in(directory)?;
    let ours = ClientConfig::load().map_err(|error| error.to_string())?.namenode;
    let authority = |text: &str| text.split_once("://").map_or(text, |(_, rest)| rest).to_owned();
    match (file_system_among(&site), ours) {
        (Some(address), None) => overrides.file_system = Some((DIRECTORY_VARIABLE, address)),
        (Some(address), Some(ours))
            if authority(&ours) != authority(address.trim_end_matches('/')) =>
        {
            report!(
                "hanno: {DIRECTORY_VARIABLE} names {address}; {ours} is used, which our own configuration names"
            );
        }
        _ => {}
    }
    overrides.site = site;
    Ok(())
}

/// The properties of a directory of Hadoop's configuration files.
fn site_in(directory: &Path) -> Result<Vec<(String, String)>, String> {
    let files = SITE_FILES.iter().map(|name| directory.join(name));
    // Whatever else is wrong with one, reading it tells.
    let is_absent = |error: io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    let files: Vec<_> =
        files.filter(|path| !std::fs::metadata(path).is_err_and(is_absent)).collect();
    properties_of(&files).map_err(|error| chain(&error))
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
    /// Those of the wanted properties that the configuration, `-conf` and `-D` set; later ones win.
    pub(crate) properties: Vec<(String, String)>,
}

/// The words of a command line as texts. One that is none is refused: another word in its place would name something else.
pub(crate) fn texts(arguments: &[OsString]) -> Result<Vec<String>, String> {
    let text = |word: &OsString| {
        let text = word.to_str().map(str::to_owned);
        text.ok_or_else(|| format!("{}: it is not UTF-8", word.display()))
    };
    arguments.iter().map(text).collect()
}

/// The same for a command that reads the properties `wanted`.
pub(crate) fn generic_with(
    arguments: &[OsString],
    overrides: &Overrides,
    wanted: &[&str],
) -> Result<Given, String> {
    let mut overrides = overrides.clone();
    let mut words = texts(arguments)?;
    let (mut files, mut given) = (Vec::new(), Vec::new());
    // `-fs` wins wherever it stands.
    let (mut by_option, mut by_property) = (None, None);
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
            ("-fs", _) => by_option = Some(("-fs", value)),
            ("-jt", _) => overrides.jobtracker_by_jt = Some(value),
            ("-conf", _) => files.push(value),
            ("-D", Some((name, value))) if names_file_system(name) => {
                by_property = Some(("fs.defaultFS", value.to_owned()));
            }
            ("-D", Some((name, value))) if wanted.contains(&name) => {
                given.push((name.to_owned(), value.to_owned()));
            }
            ("-D", Some((name, _))) => warn_unused(&format!("property {name}")),
            ("-D", None) => return Err(format!("-D needs key=value, not `{value}'")),
            (option, _) => warn_unused(option),
        }
    }
    let of_files = properties_of(&files).map_err(|error| chain(&error))?;
    let by_file = || file_system_among(&of_files).map(|address| ("fs.defaultFS", address));
    let named = by_option.or(by_property).or_else(by_file);
    overrides.file_system = named.or(overrides.file_system);
    let site = overrides.site.iter().cloned().chain(of_files);
    let wanted = site.filter(|(name, _)| wanted.contains(&name.as_str()));
    let properties = wanted.chain(given).collect();
    Ok(Given { words, overrides, properties })
}

/// The properties of some of Hadoop's configuration files together; a warning names each that counts for nothing.
pub(crate) fn properties_of(
    files: &[impl AsRef<Path>],
) -> Result<Vec<(String, String)>, SiteError> {
    let site = Site::of_files(files)?;
    for (file, name) in &site.overruled {
        report!("hanno: {}: {name} is final in an earlier file", file.display());
    }
    let mut properties = site.resolved()?;
    // As Hadoop reads numbers, sizes and addresses.
    properties.iter_mut().for_each(|(_, value)| *value = value.trim().to_owned());
    Ok(properties)
}

/// The file system that properties name; the last one wins.
fn file_system_among(properties: &[(String, String)]) -> Option<String> {
    let is_it = |(name, _): &&(String, String)| names_file_system(name);
    properties.iter().rev().find(is_it).map(|(_, value)| value.clone())
}

/// True for the properties that name the file system.
pub(crate) fn names_file_system(property: &str) -> bool {
    FILE_SYSTEM_KEYS.contains(&property)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_word_that_is_no_text_is_refused_and_never_another() {
        use std::os::unix::ffi::OsStringExt;
        let broken = [OsString::from("-ls"), OsString::from_vec(b"/o\xff".to_vec())];
        assert_eq!(texts(&broken[..1]), Ok(vec!["-ls".to_owned()]));
        assert!(texts(&broken).unwrap_err().ends_with("it is not UTF-8"));
        for run in [crate::job::streaming, crate::job::run, crate::debug::run] {
            let line = [OsString::from("verifyMeta"), broken[1].clone()];
            assert_ne!(run(&line, &Overrides::default()), 0);
        }
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
        std::fs::write(directory.path().join(SITE_FILES[0]), site).unwrap();
        let args = words(&["--loglevel", "WARN", "--config", dir, "dfs", "-ls"]);
        let (rest, overrides) = of_script(&args).unwrap();
        assert_eq!(rest, words(&["dfs", "-ls"]));
        assert_eq!(overrides.file_system, Some(("--config", "hanno://g:2".to_owned())));
    }

    #[test]
    fn every_file_of_a_directory_counts() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(site_in(directory.path()).unwrap(), []);
        let site = "<configuration><property><name>dfs.replication</name><value>2</value></property></configuration>";
        std::fs::write(directory.path().join(SITE_FILES[1]), site).unwrap();
        let found = [("dfs.replication".to_owned(), "2".to_owned())];
        assert_eq!(site_in(directory.path()).unwrap(), found);
        std::fs::write(directory.path().join(SITE_FILES[2]), "<configuration>").unwrap();
        assert!(site_in(directory.path()).is_err());
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
                (overrides.file_system, overrides.jobtracker_by_jt.as_deref()),
                (expected, Some("j:1"))
            );
        }
        for line in [&["-fs"][..], &["-D", "x"], &["-conf", "/no/such.xml"]] {
            assert!(generic(&words(line), &Overrides::default()).is_err(), "{line:?}");
        }
    }
}
