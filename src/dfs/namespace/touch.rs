//! `-touch` and `-touchz`: times of files, and empty files.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::dfs::context::Context;
use crate::dfs::fs::{Failure, Named, Problem, text_of};
use crate::dfs::target::{has_parent, missing_parent};
use crate::output::local_zone;

/// The format of a timestamp, in local time.
const TIMESTAMP_FORMAT: &str = "%Y%m%d:%H%M%S";

/// Sets access and modification times; creates missing files.
pub(super) fn touch(context: &Context) -> Result<(), Failure> {
    let args = &context.args;
    let at_ms = match args.value("t") {
        Some(text) => {
            parse_time(text, local_zone()).map_err(|error| Failure::Usage(error.to_string()))?
        }
        None => transport::rpc::now_ms(),
    };
    let both = args.has("a") == args.has("m");
    let mtime = (both || args.has("m")).then_some(at_ms);
    let atime = (both || args.has("a")).then_some(at_ms);
    for_each_path(context, |_, named| {
        let found = context.store.find(named)?;
        if found.is_none() {
            if args.has("c") {
                return match has_parent(context, named)? {
                    true => Ok(()),
                    false => missing_parent(context, named, Err(Failure::missing(&*named.typed))),
                };
            }
            let made = context.create_empty(named);
            missing_parent(context, named, made)?;
        }
        context.store.set_times(named, mtime, atime)
    })
}

/// Why a text is no time that a file can have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum TimeError {
    #[error("Unable to parse the specified timestamp {0}. The expected format is yyyyMMdd:HHmmss")]
    Form(String),
    #[error("The timestamp {0} is out of range: from 1970 to 99991230:215959 in UTC")]
    Range(String),
}

fn parse_time(text: &str, zone: &TimeZone) -> Result<u64, TimeError> {
    let local = DateTime::strptime(TIMESTAMP_FORMAT, text);
    let local = local.map_err(|_| TimeError::Form(text.to_owned()))?;
    let at = local.to_zoned(zone.clone()).ok().map(|zoned| zoned.timestamp().as_millisecond());
    let at = at.and_then(|at| u64::try_from(at).ok());
    at.ok_or_else(|| TimeError::Range(text.to_owned()))
}

/// Makes empty files.
pub(super) fn touchz(context: &Context) -> Result<(), Failure> {
    for_each_path(context, |typed, named| match context.store.find(named)? {
        Some(status) if status.directory => Err(Failure::at(&*named.typed, Problem::IsDirectory)),
        Some(status) if status.length != 0 => {
            Err(Failure::at(&*named.typed, "Not a zero-length file"))
        }
        // A slash at its end says that it is a directory, which is not there.
        None if typed.ends_with('/') => {
            let as_typed = Named { typed: typed.to_owned(), path: named.path.clone() };
            missing_parent(context, &as_typed, Err(Failure::missing(typed)))
        }
        _ => {
            let made = context.create_empty(named);
            missing_parent(context, named, made)
        }
    })
}

/// Calls `each` with every operand as typed and each path that it names, whether it exists or not; reports failures, which do not stop the rest.
///
/// # Errors
/// Text that is not a path.
fn for_each_path(
    context: &Context,
    each: impl Fn(&str, &Named) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for operand in &context.args.operands {
        let typed = text_of(operand)?;
        for named in context.reported(context.expand_any(operand))?.unwrap_or_default() {
            context.reported(each(typed, &named))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps() {
        let form = |text: &str| Err(TimeError::Form(text.to_owned()));
        let range = |text: &str| Err(TimeError::Range(text.to_owned()));
        for (text, expected) in [
            ("20260105:103005", Ok(1_767_609_005_000)),
            ("19700101:000000", Ok(0)),
            ("99991230:215959", Ok(253_402_207_199_000)),
            ("20260105", form("20260105")),
            ("20261305:000000", form("20261305:000000")),
            ("2026-01-05 10:30", form("2026-01-05 10:30")),
            ("19691231:235959", range("19691231:235959")),
            ("99991231:235959", range("99991231:235959")),
        ] {
            assert_eq!(parse_time(text, &TimeZone::UTC), expected, "{text}");
        }
    }
}
