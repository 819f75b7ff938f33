//! Writes one file so that nobody sees half of it: under `name._COPYING_`, published in the step that closes it. If something has that name, it stays, and the
//! file gets another one at first. What is no regular file (a link, a FIFO, a device of this machine) is written in place.

use std::path::Path;

use client::interrupt::Undisturbed;
use protocol::namenode::COPYING_SUFFIX;
use protocol::path::RESERVED_RAW;

use super::interrupt::{Input, Temporary};
use crate::dfs::context::Context;
use crate::dfs::fs::{Failure, Named, Problem, WriteOptions, Writer};
use crate::dfs::target::{missing_parent, refuse_itself_here};

/// Replicas with `-l`.
const LAZY_REPLICATION: u16 = 1;
/// Why `-p` is refused for what is written in place.
pub(super) const NO_ATTRIBUTES: &str =
    "it is no regular file, which could have attributes or checksums";

/// Names that are tried for a temporary file, the first of them its plain one.
const NAMES_MAX: usize = 3;

/// How the temporary file of a copy is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Naming {
    /// `name._COPYING_`, if that is free and not too long.
    Plain,
    /// As nothing else is.
    Unused,
}

impl Naming {
    /// For files that are copied into one directory. If one is named like a temporary file, it may be that of another.
    pub(super) fn among<'a>(mut names: impl Iterator<Item = &'a str>) -> Self {
        match names.any(|name| name.ends_with(COPYING_SUFFIX)) {
            true => Naming::Unused,
            false => Naming::Plain,
        }
    }

    /// The temporary name for a target.
    fn of(self, target: &Named) -> Result<Named, Failure> {
        let plain = if self == Naming::Plain { target.path.copying() } else { None };
        let path = plain.or_else(|| target.path.copying_unnamed());
        let path = path.ok_or_else(|| Failure::at(&*target.typed, Problem::IsDirectory))?;
        Ok(Named { typed: target.typed.clone(), path })
    }
}

/// Creates the temporary file, lets `fill` write all of `input`, publishes it. A writer that fails deletes what it wrote. Options `-f`, `-d` and `-l` are those
/// of the command.
pub(super) fn write(
    context: &Context,
    (target, naming): (&Named, Naming),
    input: Input,
    fill: &mut dyn FnMut(&mut Writer) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (temporary, mut writer) = begin(context, target, naming)?;
    let done = fill(&mut writer).and_then(|()| writer.close(input.ended()));
    drop(temporary);
    done
}

/// What is written in place, or under its own name with `-d`, is emptied first: no source of this machine may be the same file.
pub(super) fn check_source(
    context: &Context,
    source: (&Path, &str),
    target: &Named,
) -> Result<(), Failure> {
    match context.args.has("d") || context.store.is_written_in_place(target) {
        true => refuse_itself_here(context, source, target),
        false => Ok(()),
    }
}

/// The file to write first.
fn begin(
    context: &Context,
    target: &Named,
    naming: Naming,
) -> Result<(Option<Temporary>, Writer), Failure> {
    let in_place = context.store.is_written_in_place(target);
    if in_place && context.args.has("p") {
        return Err(Failure::at(&*target.typed, NO_ATTRIBUTES));
    }
    if in_place || context.args.has("d") {
        // What was there before is not deleted.
        let temporary = (!in_place).then(|| Temporary::new(target.path.clone()));
        let created = context.store.create(target, &options(context, None));
        let writer = missing_parent(context, target, created)?;
        temporary.iter().for_each(|temporary| temporary.opened(&writer));
        return Ok((temporary, writer));
    }
    let options = options(context, Some(target));
    for naming in std::iter::once(naming).chain([Naming::Unused; NAMES_MAX - 1]) {
        let named = naming.of(target)?;
        let temporary = Temporary::new(named.path.clone());
        let created = context.store.try_create(&named, &options);
        if let Some(writer) = missing_parent(context, target, created)? {
            temporary.opened(&writer);
            return Ok((Some(temporary), writer));
        }
    }
    Err(Failure::at(&*target.typed, Problem::Exists))
}

