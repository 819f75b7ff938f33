//! The commands of Hadoop's own programs: those that `hdfs`, `hadoop`, `mapred` and `yarn` accept when this program is started under one of those names, and
//! the same commands as `hanno NAME`.
//!
//! [`COMMANDS`] is the table; [`crate::absent`] has the missing ones. Each takes its arguments unchanged, because Hadoop's options have one dash and many
//! letters.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::absent::{self, Absent};
use crate::connect::Overrides;
use crate::generic::of_script;
use crate::output::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, report, report_text, say};
use crate::reference::{Outline, described, examples};
use crate::{
    balancer, debug, dfs, dfsadmin, distcp, environment, fsck, getconf, haadmin, job, offline,
    policies, snapshots, token, yarn,
};

/// Runs a command with the words after its name; returns the exit code.
pub(crate) type Run = fn(&[OsString], &Overrides) -> u8;

/// One command.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The names of this program under which it exists; `hanno` has all.
    pub(crate) programs: &'static [&'static str],
    pub(crate) run: Run,
    /// What it takes, for completions and manual pages.
    pub(crate) outline: fn() -> Outline,
}

/// Commands of `job` that print a help of their own, with more than their outline.
const OWN_HELP: &[&str] = &["streaming", "top", "replay", "logs"];

impl Command {
    /// Runs it with the words after its name; returns the exit code. `--help` is answered here, for the parsers know Hadoop's options alone.
    pub(crate) fn start(&self, words: &[OsString], overrides: &Overrides) -> u8 {
        match self.asked(words) {
            Some(help) => {
                say!("{}", help.trim_end());
                EXIT_OK
            }
            None => (self.run)(words, overrides),
        }
    }

    /// Its help with examples.
    pub(crate) fn help(&self) -> String {
        let help = (self.outline)().help;
        match examples::of(self.name) {
            Some(text) if !help.contains("\nExample") => format!("{help}\n\nExamples:\n{text}"),
            _ => help,
        }
    }

    /// The help that `--help` asks for, of the command or of one in it.
    fn asked(&self, words: &[OsString]) -> Option<String> {
        match words {
            [only] if only == "--help" && self.name != "streaming" => Some(self.help()),
            [word, last] if last == "--help" => {
                let (outline, word) = ((self.outline)(), word.to_str()?);
                let plain = word.trim_start_matches('-');
                let is_named = |known: &str| match outline.is_dash_optional {
                    true => known.trim_start_matches('-') == plain,
                    false => known == word,
                };
                let (known, _) =
                    outline.commands.iter().find(|(known, _)| is_named(&known.name))?;
                if self.name == "job" && OWN_HELP.contains(&plain) {
                    return None;
                }
                let (left, about) = described(&outline.help)
                    .into_iter()
                    .find(|(left, _)| left.split(' ').next() == Some(&*known.name))?;
                Some(format!("Usage: hanno {} {left}\n\n{about}", self.name))
            }
            _ => None,
        }
    }
}

const HDFS: &[&str] = &["hdfs"];
const HADOOP: &[&str] = &["hadoop"];
/// Of `hdfs`; `hadoop` passes them on, as it always did.
const BOTH: &[&str] = &["hdfs", "hadoop"];
const JOBS: &[&str] = &["hadoop", "mapred"];
const YARN: &[&str] = &["yarn"];
const ALL: &[&str] = &["hdfs", "hadoop", "mapred", "yarn"];

