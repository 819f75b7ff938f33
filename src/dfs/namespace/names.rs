//! Commands that change names and nothing else: `-mkdir`, `-rm`, `-rmdir`, `-mv`, `-setrep`.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::num::IntErrorKind;
use std::time::Duration;

use super::trash::Trash;
use crate::dfs::context::{Context, Screen};
use crate::dfs::fs::{Failure, FsPath, Item, Named, Problem, text_of};
use crate::dfs::target::{Target, has_parent, missing_parent, refuse_itself};
use crate::output::{report, report_text};

/// The message of `-setrep -w` when replicas must be removed.
const DECREASING: &str =
    "\nWARNING: the waiting time may be long for DECREASING the number of replications.\n";
/// `-setrep -w`: first pause between checks of a file's replicas; doubles up to [`CHECK_PAUSE_MAX`].
const CHECK_PAUSE_MIN: Duration = Duration::from_millis(20);
/// Longest pause between checks: a copy of a block takes about as long.
const CHECK_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Makes directories.
pub(super) fn mkdir(context: &Context) -> Result<(), Failure> {
    let parents = context.args.has("p");
    for operand in &context.args.operands {
        for named in context.reported(context.expand_any(operand))?.unwrap_or_default() {
            if let Err(failure) = mkdir_one(context, &named, parents) {
                context.report(&failure);
            }
        }
    }
    Ok(())
}

fn mkdir_one(context: &Context, named: &Named, parents: bool) -> Result<(), Failure> {
    let failure = match context.store.mkdirs(named, context.properties.umask, parents) {
        Ok(()) => return Ok(()),
        Err(failure) => failure,
    };
    // Whatever the NameNode's error, the existing entry decides.
    match context.store.find(named) {
        Ok(Some(status)) if !status.directory => {
            return Err(Failure::at(&*named.typed, Problem::NotDirectory));
        }
        Ok(Some(_)) if parents => return Ok(()),
        Ok(Some(_)) => return Err(Failure::at(&*named.typed, Problem::Exists)),
        Ok(None) | Err(_) => {}
    }
    // Hadoop's shell looks for the parent first, and names it with its file system.
    let is_orphan = !parents && matches!(has_parent(context, named), Ok(false));
    if is_orphan || failure.problem() == Some(&Problem::Missing) {
        let parent = named.path.parent().map(|parent| context.resolver.qualified(&parent));
        return Err(parent.map_or(failure, Failure::missing));
    }
    Err(failure)
}

/// Deletes.
pub(super) fn rm(context: &Context) -> Result<(), Failure> {
    let args = &context.args;
    let recursive = args.has("r") || args.has("R") || context.command == "rmr";
    let force = args.has("f");
    // Only the cluster has a trash: files of this machine are deleted for good.
    let is_asked =
        |operand: &OsString| operand.to_str().is_none_or(|text| !context.resolver.is_machine(text));
    let trash = match args.has("skipTrash") || !args.operands.iter().any(is_asked) {
        true => None,
        false => Some(Trash::new(context)?).filter(Trash::is_on),
    };
    let mut screen = Screen::new()?;
    for operand in &args.operands {
        let expanded = match context.expand(operand) {
            Err(failure) if force && failure.problem() == Some(&Problem::Missing) => continue,
            expanded => expanded,
        };
        for item in context.reported(expanded)?.unwrap_or_default() {
            match rm_one(context, &item, recursive, trash.as_ref()) {
                Ok(Removed::ForGood) => {
                    screen.line(format_args!("Deleted {}", item.named.typed))?;
                }
                Ok(Removed::ToTrash | Removed::Kept) => {}
                Ok(Removed::Not) if force && context.store.find(&item.named)?.is_none() => {}
                Ok(Removed::Not) => {
                    context.report(&Failure::at(item.named.typed, "Input/output error"));
                }
                Err(failure) => context.report(&failure),
            }
        }
    }
    screen.flush()
}

/// The outcome for an item.
enum Removed {
    ForGood,
    ToTrash,
    /// The user decided so.
    Kept,
    /// The NameNode refused without a message (the root), or it was already gone.
    Not,
}

fn rm_one(
    context: &Context,
    item: &Item,
    recursive: bool,
    trash: Option<&Trash<'_>>,
) -> Result<Removed, Failure> {
    if item.status.directory && !recursive {
        return Err(Failure::at(&*item.named.typed, Problem::IsDirectory));
    }
    if let (Some(trash), FsPath::Cluster(path)) = (trash, &item.named.path)
        && trash.take(&item.named, path)?
    {
        return Ok(Removed::ToTrash);
    }
    // What the trash keeps can be had back: only what goes for good is asked about.
    if context.args.has("safely") && !is_confirmed(context, item)? {
        return Ok(Removed::Kept);
    }
    let deleted = context.store.delete(&item.named, recursive)?;
    Ok(if deleted { Removed::ForGood } else { Removed::Not })
}

/// Asks before many files are deleted for good.
fn is_confirmed(context: &Context, item: &Item) -> Result<bool, Failure> {
    let limit = context.properties.delete_limit;
    if limit <= 0 || !item.status.directory {
        return Ok(true);
    }
    let file_count = context.store.summary(&item.named)?.file_count;
    if file_count <= limit.cast_unsigned() {
        return Ok(true);
    }
    let is_confirmed = is_answered_yes(&format!("Proceed deleting {file_count} files?"));
    if !is_confirmed {
        report!("Delete aborted at user request.\n");
    }
    Ok(is_confirmed)
}

