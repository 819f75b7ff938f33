//! `-createSnapshot`, `-deleteSnapshot` and `-renameSnapshot`.

use super::context::{Context, Screen};
use super::error::Failure;
use super::path::{Named, text_of};
use super::{Command, commands::command};

/// The commands of snapshots.
#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    command("createSnapshot", "<snapshotDir> [<snapshotName>]", (1, 2), &[], create, "Create a snapshot on a directory"),
    command("deleteSnapshot", "<snapshotDir> <snapshotName>", (2, 2), &[], delete, "Delete a snapshot from a directory"),
    command("renameSnapshot", "<snapshotDir> <oldName> <newName>", (3, 3), &[], rename, "Rename a snapshot from oldName to newName"),
];

fn create(context: &Context) -> Result<(), Failure> {
    let words = words(context)?;
    let directory = directory(context, words[0])?;
    let client = context.store.client();
    let made = client.create_snapshot(&directory.path, words.get(1).copied());
    let path = made.map_err(|error| Failure::remote(&directory.typed, &error))?;
    say(format_args!("Created snapshot {path}"))
}

fn delete(context: &Context) -> Result<(), Failure> {
    let words = words(context)?;
    let directory = directory(context, words[0])?;
    let deleted = context.store.client().delete_snapshot(&directory.path, words[1]);
    deleted.map_err(|error| Failure::remote(&directory.typed, &error))?;
    say(format_args!("Deleted snapshot {} under {}", words[1], directory.path))
}

fn rename(context: &Context) -> Result<(), Failure> {
    let words = words(context)?;
    let directory = directory(context, words[0])?;
    let renamed = context.store.client().rename_snapshot(&directory.path, words[1], words[2]);
    renamed.map_err(|error| Failure::remote(&directory.typed, &error))?;
    say(format_args!("Renamed snapshot {} to {} under {}", words[1], words[2], directory.path))
}

fn words(context: &Context) -> Result<Vec<&str>, Failure> {
    context.args.operands.iter().map(|operand| text_of(operand)).collect()
}

/// The directory that an operand names; it must be one.
fn directory(context: &Context, text: &str) -> Result<Named, Failure> {
    let named = context.resolver.resolve(text)?;
    match context.store.status(&named)?.directory {
        true => Ok(named),
        false => Err(Failure::at(named.typed, "Is not a directory")),
    }
}

fn say(text: std::fmt::Arguments<'_>) -> Result<(), Failure> {
    let mut screen = Screen::new()?;
    screen.line(text)?;
    screen.flush()
}