/// A small file with its contents.
pub(super) struct Whole<'a> {
    pub(super) target: &'a Named,
    pub(super) naming: Naming,
    pub(super) bytes: Vec<u8>,
}

/// As [`write()`], for small files of the cluster at once. Each has its own outcome: false if it must be written alone, because something has one of its names.
pub(super) fn write_small(context: &Context, files: Vec<Whole<'_>>) -> Vec<Result<bool, Failure>> {
    let direct = context.args.has("d");
    let (mut begun, mut small) = (Vec::new(), Vec::new());
    for Whole { target, naming, bytes } in files {
        let first = if direct { Ok(target.clone()) } else { naming.of(target) };
        begun.push(first.map(|first| {
            let temporary = Temporary::new(first.path.clone());
            small.push((first, options(context, (!direct).then_some(target)), bytes));
            (target, temporary)
        }));
    }
    let mut written = context.store.write_small(small, Undisturbed::now()).into_iter();
    let ended_early = || Err(Failure::Text("a file has no outcome".to_owned()));
    let outcome = |begun: Result<(&Named, Temporary), Failure>| {
        let (target, _temporary) = begun?;
        missing_parent(context, target, written.next().unwrap_or_else(ended_early))
    };
    begun.into_iter().map(outcome).collect()
}

/// How a file is created; `publish_as` is its name once it is complete.
fn options(context: &Context, publish_as: Option<&Named>) -> WriteOptions {
    let (args, properties) = (&context.args, &context.properties);
    let replication = if args.has("l") { Some(LAZY_REPLICATION) } else { properties.replication };
    WriteOptions {
        publish_as: publish_as.map(|target| target.path.clone()),
        overwrite: args.has("f"),
        umask: properties.umask,
        replication,
        block_size: properties.block_size,
    }
}

/// Copies stay within `/.reserved/raw` or outside it, as in Hadoop's shell: files with attributes of the namespace `raw` there are useless without them
/// elsewhere. Each side is its path as typed, and whether it is inside.
pub(super) fn check_raw(from: &(String, bool), to: &(String, bool)) -> Result<(), Failure> {
    let (typed, one, other) = match (from, to) {
        ((from, true), (_, false)) => (from, "", "non "),
        ((_, false), (to, true)) => (to, "non ", ""),
        _ => return Ok(()),
    };
    let text = format!(
        "'{typed}' copy from {one}'{RESERVED_RAW}' to {other}'{RESERVED_RAW}'. Either both source and target must be in '{RESERVED_RAW}' or neither."
    );
    Err(Failure::at(text, "Operation not supported"))
}

/// Checks that a file may be written here: nothing exists, or it may be replaced.
pub(super) fn check_target(
    context: &Context,
    target: &Named,
    existing: Option<&protocol::namenode::FileStatus>,
) -> Result<(), Failure> {
    match existing {
        Some(status) if status.directory => Err(Failure::at(&*target.typed, Problem::IsDirectory)),
        Some(_) if !context.args.has("f") => Err(Failure::at(&*target.typed, Problem::Exists)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_do_not_leave_or_enter_the_raw_directory() {
        let check = |(from, is_from): (&str, bool), (to, is_to): (&str, bool)| {
            check_raw(&(from.to_owned(), is_from), &(to.to_owned(), is_to))
                .err()
                .map(|failure| failure.to_string())
        };
        assert_eq!(check(("/a", false), ("/b", false)), None);
        assert_eq!(check(("/.reserved/raw/a", true), ("/.reserved/raw/b", true)), None);
        let both = "Either both source and target must be in '/.reserved/raw' or neither.': Operation not supported";
        assert_eq!(
            check(("/.reserved/raw/a", true), ("/b", false)).unwrap(),
            format!(
                "`'/.reserved/raw/a' copy from '/.reserved/raw' to non '/.reserved/raw'. {both}"
            )
        );
        assert_eq!(
            check(("a", false), ("/.reserved/raw/b", true)).unwrap(),
            format!(
                "`'/.reserved/raw/b' copy from non '/.reserved/raw' to '/.reserved/raw'. {both}"
            )
        );
    }
}
