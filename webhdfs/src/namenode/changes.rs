//! Operations that change names and attributes.

use axum::response::Response;
use client::namesystem::Namesystem;
use protocol::namenode::{Call, DIRECTORY_MODE, QuotaChange, Reply, UNEXPECTED};

use super::special::special_call;
use super::{Asked, Face};
use crate::error::WebError;
use crate::judge::warned;
use crate::op::Op;
use crate::query::{Query, required};
use crate::{json, path};

impl<N: Namesystem> Face<N> {
    pub(super) async fn change(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        let call = match asked.op {
            // Hadoop's clients leave it out where they mean the server's own.
            Op::SetReplication => {
                let replication = match asked.query.short("replication", 1)? {
                    Some(replication) => replication,
                    None => self.cluster(asked).await?.replication,
                };
                Call::SetReplication { path: asked.path.clone(), replication }
            }
            _ => changing_call(asked)?,
        };
        let unhonoured = match &call {
            Call::SetStoragePolicy { policy: Some(policy), .. } => policy.unhonoured(),
            _ => None,
        };
        let answer = self.carry_out(asked, call).await;
        match unhonoured {
            Some(text) => answer.map(|response| warned(response, &format!("299 hanno \"{text}\""))),
            None => answer,
        }
    }

    async fn carry_out(&self, asked: &Asked<'_>, call: Call) -> Result<Response, WebError> {
        match (asked.op, self.call(asked, call).await?) {
            (_, Reply::Flag(flag)) => Ok(json::boolean(flag)),
            // Java ignores the body of a rename with options, Python reads it.
            (Op::Mkdirs | Op::Rename, Reply::Done) => Ok(json::boolean(true)),
            (_, Reply::Done) => Ok(json::nothing()),
            (Op::CreateSnapshot, Reply::Path(path)) => Ok(json::path(path.as_str())),
            _ => Err(UNEXPECTED.into()),
        }
    }
}

fn changing_call(asked: &Asked<'_>) -> Result<Call, WebError> {
    let (op, query, path) = (asked.op, &asked.query, asked.path.clone());
    match op {
        Op::Mkdirs => {
            let mode = query.permission("permission")?.unwrap_or(DIRECTORY_MODE);
            let unmasked = query.permission("unmaskedpermission")?;
            Ok(Call::Mkdirs { path, mode, unmasked, parents: true })
        }
        Op::Rename => {
            let to = path::parse(query.required(op, "destination")?)?;
            Ok(Call::Rename { from: path, to, overwrite: rename_options(asked)? })
        }
        Op::Delete => Ok(Call::Delete { path, recursive: query.boolean("recursive", false)? }),
        Op::SetPermission => {
            let mode = query.permission("permission")?.unwrap_or(DIRECTORY_MODE);
            Ok(Call::SetMode { path, mode })
        }
        Op::SetOwner => {
            let text = |name| query.text(name).unwrap_or_default().to_owned();
            let (owner, group) = (text("owner"), text("group"));
            if owner.is_empty() && group.is_empty() {
                return Err(WebError::illegal("Both owner and group are empty."));
            }
            Ok(Call::SetOwner { path, owner, group })
        }
        Op::SetTimes => {
            let time =
                |name| Ok::<_, WebError>(query.long(name, -1)?.and_then(|t| u64::try_from(t).ok()));
            let (mtime_ms, atime_ms) = (time("modificationtime")?, time("accesstime")?);
            Ok(Call::SetTimes { path, mtime_ms, atime_ms })
        }
        Op::Truncate => {
            let length = query.size("newlength", 0)?;
            Ok(Call::Truncate { path, length: length.ok_or_else(|| required(op, "newlength"))? })
        }
        Op::Concat => {
            let sources = listed(query.required(op, "sources")?).map(path::parse);
            Ok(Call::Concat { target: path, sources: sources.collect::<Result<_, _>>()? })
        }
        Op::SetQuota => {
            let (names, space) = quotas(query)?;
            Ok(Call::SetQuota { path, names, space })
        }
        _ => special_call(asked),
    }
}

/// The elements of a list as Java's `split` finds them: empty ones at the end are none.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim_end_matches(',');
    text.split(',').filter(move |_| !text.is_empty())
}

/// Quotas of names (above 0) and of space (0 and above), -1 to have none; Java's largest number or nothing at all leaves the quota unchanged.
fn quotas(query: &Query) -> Result<(QuotaChange, QuotaChange), WebError> {
    let number = |name| Ok::<_, WebError>(query.long(name, i64::MIN)?.unwrap_or(i64::MAX));
    let (names, space) = (number("namespacequota")?, number("storagespacequota")?);
    let change = |number, least| match number {
        i64::MAX => Some(QuotaChange::Keep),
        -1 => Some(QuotaChange::Clear),
        number => u64::try_from(number).ok().filter(|it| *it >= least).map(QuotaChange::Set),
    };
    change(names, 1)
        .zip(change(space, 0))
        .ok_or_else(|| WebError::illegal(format!("Invalid values for quota : {names} and {space}")))
}

/// `None` without options, else whether to overwrite.
fn rename_options(asked: &Asked<'_>) -> Result<Option<bool>, WebError> {
    let Some(text) = asked.query.text("renameoptions") else { return Ok(None) };
    let mut overwrite = false;
    for option in text.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        match option.to_uppercase().as_str() {
            "OVERWRITE" => overwrite = true,
            // Whether it goes to the trash is for permissions alone; the client names the place.
            "NONE" | "TO_TRASH" => {}
            other => {
                let problem =
                    format!("No enum constant org.apache.hadoop.fs.Options.Rename.{other}");
                return Err(WebError::parameter("renameoptions", problem));
            }
        }
    }
    Ok(Some(overwrite))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_with_its_last_element() {
        let all = |text| listed(text).collect::<Vec<_>>();
        assert_eq!(all("/a"), ["/a"]);
        assert_eq!(all("/a,/b,"), ["/a", "/b"]);
        assert_eq!(all("/a,,/b,,,"), ["/a", "", "/b"]);
        assert_eq!(all(",/a"), ["", "/a"]);
        assert_eq!(all(",,"), [""; 0]);
    }

    #[test]
    fn a_quota_of_space_may_be_nothing_and_one_of_names_may_not() {
        let read = |text: &str| quotas(&Query::parse(text).unwrap());
        let (keep, clear) = (QuotaChange::Keep, QuotaChange::Clear);
        let set = QuotaChange::Set;
        for (text, expected) in [
            ("", (keep, keep)),
            ("namespacequota=-1&storagespacequota=-1", (clear, clear)),
            ("namespacequota=1&storagespacequota=0", (set(1), set(0))),
            ("storagespacequota=0", (keep, set(0))),
            ("namespacequota=9223372036854775807&storagespacequota=7", (keep, set(7))),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for (text, told) in [
            ("namespacequota=0", "0 and 9223372036854775807"),
            ("namespacequota=0&storagespacequota=0", "0 and 0"),
            ("namespacequota=-2", "-2 and 9223372036854775807"),
            ("storagespacequota=-7", "9223372036854775807 and -7"),
        ] {
            let text_told = format!("Invalid values for quota : {told}");
            assert_eq!(read(text), Err(WebError::illegal(text_told)), "{text}");
        }
    }
}
