//! `-touch` and `-touchz`: times of files, and empty files.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::dfs::context::Context;
use crate::dfs::fs::{Failure, Named, Problem};
use crate::dfs::target::missing_parent;

/// The format of a timestamp, in local time.
const TIMESTAMP_FORMAT: &str = "%Y%m%d:%H%M%S";

/// Sets access and modification times; creates missing files.
pub(super) fn touch(context: &Context) -> Result<(), Failure> {
    let args = &context.args;
    let at_ms = match args.value("t") {
        Some(text) => parse_time(text, &TimeZone::system()).ok_or_else(|| {
            Failure::Usage(format!(
                "Unable to parse the specified timestamp {text}. The expected format is yyyyMMdd:HHmmss"
            ))
        })?,
        None => transport::rpc::now_ms(),
    };
    let both = args.has("a") == args.has("m");
    let mtime = (both || args.has("m")).then_some(at_ms);
    let atime = (both || args.has("a")).then_some(at_ms);
    for_each_path(context, |named| {
        let found = context.store.find(named)?;
        if found.is_none() {
            if args.has("c") {
                return Ok(());
            }
            let made = context.create_empty(named);
            missing_parent(context, named, made)?;
        }
        context.store.set_times(named, mtime, atime)
    });
    Ok(())
}

fn parse_time(text: &str, zone: &TimeZone) -> Option<u64> {
    let local = DateTime::strptime(TIMESTAMP_FORMAT, text).ok()?;
    let at = local.to_zoned(zone.clone()).ok()?.timestamp().as_millisecond();
    u64::try_from(at).ok()
}

/// Makes empty files.
pub(super) fn touchz(context: &Context) -> Result<(), Failure> {
    for_each_path(context, |named| match context.store.find(named)? {
        Some(status) if status.directory => Err(Failure::at(&*named.typed, Problem::IsDirectory)),
        Some(status) if status.length != 0 => {
            Err(Failure::at(&*named.typed, "Not a zero-length file"))
        }
        _ => {
            let made = context.create_empty(named);
            missing_parent(context, named, made)
        }
    });
    Ok(())
}

/// Calls `each` on every operand, whether it exists or not; reports failures, which do not stop the
/// rest.
fn for_each_path(context: &Context, each: impl Fn(&Named) -> Result<(), Failure>) {
    for operand in &context.args.operands {
        match context.expand_any(operand) {
            Ok(found) => found.iter().for_each(|named| {
                if let Err(failure) = each(named) {
                    context.report(&failure);
                }
            }),
            Err(failure) => context.report(&failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps() {
        for (text, ms) in [
            ("20260105:103005", Some(1_767_609_005_000)),
            ("19700101:000000", Some(0)),
            ("20260105", None),
            ("20261305:000000", None),
            ("2026-01-05 10:30", None),
            ("19691231:235959", None),
        ] {
            assert_eq!(parse_time(text, &TimeZone::UTC), ms, "{text}");
        }
    }
}
