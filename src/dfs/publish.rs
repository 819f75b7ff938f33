//! Writing one file so that nobody sees half of it: under `name._COPYING_`, published in the step that closes it.

use super::context::Context;
use super::error::Failure;
use super::interrupt::Temporary;
use super::namespace::missing_parent;
use super::path::Named;
use super::store::{WriteOptions, Writer};

/// Replicas with `-l`.
const LAZY_REPLICATION: u16 = 1;

/// Creates the temporary file, whose name ends with the suffix, lets `fill` write it, publishes it. A writer that fails deletes what it wrote. Options `-f`, `-d`
/// and `-l` are those of the command.
pub(super) fn write(
    context: &Context,
    (target, suffix): (&Named, &str),
    fill: &mut dyn FnMut(&mut Writer) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (args, properties) = (&context.args, &context.properties);
    let direct = args.has("d");
    let path = if direct {
        target.path.clone()
    } else {
        let beside = target.path.with_suffix(suffix);
        beside.map_err(|error| Failure::Text(error.to_string()))?
    };
    let replication = if args.has("l") { Some(LAZY_REPLICATION) } else { properties.replication };
    let options = WriteOptions {
        publish_as: (!direct).then(|| target.path.clone()),
        overwrite: args.has("f"),
        umask: properties.umask,
        replication,
        block_size: properties.block_size,
    };
    let temporary = Temporary::new(path.clone());
    let named = Named { typed: target.typed.clone(), path };
    let created = context.store.create(&named, &options);
    let mut writer = missing_parent(context, target, created)?;
    let done = fill(&mut writer).and_then(|()| writer.close());
    drop(temporary);
    done
}

/// A file may be written here: nothing is there, or it may be replaced.
pub(super) fn check_target(
    context: &Context,
    target: &Named,
    existing: Option<&protocol::namenode::FileStatus>,
) -> Result<(), Failure> {
    match existing {
        Some(status) if status.directory => Err(Failure::at(&*target.typed, "Is a directory")),
        Some(_) if !context.args.has("f") => Err(Failure::at(&*target.typed, "File exists")),
        _ => Ok(()),
    }
}
