//! `-createSnapshot`, `-deleteSnapshot` and `-renameSnapshot`.

use crate::dfs::command::{Command, MANY, command};
use crate::dfs::context::{Context, Screen};
use crate::dfs::fs::{Failure, Named, Problem, text_of};

/// The commands of snapshots.
#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    command("createSnapshot", "<snapshotDir> [<snapshotName>]", (0, MANY), &[], create, "Create a snapshot on a directory"),
    command("deleteSnapshot", "<snapshotDir> <snapshotName>", (0, MANY), &[], delete, "Delete a snapshot from a directory"),
    command("renameSnapshot", "<snapshotDir> <oldName> <newName>", (0, MANY), &[], rename, "Rename a snapshot from oldName to newName"),
];

fn create(context: &Context) -> Result<(), Failure> {
    let words = words(context)?;
    match words.len() {
        0 => return Err(Failure::Usage("<snapshotDir> is missing.".to_owned())),
        1 | 2 => {}
        _ => return Err(Failure::Usage("Too many arguments.".to_owned())),
    }
    let directory = directory(context, words[0])?;
    let path = directory.cluster()?;
    let made = context.store.client()?.create_snapshot(path, words.get(1).copied());
    let path = made.map_err(|error| Failure::remote(&directory.typed, &error))?;
    say(format_args!("Created snapshot {path}"))
}

fn delete(context: &Context) -> Result<(), Failure> {
    let words = exactly(2, words(context)?)?;
    let directory = directory(context, words[0])?;
    let path = directory.cluster()?;
    let deleted = context.store.client()?.delete_snapshot(path, words[1]);
    deleted.map_err(|error| Failure::remote(&directory.typed, &error))?;
    let under = context.resolver.qualified(&directory.path);
    say(format_args!("Deleted snapshot {} under {under}", words[1]))
}

fn rename(context: &Context) -> Result<(), Failure> {
    let words = exactly(3, words(context)?)?;
    let directory = directory(context, words[0])?;
    let path = directory.cluster()?;
    let renamed = context.store.client()?.rename_snapshot(path, words[1], words[2]);
    renamed.map_err(|error| Failure::remote(&directory.typed, &error))?;
    let under = context.resolver.qualified(&directory.path);
    say(format_args!("Renamed snapshot {} to {} under {under}", words[1], words[2]))
}

fn words(context: &Context) -> Result<Vec<&str>, Failure> {
    context.args.operands.iter().map(|operand| text_of(operand)).collect()
}

fn exactly(count: usize, words: Vec<&str>) -> Result<Vec<&str>, Failure> {
    match words.len() == count {
        true => Ok(words),
        false => Err(Failure::Usage("Incorrect number of arguments.".to_owned())),
    }
}

/// The directory that an operand names; it must be one.
fn directory(context: &Context, text: &str) -> Result<Named, Failure> {
    let named = context.resolver.resolve(text)?;
    match context.store.status(&named)?.directory {
        true => Ok(named),
        false => Err(Failure::at(named.typed, Problem::NotDirectory)),
    }
}

fn say(text: std::fmt::Arguments<'_>) -> Result<(), Failure> {
    let mut screen = Screen::new()?;
    screen.line(text)?;
    screen.flush()
}
