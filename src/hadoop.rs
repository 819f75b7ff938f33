//! The commands of Hadoop's own programs: what `hdfs`, `hadoop`, `mapred` and `yarn` understand when this program is started under one of
//! those names, and the same commands as `hanno NAME`.
//!
//! [`COMMANDS`] is the table; [`crate::absent`] has what is not here. Each takes its arguments untouched, because Hadoop's options have one dash and many letters.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use client::ClientConfig;

use crate::absent::{self, Absent};
use crate::connect::{Overrides, warn_unused};
use crate::output::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, say, tell, tell_text};
use crate::{
    balancer, debug, dfs, dfsadmin, environment, fsck, getconf, job, snapshots, storage_policies,
    token,
};

/// Runs a command with the words after its name; returns the exit code.
pub(crate) type Run = fn(&[OsString], &Overrides) -> u8;

/// One command.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Under which names of this program it exists; `hanno` has all.
    programs: &'static [&'static str],
    pub(crate) run: Run,
}

const HDFS: &[&str] = &["hdfs"];
const HADOOP: &[&str] = &["hadoop"];
/// Of `hdfs`; `hadoop` passes them on, as it always did.
const BOTH: &[&str] = &["hdfs", "hadoop"];
const JOBS: &[&str] = &["hadoop", "mapred"];
const ALL: &[&str] = &["hdfs", "hadoop", "mapred", "yarn"];

/// See the module. A new command is one more line.
#[rustfmt::skip]
pub(crate) static COMMANDS: &[Command] = &[
    Command { name: "debug", about: "run a Debug Admin to execute HDFS debug commands", programs: HDFS, run: debug::run },
    Command { name: "dfs", about: "run a filesystem command", programs: BOTH, run: dfs::run },
    Command { name: "fs", about: "run a filesystem command", programs: HADOOP, run: dfs::run },
    Command { name: "dfsadmin", about: "run a DFS admin client", programs: BOTH, run: dfsadmin::run },
    Command { name: "balancer", about: "run a cluster balancing utility", programs: BOTH, run: balancer::run },
    Command { name: "fsck", about: "run a DFS filesystem checking utility", programs: BOTH, run: fsck::run },
    Command { name: "envvars", about: "display the environment variables that are read", programs: ALL, run: environment::variables },
    Command { name: "checknative", about: "tell which codecs are there", programs: HADOOP, run: environment::codecs },
    Command { name: "fetchdt", about: "fetch a delegation token from the NameNode", programs: BOTH, run: token::fetch },
    Command { name: "getconf", about: "get config values from configuration", programs: HDFS, run: getconf::getconf },
    Command { name: "groups", about: "get the groups which users belong to", programs: BOTH, run: getconf::groups },
    Command { name: "job", about: "look at, stop and debug jobs", programs: JOBS, run: job::run },
    Command { name: "queue", about: "look at the queues of jobs", programs: &["hadoop", "mapred", "yarn"], run: job::queues::run },
    Command { name: "mradmin", about: "have the list of workers to be emptied read again", programs: JOBS, run: job::trackers::mradmin },
    Command {
        name: "streaming",
        about: "run commands as mapper and reducer",
        programs: &["mapred"],
        run: job::streaming,
    },
    Command {
        name: "jar",
        about: "what …hadoop-streaming….jar does; it is built in",
        programs: &["hadoop", "yarn"],
        run: job::jar,
    },
    Command { name: "lsSnapshottableDir", about: "list all snapshottable dirs owned by the current user", programs: HDFS, run: snapshots::list_snapshottable },
    Command { name: "lsSnapshot", about: "list all snapshots for a snapshottable directory", programs: HDFS, run: snapshots::list_snapshots },
    Command { name: "snapshotDiff", about: "diff two snapshots of a directory or diff the current directory contents with a snapshot", programs: HDFS, run: snapshots::snapshot_diff },
    Command { name: "storagepolicies", about: "list/get/set block storage policies", programs: HDFS, run: storage_policies::run },
    Command { name: "version", about: "print the version", programs: ALL, run: version },
];

