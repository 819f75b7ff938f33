//! Writes one file so that nobody sees half of it: under `name._COPYING_`, published in the step that closes it.

use protocol::path::RESERVED_RAW;

use super::interrupt::Temporary;
use crate::dfs::context::Context;
use crate::dfs::fs::{Failure, Named, Problem, WriteOptions, Writer};
use crate::dfs::target::missing_parent;

/// Replicas with `-l`.
const LAZY_REPLICATION: u16 = 1;

/// Creates the temporary file, whose name ends with the suffix, lets `fill` write it, publishes it. A writer that fails deletes what it wrote. Options `-f`, `-d`
/// and `-l` are those of the command.
pub(super) fn write(
    context: &Context,
    (target, suffix): (&Named, &str),
    fill: &mut dyn FnMut(&mut Writer) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (named, options) = first_place(context, (target, suffix))?;
    let temporary = Temporary::new(named.path.clone());
    let created = context.store.create(&named, &options);
    let mut writer = missing_parent(context, target, created)?;
    temporary.opened(&writer);
    let done = fill(&mut writer).and_then(|()| writer.close());
    drop(temporary);
    done
}

/// A small file with its contents, and the suffix of its temporary file.
pub(super) struct Whole<'a> {
    pub(super) target: &'a Named,
    pub(super) suffix: &'a str,
    pub(super) bytes: Vec<u8>,
}

/// As [`write()`], for small files of the cluster at once; each has its own outcome.
pub(super) fn write_small(context: &Context, files: Vec<Whole<'_>>) -> Vec<Result<(), Failure>> {
    let (mut outcomes, mut small, mut targets) = (Vec::new(), Vec::new(), Vec::new());
    for Whole { target, suffix, bytes } in files {
        match first_place(context, (target, suffix)) {
            Ok((named, options)) => {
                small.push((named, options, bytes));
                targets.push(target);
                outcomes.push(None);
            }
            Err(failure) => outcomes.push(Some(Err(failure))),
        }
    }
    let temporary: Vec<Temporary> =
        small.iter().map(|(named, ..)| Temporary::new(named.path.clone())).collect();
    let written = context.store.write_small(small);
    drop(temporary);
    let mut written = targets
        .into_iter()
        .zip(written)
        .map(|(target, written)| missing_parent(context, target, written));
    let ended_early = || Err(Failure::Text("a file has no outcome".to_owned()));
    let outcome =
        |outcome: Option<_>| outcome.or_else(|| written.next()).unwrap_or_else(ended_early);
    outcomes.into_iter().map(outcome).collect()
}

/// Where a file is created, and how: at first at a temporary name, unless it is written directly.
fn first_place(
    context: &Context,
    (target, suffix): (&Named, &str),
) -> Result<(Named, WriteOptions), Failure> {
    let (args, properties) = (&context.args, &context.properties);
    let direct = args.has("d");
    let path = if direct { target.path.clone() } else { target.path.with_suffix(suffix)? };
    let replication = if args.has("l") { Some(LAZY_REPLICATION) } else { properties.replication };
    let options = WriteOptions {
        publish_as: (!direct).then(|| target.path.clone()),
        overwrite: args.has("f"),
        umask: properties.umask,
        replication,
        block_size: properties.block_size,
    };
    Ok((Named { typed: target.typed.clone(), path }, options))
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