/// See the module. A new command is one more line.
#[rustfmt::skip]
pub(crate) static COMMANDS: &[Command] = &[
    Command { name: "debug", about: "run a Debug Admin to execute HDFS debug commands", programs: HDFS, run: debug::run, outline: debug::outline },
    Command { name: "dfs", about: "run a filesystem command", programs: BOTH, run: dfs::run, outline: dfs::outline },
    Command { name: "fs", about: "run a filesystem command", programs: HADOOP, run: dfs::run, outline: dfs::outline },
    Command { name: "dfsadmin", about: "run a DFS admin client", programs: BOTH, run: dfsadmin::run, outline: dfsadmin::outline },
    Command { name: "balancer", about: "run a cluster balancing utility", programs: BOTH, run: balancer::run, outline: balancer::outline },
    Command { name: "fsck", about: "run a DFS filesystem checking utility", programs: BOTH, run: fsck::run, outline: fsck::outline },
    Command { name: "envvars", about: "display the environment variables that are read", programs: ALL, run: environment::variables, outline: || Outline::plain("Usage: hdfs envvars") },
    Command { name: "checknative", about: "tell which codecs are there", programs: HADOOP, run: environment::codecs, outline: || Outline::with_options("Usage: hadoop checknative [-a]") },
    Command { name: "fetchdt", about: "fetch a delegation token from the NameNode", programs: BOTH, run: token::fetch, outline: token::fetch_outline },
    Command { name: "getconf", about: "get config values from configuration", programs: HDFS, run: getconf::getconf, outline: getconf::outline },
    Command { name: "groups", about: "get the groups which users belong to", programs: BOTH, run: getconf::groups, outline: || Outline::plain(getconf::GROUPS_USAGE) },
    Command { name: "distcp", about: "copy files or directories, also between clusters", programs: JOBS, run: distcp::run, outline: distcp::outline },
    Command { name: "job", about: "look at, stop and debug jobs", programs: JOBS, run: job::run, outline: job::outline },
    Command { name: "queue", about: "look at the queues of jobs", programs: JOBS, run: job::queues::run, outline: job::queues::outline },
    Command { name: "mradmin", about: "have the list of workers to be emptied read again", programs: JOBS, run: job::trackers::mradmin, outline: job::trackers::outline },
    Command {
        name: "streaming",
        about: "run commands as mapper and reducer",
        programs: &["mapred"],
        run: job::streaming,
        outline: job::streaming_outline,
    },
    Command {
        name: "jar",
        about: "what …hadoop-streaming….jar does; it is built in",
        programs: &["hadoop", "yarn"],
        run: job::jar,
        outline: job::streaming_outline,
    },
    Command { name: "lsSnapshottableDir", about: "list all snapshottable dirs owned by the current user", programs: HDFS, run: snapshots::list_snapshottable, outline: || Outline::plain(snapshots::LIST_SNAPSHOTTABLE_USAGE) },
    Command { name: "lsSnapshot", about: "list all snapshots for a snapshottable directory", programs: HDFS, run: snapshots::list_snapshots, outline: || Outline::plain(snapshots::LIST_USAGE) },
    Command { name: "snapshotDiff", about: "diff two snapshots of a directory or diff the current directory contents with a snapshot", programs: HDFS, run: snapshots::snapshot_diff, outline: || Outline::plain(snapshots::DIFF_USAGE) },
    Command { name: "storagepolicies", about: "list/get/set block storage policies", programs: HDFS, run: policies::storage::run, outline: policies::storage::outline },
    Command { name: "ec", about: "tell that files are replicated, not erasure coded", programs: HDFS, run: policies::erasure::run, outline: policies::erasure::outline },
    Command { name: "haadmin", about: "tell the state of the NameNode", programs: HDFS, run: haadmin::run, outline: haadmin::outline },
    Command { name: "oiv", about: "apply the offline image viewer to an image", programs: BOTH, run: offline::oiv::run, outline: offline::oiv::outline },
    Command { name: "oev", about: "apply the offline edits viewer to a log", programs: HDFS, run: offline::oev::run, outline: offline::oev::outline },
    Command { name: "app", about: "list, look at and end applications: jobs", programs: YARN, run: yarn::application, outline: || Outline::with_options(yarn::APPLICATION_USAGE) },
    Command { name: "application", about: "list, look at and end applications: jobs", programs: YARN, run: yarn::application, outline: || Outline::with_options(yarn::APPLICATION_USAGE) },
    Command { name: "applicationattempt", about: "look at the attempt of an application", programs: YARN, run: yarn::attempt, outline: || Outline::with_options(yarn::ATTEMPT_USAGE) },
    Command { name: "container", about: "look at containers: attempts of tasks", programs: YARN, run: yarn::container, outline: || Outline::with_options(yarn::CONTAINER_USAGE) },
    Command { name: "logs", about: "print what the attempts of an application wrote", programs: YARN, run: yarn::logs, outline: || Outline::with_options(yarn::LOGS_USAGE) },
    Command { name: "node", about: "look at nodes: workers", programs: YARN, run: yarn::node, outline: || Outline::with_options(yarn::NODE_USAGE) },
    Command { name: "queue", about: "look at queues", programs: YARN, run: yarn::queue, outline: || Outline::with_options(yarn::QUEUE_USAGE) },
    Command { name: "top", about: "watch jobs, queues and slots", programs: YARN, run: yarn::top, outline: || Outline::with_options(yarn::TOP_USAGE) },
    Command { name: "version", about: "print the version", programs: ALL, run: version, outline: || Outline::plain("Usage: hdfs version") },
];

