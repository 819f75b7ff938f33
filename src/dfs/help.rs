//! `-help`, `-usage` and the texts of usage errors.

use super::context::Screen;
use super::error::Failure;
use super::{COMMANDS, Command};

/// How the general usage begins.
const INTRODUCTION: &str = "Usage: hanno dfs [-D key=value] [-fs hanno://host:port] -COMMAND [options] [operands]\n\
    `hanno dfs -put a /a' and `hanno dfs put a /a' are the same; `--' ends the options.\n";
/// How it ends.
const EXAMPLES: &str = "\
Examples:
  hanno dfs -mkdir -p /books
  hanno dfs -put moby-dick.txt /books
  generate | hanno dfs -put - /books/generated
  hanno dfs -ls -R -h /books
  hanno dfs -get '/books/*.txt' .
  hanno dfs -D dfs.replication=2 -D dfs.blocksize=64m -put big /big

Relative paths begin at /user/<you>. Globs: * ? [a-c] [^a] {a,b}, quoted so that your shell leaves them alone.
`hanno dfs -help COMMAND' tells more about one.
";

/// Usage of one command.
pub(super) fn usage(command: &Command) -> String {
    let arguments = if command.arguments.is_empty() { "" } else { " " };
    format!("hadoop fs [generic options] -{}{arguments}{}", command.name, command.arguments)
}

/// Usage of all commands.
pub(super) fn general() -> String {
    let mut text = INTRODUCTION.to_owned();
    text.push('\n');
    for command in visible() {
        let arguments = format!("-{} {}", command.name, command.arguments);
        text.push_str(&format!("  {}\n", arguments.trim_end()));
    }
    text.push('\n');
    text.push_str(EXAMPLES);
    text
}

fn visible() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(|command| !command.deprecated)
}

/// `-help` (with descriptions) and `-usage`, for the commands named or for all.
pub(super) fn print(names: &[std::ffi::OsString], descriptions: bool) -> Result<bool, Failure> {
    let mut screen = Screen::new()?;
    let mut all_known = true;
    if names.is_empty() && !descriptions {
        screen.print(&general())?;
    } else if names.is_empty() {
        screen.print(INTRODUCTION)?;
        for command in visible() {
            describe(command, &mut screen)?;
        }
        screen.print(&format!("\n{EXAMPLES}"))?;
    }
    for name in names {
        let name = name.to_string_lossy();
        match super::find(name.trim_start_matches('-')) {
            Some(command) if descriptions => describe(command, &mut screen)?,
            Some(command) => screen.line(format_args!("Usage: {}", usage(command)))?,
            None => {
                all_known = false;
                eprintln!("{name}: Unknown command");
            }
        }
    }
    screen.flush()?;
    Ok(all_known)
}

fn describe(command: &Command, screen: &mut Screen) -> Result<(), Failure> {
    let arguments = format!("-{} {}", command.name, command.arguments);
    screen.line(format_args!("\n{} :", arguments.trim_end()))?;
    screen.line(format_args!("  {}", command.about.replace('\n', "\n  ")))
}