/// Asks until there is an answer; the end of standard input is a no.
fn is_answered_yes(question: &str) -> bool {
    loop {
        let mut answer = String::new();
        report_text!("{question} (Y or N) ");
        let asked =
            crate::output::err().flush().and_then(|()| io::stdin().lock().read_line(&mut answer));
        if !asked.is_ok_and(|count| count > 0) {
            return false;
        }
        let answer = answer.trim_end_matches(['\r', '\n']);
        match answer.to_ascii_lowercase().as_str() {
            "y" | "yes" => return true,
            "n" | "no" => return false,
            _ => report!("Invalid input: {answer}"),
        }
    }
}

/// Deletes empty directories.
pub(super) fn rmdir(context: &Context) -> Result<(), Failure> {
    let tolerant = context.args.has("ignore-fail-on-non-empty");
    context.for_each(&context.args.operands, |item| {
        if !item.status.directory {
            return Err(Failure::at(item.named.typed, Problem::NotDirectory));
        }
        if !context.store.is_empty(&item)? {
            let failure = Failure::at(item.named.typed, Problem::NotEmpty);
            return if tolerant { Ok(()) } else { Err(failure) };
        }
        context.store.delete(&item.named, false).map(drop)
    })
}

/// Renames.
pub(super) fn mv(context: &Context) -> Result<(), Failure> {
    let Some((last, sources)) = context.args.operands.split_last() else {
        return Err(Failure::Usage("Not enough arguments: expected 2 but got 0".to_owned()));
    };
    let target = Target::of(context, last)?;
    let items = context.expand_all(sources)?;
    target.check(context, items.len(), false)?;
    for item in items {
        if let Err(failure) = item.and_then(|source| mv_one(context, &source, &target)) {
            context.report(&failure);
        }
    }
    Ok(())
}

fn mv_one(context: &Context, source: &Item, target: &Target) -> Result<(), Failure> {
    let from = &source.named;
    if from.path.cluster().is_some() != target.named.path.cluster().is_some() {
        return Err(Failure::at(&*from.typed, "Does not match target filesystem"));
    }
    let to = target.place_of(from.path.name())?;
    if source.status.directory {
        refuse_itself(context, from, &to)?;
    }
    if to.path == from.path || (target.is_directory() && context.store.find(&to)?.is_some()) {
        return Err(Failure::at(to.typed, Problem::Exists));
    }
    missing_parent(context, &to, context.store.rename(from, &to))
}

/// Sets the number of replicas.
pub(super) fn setrep(context: &Context) -> Result<(), Failure> {
    let text = text_of(&context.args.operands[0])?;
    let illegal = |reason: String| {
        report!("setrep: Illegal replication, a positive integer expected");
        Err(Failure::Usage(reason))
    };
    let replication = match text.parse::<i16>() {
        Ok(replication) => replication,
        Err(error) => {
            return match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow
                    if text.parse::<i32>().is_ok() =>
                {
                    illegal(format!("Value out of range. Value:\"{text}\" Radix:10"))
                }
                _ => illegal(format!("For input string: \"{text}\"")),
            };
        }
    };
    let replication = u16::try_from(replication)
        .ok()
        .filter(|replication| *replication > 0)
        .ok_or_else(|| Failure::Usage("replication must be >= 1".to_owned()))?;
    let mut screen = Screen::new()?;
    let mut changed = Vec::new();
    context.for_each(&context.args.operands[1..], |item| {
        setrep_tree(context, item, replication, &mut screen, &mut changed)
    })?;
    screen.flush()?;
    for named in changed {
        screen.print(&format!("Waiting for {} ...", named.typed))?;
        screen.flush()?;
        let waited = wait_for_replicas(context, &named, replication, &mut screen);
        let end = if waited.is_ok() { " done" } else { "" };
        screen.line(format_args!("{end}"))?;
        screen.flush()?;
        context.reported(waited)?;
    }
    screen.flush()
}

fn setrep_tree(
    context: &Context,
    item: Item,
    replication: u16,
    screen: &mut Screen,
    changed: &mut Vec<Named>,
) -> Result<(), Failure> {
    if item.status.directory {
        for child in context.store.children(&item.named)? {
            context.reported(setrep_tree(context, child, replication, screen, changed))?;
        }
        return Ok(());
    }
    if !context.store.set_replication(&item.named, replication)? {
        let text = format!("Could not set replication for: {}", item.named.typed);
        return Err(Failure::Text(text));
    }
    screen.line(format_args!("Replication {replication} set: {}", item.named.typed))?;
    if context.args.has("w") {
        changed.push(item.named);
    }
    Ok(())
}

fn wait_for_replicas(
    context: &Context,
    named: &Named,
    replication: u16,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let mut pause = CHECK_PAUSE_MIN;
    let mut is_warned = false;
    let wanted = usize::from(replication);
    loop {
        let located = context.store.locations(named)?;
        let other = located.blocks.iter().find(|block| block.replicas.len() != wanted);
        match other {
            None => return Ok(()),
            Some(block) if block.replicas.len() > wanted && !is_warned => {
                is_warned = true;
                screen.print(DECREASING)?;
            }
            Some(_) => {}
        }
        screen.print(".")?;
        screen.flush()?;
        std::thread::sleep(pause);
        pause = (pause * 2).min(CHECK_PAUSE_MAX);
    }
}
