//! `-help`, `-usage` and the texts of usage errors, laid out as Hadoop's.

use super::command::Command;
use super::commands::{all, named};
use super::context::Screen;
use super::fs::Failure;
use crate::output::report;

/// How every usage begins.
const PROGRAM: &str = "Usage: hadoop fs [generic options]";
/// The two commands that describe all others.
const ABOUT_COMMANDS: &str = "\t[-help [cmd ...]]\n\t[-usage [cmd ...]]\n";
/// How the general usage ends.
const GENERIC: &str = "\
Generic options supported are:
-conf <configuration file>        specify an application configuration file
-D <property=value>               define a value for a given property
-fs <hanno://namenode:port>       specify default filesystem URL to use, overrides 'fs.defaultFS' property from configurations.
-jt <local|resourcemanager:port>  specify a ResourceManager
-files <file1,...>                specify a comma-separated list of files to be copied to the map reduce cluster
-libjars <jar1,...>               specify a comma-separated list of jar files to be included in the classpath
-archives <archive1,...>          specify a comma-separated list of archives to be unarchived on the compute machines

The general command line syntax is:
command [genericOptions] [commandOptions]

";
/// Help that Hadoop's shell lacks.
const EXAMPLES: &str = "\
The same commands work without the dash and under the names `hanno dfs', `hdfs dfs' and `hadoop fs'; `--' ends the options.
Relative paths begin at /user/<you>. Globs: * ? [a-c] [^a] {a,b}, quoted so that your shell leaves them alone.

Examples:
  hanno dfs -mkdir -p /books
  hanno dfs -put moby-dick.txt /books
  generate | hanno dfs -put - /books/generated
  hanno dfs -ls -R -h /books
  hanno dfs -get '/books/*.txt' .
  hanno dfs -D dfs.replication=2 -D dfs.blocksize=64m -put big /big
  hanno dfs -help put
";

/// Usage of one command.
pub(super) fn usage(command: &Command) -> String {
    format!("{PROGRAM} {}", synopsis(command))
}

fn synopsis(command: &Command) -> String {
    format!("-{} {}", command.name, command.arguments).trim_end().to_owned()
}

/// Usage of all commands.
pub(super) fn general() -> String {
    let mut text = format!("{PROGRAM}\n");
    for command in visible() {
        text.push_str(&format!("\t[{}]\n", synopsis(command)));
    }
    text.push_str(ABOUT_COMMANDS);
    text.push('\n');
    text.push_str(GENERIC);
    text.push_str(EXAMPLES);
    text
}

fn visible() -> impl Iterator<Item = &'static Command> {
    all().into_iter().filter(|command| !command.deprecated)
}

/// `-help` (with descriptions) and `-usage`, for the commands named or for all. False if one of them is unknown.
pub(super) fn print(names: &[std::ffi::OsString], descriptions: bool) -> Result<bool, Failure> {
    let mut screen = Screen::new()?;
    if names.is_empty() {
        screen.print(&general())?;
    }
    if names.is_empty() && descriptions {
        for command in visible() {
            describe(command, &mut screen)?;
        }
    }
    for name in names {
        let name = name.to_string_lossy();
        let bare = name.trim_start_matches('-');
        match named(bare) {
            Some(command) if descriptions => describe(command, &mut screen)?,
            Some(command) => screen.line(format_args!("{}", usage(command)))?,
            None if matches!(bare, "help" | "usage") => {
                screen.line(format_args!("{PROGRAM} -{bare} [cmd ...]"))?;
            }
            None => {
                screen.flush()?;
                let asked = if descriptions { "help" } else { "usage" };
                report!("-{asked}: `{name}': Unknown command\n{PROGRAM} -{asked} [cmd ...]");
                return Ok(false);
            }
        }
    }
    screen.flush()?;
    Ok(true)
}

fn describe(command: &Command, screen: &mut Screen) -> Result<(), Failure> {
    screen.line(format_args!("{} :", synopsis(command)))?;
    for line in command.about.lines() {
        screen.line(format_args!("{}", format!("  {line}").trim_end()))?;
    }
    screen.line(format_args!(""))
}