/// The version of Hadoop whose commands these are.
const HADOOP_VERSION: &str = "3.4.1";
/// Names of this program besides `hanno`.
pub(crate) const PROGRAMS: [&str; 4] = ["hdfs", "hadoop", "mapred", "yarn"];
/// Names the directory of Hadoop's configuration files, as `--config` does.
pub(crate) const DIRECTORY_VARIABLE: &str = "HADOOP_CONF_DIR";
/// The file of such a directory that names the file system.
const SITE_FILE: &str = "core-site.xml";

/// Takes the options of Hadoop's scripts off the front: the words after them, and where the cluster is.
fn of_script(args: &[OsString]) -> Result<(&[OsString], Overrides), String> {
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

/// What the directory of the environment names, where nothing of ours names a NameNode.
fn of_variable() -> Result<Option<(&'static str, String)>, String> {
    let directory = std::env::var_os(DIRECTORY_VARIABLE).filter(|value| !value.is_empty());
    let Some(directory) = directory.map(PathBuf::from) else { return Ok(None) };
    // Such a directory may be there for other programs.
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
            tell!(
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

/// Started as `program`.
pub(crate) fn run(program: &str, args: &[OsString]) -> u8 {
    let (args, overrides) = match of_script(args) {
        Ok(found) => found,
        Err(text) => {
            tell!("{program}: {text}");
            return EXIT_USAGE;
        }
    };
    let Some((name, rest)) = args.split_first() else {
        tell_text!("{}", usage(program));
        return EXIT_USAGE;
    };
    let name = name.to_string_lossy();
    let of_program = |command: &&Command| command.programs.contains(&program);
    match COMMANDS.iter().filter(of_program).find(|command| command.name == name) {
        Some(command) => (command.run)(rest, &overrides),
        None if matches!(&*name, "-version" | "--version") => version(rest, &overrides),
        None if matches!(&*name, "-help" | "--help" | "-h") => {
            say!("{}", usage(program).trim_end());
            EXIT_OK
        }
        None if absent::refuse(program, &name, absent_of(program)) => EXIT_USAGE,
        None => {
            tell_text!(
                "ERROR: {name} is not COMMAND nor fully qualified CLASSNAME.\n{}",
                usage(program)
            );
            EXIT_USAGE
        }
    }
}

fn absent_of(program: &str) -> &'static [Absent] {
    match program {
        "hdfs" => absent::HDFS,
        "hadoop" => absent::HADOOP,
        "mapred" => absent::MAPRED,
        "yarn" => absent::YARN,
        _ => &[],
    }
}

fn usage(program: &str) -> String {
    let mut text = format!("Usage: {program} [OPTIONS] SUBCOMMAND [SUBCOMMAND OPTIONS]\n\n");
    for command in COMMANDS.iter().filter(|command| command.programs.contains(&program)) {
        text.push_str(&format!("    {:<20} {}\n", command.name, command.about));
    }
    text
}

/// First line as Hadoop's, because scripts compare it; then what this is.
fn version(_: &[OsString], _: &Overrides) -> u8 {
    say!("Hadoop {HADOOP_VERSION}");
    say!("Commands as of this version; program hanno {}", env!("CARGO_PKG_VERSION"));
    EXIT_OK
}

/// Takes generic options off the front: the words after them, and where the cluster is.
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

/// The same for a command that has a use for the properties `wanted`.
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

/// Generic options; each has a value.
const GENERIC: [&str; 7] = ["-fs", "-jt", "-D", "-conf", "-files", "-libjars", "-archives"];
/// Properties that name the file system.
const FILE_SYSTEM_KEYS: [&str; 2] = ["fs.defaultFS", "fs.default.name"];

/// What one of Hadoop's configuration files sets.
fn properties_of(file: &str) -> Result<Vec<(String, String)>, String> {
    dfs::xml::of_files(&[file]).map_err(|failure| failure.to_string())
}

/// The file system that properties name; the last one wins.
fn file_system_among(properties: &[(String, String)]) -> Option<String> {
    let is_it = |(key, _): &&(String, String)| FILE_SYSTEM_KEYS.contains(&key.as_str());
    properties.iter().rev().find(is_it).map(|(_, value)| value.clone())
}

/// `hanno install-links DIR`: makes this program start under Hadoop's names.
pub(crate) fn install_links(directory: &Path, force: bool) -> u8 {
    match make_links(directory, force) {
        Ok(()) => EXIT_OK,
        Err(error) => {
            tell!("install-links: {error:#}");
            EXIT_FAILED
        }
    }
}

fn make_links(directory: &Path, force: bool) -> Result<()> {
    let program = std::env::current_exe().context("cannot find this program")?;
    for name in PROGRAMS {
        let link = directory.join(name);
        match std::fs::read_link(&link) {
            Ok(target) if target == program => {}
            Ok(_) if force => {
                std::fs::remove_file(&link)
                    .with_context(|| format!("cannot replace {}", link.display()))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => bail!("{} is something else; --force replaces links", link.display()),
        }
        if std::fs::symlink_metadata(&link).is_err() {
            symlink(&program, &link).with_context(|| format!("cannot make {}", link.display()))?;
        }
        say!("{} -> {}", link.display(), program.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn commands_belong_to_programs() {
        for (program, args, code) in [
            ("hdfs", &["version"][..], EXIT_OK),
            ("hadoop", &["--loglevel", "WARN", "version"], EXIT_OK),
            ("hdfs", &["fs", "-ls"], EXIT_USAGE),
            ("hadoop", &["fsck", "-help"], EXIT_OK),
            ("yarn", &["version"], EXIT_OK),
            ("yarn", &["application", "-list"], EXIT_USAGE),
            ("hadoop", &["distcp", "/a", "/b"], EXIT_USAGE),
            ("hdfs", &[], EXIT_USAGE),
            ("mapred", &["nothing"], EXIT_USAGE),
        ] {
            assert_eq!(run(program, &words(args)), code, "{program} {args:?}");
        }
    }

    /// Hadoop 3.4's own lists.
    #[test]
    fn every_command_of_hadoops_is_here_or_told_to_be_absent() {
        for (program, names) in [
            (
                "hdfs",
                "balancer cacheadmin classpath crypto datanode debug dfs dfsadmin dfsrouter dfsrouteradmin diskbalancer ec envvars fetchdt fsck \
                 getconf groups haadmin httpfs jmxget journalnode lsSnapshot lsSnapshottableDir mover namenode nfs3 oev oiv oiv_legacy portmap \
                 secondarynamenode snapshotDiff sps version zkfc",
            ),
            (
                "hadoop",
                "archive balancer checknative classpath conftest credential daemonlog datanode dfs dfsadmin distch distcp dtutil envvars \
                 fedbalance fetchdt fs fsck gridmix groups jar jnipath job kdiag kerbname key kms mradmin namenode nfs3 oiv portmap queue \
                 registrydns resourceestimator rumenfolder rumentrace s3guard secondarynamenode trace version",
            ),
            (
                "mapred",
                "archive archive-logs classpath distcp envvars frameworkuploader historyserver hsadmin job minicluster mradmin pipes queue \
                 sampler streaming successfile version",
            ),
            (
                "yarn",
                "app application applicationattempt classpath cluster container daemonlog envvars fs2cs jar logs node nodeattributes nodemanager \
                 proxyserver queue registrydns resourcemanager rmadmin router scmadmin schedulerconf sharedcachemanager timelinereader \
                 timelineserver top version",
            ),
        ] {
            let is_absent = |name: &str| absent_of(program).iter().any(|a| a.name == name);
            let is_here = |name: &str| {
                COMMANDS.iter().any(|c| c.name == name && c.programs.contains(&program))
            };
            for name in names.split_whitespace() {
                assert!(is_here(name) != is_absent(name), "{program} {name}");
            }
            for absent in absent_of(program) {
                assert!(names.split_whitespace().any(|n| n == absent.name), "{}", absent.name);
            }
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

    #[test]
    fn links_are_made_once_and_replace_nothing_foreign() {
        let directory = tempfile::tempdir().unwrap();
        make_links(directory.path(), false).unwrap();
        make_links(directory.path(), false).unwrap();
        let link = directory.path().join("hdfs");
        std::fs::remove_file(&link).unwrap();
        std::fs::write(&link, "a script").unwrap();
        assert!(make_links(directory.path(), true).is_err());
        std::fs::remove_file(&link).unwrap();
        symlink("/elsewhere", &link).unwrap();
        assert!(make_links(directory.path(), false).is_err());
        make_links(directory.path(), true).unwrap();
        assert_eq!(std::fs::read_link(&link).unwrap(), std::env::current_exe().unwrap());
    }
}