/// The version of Hadoop that these commands follow.
const HADOOP_VERSION: &str = "3.4.1";
/// Names of this program besides `hanno`.
pub(crate) const PROGRAMS: [&str; 4] = ["hdfs", "hadoop", "mapred", "yarn"];
/// A name that programs look for beside `hadoop` before they call `hadoop jar` with it.
const STREAMING_JAR: &str = "hadoop-streaming.jar";

/// Runs the program under the name `program`.
pub(crate) fn run(program: &str, args: &[OsString]) -> u8 {
    let (args, overrides) = match of_script(args) {
        Ok(found) => found,
        Err(text) => {
            report!("{program}: {text}");
            return EXIT_USAGE;
        }
    };
    let Some((name, rest)) = args.split_first() else {
        report_text!("{}", usage(program));
        return EXIT_USAGE;
    };
    let name = name.to_string_lossy();
    match of_program(program).find(|command| command.name == name) {
        Some(command) => command.start(rest, &overrides),
        None if matches!(&*name, "-version" | "--version") => version(rest, &overrides),
        None if matches!(&*name, "-help" | "--help" | "-h") => {
            say!("{}", usage(program).trim_end());
            EXIT_OK
        }
        None if absent::refuse(program, &name, absent_of(program)) => EXIT_USAGE,
        None => {
            report_text!(
                "ERROR: {name} is not COMMAND nor fully qualified CLASSNAME.\n{}",
                usage(program)
            );
            EXIT_USAGE
        }
    }
}

/// The commands of a name of this program.
pub(crate) fn of_program(program: &str) -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(move |command| command.programs.contains(&program))
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
    for command in of_program(program) {
        text.push_str(&format!("    {:<20} {}\n", command.name, command.about));
    }
    text
}

/// The first line is Hadoop's, because scripts compare it; the next names this program.
fn version(_: &[OsString], _: &Overrides) -> u8 {
    say!("Hadoop {HADOOP_VERSION}");
    say!("Commands as of this version; program hanno {}", env!("CARGO_PKG_VERSION"));
    EXIT_OK
}

/// `hanno install-links DIR`: makes this program start under Hadoop's names.
pub(crate) fn install_links(directory: &Path, force: bool) -> u8 {
    match make_links(directory, force) {
        Ok(()) => EXIT_OK,
        Err(error) => {
            report!("install-links: {error:#}");
            EXIT_FAILED
        }
    }
}

fn make_links(directory: &Path, force: bool) -> Result<()> {
    let program = std::env::current_exe().context("cannot find this program")?;
    for name in PROGRAMS.iter().chain([&STREAMING_JAR]) {
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
            ("yarn", &["application", "-moveToQueue", "q"], EXIT_USAGE),
            ("yarn", &["app", "-help"], EXIT_OK),
            ("yarn", &["rmadmin", "-refreshQueues"], EXIT_USAGE),
            ("hadoop", &["distcp", "-rdiff", "a", "b", "/a", "/b"], EXIT_USAGE),
            ("mapred", &["distcp", "-help"], EXIT_OK),
            ("hdfs", &[], EXIT_USAGE),
            ("mapred", &["nothing"], EXIT_USAGE),
        ] {
            assert_eq!(run(program, &words(args)), code, "{program} {args:?}");
        }
    }

    #[test]
    fn every_command_has_help_with_examples() {
        for command in COMMANDS {
            let name = command.name;
            assert_eq!(
                command.start(&words(&["--help"]), &Overrides::default()),
                EXIT_OK,
                "{name}"
            );
            let help = command.help();
            let is_java = ["streaming", "jar"].contains(&name);
            assert!(is_java || help.contains("\nExample"), "{name}: {help}");
            let is_dash_optional = (command.outline)().is_dash_optional;
            for (word, _) in (command.outline)().commands {
                let plain = word.name.trim_start_matches('-').to_owned();
                if name != "dfs"
                    && name != "fs"
                    && described(&help).iter().any(|(left, _)| left.starts_with(&word.name))
                {
                    let plain = Some(&plain).filter(|_| is_dash_optional);
                    for word in [&word.name].into_iter().chain(plain) {
                        let code = command.start(&words(&[word, "--help"]), &Overrides::default());
                        assert_eq!(code, EXIT_OK, "{name} {word}");
                    }
                }
            }
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
        for link in [&link, &directory.path().join(STREAMING_JAR)] {
            assert_eq!(std::fs::read_link(link).unwrap(), std::env::current_exe().unwrap());
        }
    }
}
