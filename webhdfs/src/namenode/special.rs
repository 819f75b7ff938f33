//! Snapshots, access control lists, extended attributes, storage policies.

use axum::response::Response;
use client::namesystem::Namesystem;
use protocol::acl::{AclChange, AclEntry};
use protocol::namenode::{
    Call, DiffEntry, DiffPage, ListPage, SnapshotPage, SnapshotStatus, calls,
};
use protocol::permission::Action;
use protocol::storage::StoragePolicy;
use protocol::xattr::{XattrFlag, XattrName};

use super::{Asked, Face};
use crate::error::{Exception, WebError};
use crate::json::rights::{self, Encoding};
use crate::json::{self, policy, snapshot, status};
use crate::op::Op;
use crate::path;
use crate::query::{Query, required};

/// Most entries of a report of differences. The report is one answer in memory, some MB, and is computed again for each thousand entries.
const DIFF_ENTRIES_MAX: u64 = 20_000;
/// Where the homes of users are.
const HOMES: &str = "/user";
/// Most homes that are searched for their trash, each a call.
const HOMES_MAX: usize = 10_000;

impl<N: Namesystem> Face<N> {
    /// Reads of features that not every file has.
    pub(super) async fn read_special(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        let path = asked.path.clone();
        match asked.op {
            Op::CheckAccess => {
                let action = asked.query.required(asked.op, "fsaction")?;
                let action = Action::from_symbol(action)
                    .ok_or_else(|| domain("fsaction", action, "[rwx-]{3}"))?;
                self.ask(asked, calls::CheckAccess { path, action }).await?;
                Ok(json::nothing())
            }
            Op::GetAclStatus => {
                let status = self.ask(asked, calls::GetAcl { path }).await?;
                Ok(json::ok(&rights::acl_status(&status)))
            }
            Op::GetXattrs | Op::ListXattrs => self.xattrs(asked).await,
            Op::GetAllStoragePolicy => Ok(json::ok(&policy::all())),
            Op::GetStoragePolicy => {
                let found = self.ask(asked, calls::GetStoragePolicy { path }).await?;
                Ok(json::ok(&policy::one(found)))
            }
            Op::GetSnapshotDiff => {
                let (from, to, all) = self.snapshot_diff(asked).await?;
                Ok(json::ok(&snapshot::diff(&asked.path, (&from, &to), &all)))
            }
            Op::GetSnapshotDiffListing => self.snapshot_diff_listing(asked).await,
            Op::GetLinkTarget => {
                self.status(asked).await?;
                let text = format!("Path {path} is not a symbolic link");
                Err(WebError::new(Exception::Io, text))
            }
            Op::GetStatus => {
                let room = self.ask(asked, calls::Room).await?;
                Ok(json::ok(&status::room(&room)))
            }
            Op::GetEcPolicies => Ok(json::ok(&policy::no_erasure_coding())),
            Op::GetEcCodecs => Ok(json::ok(&policy::no_codecs())),
            Op::GetTrashRoots => self.trash_roots(asked).await,
            Op::GetSnapshottableDirectoryList => {
                let list = self.ask(asked, calls::SnapshottableDirectories).await?;
                Ok(json::ok(&snapshot::directories(&list)))
            }
            Op::GetSnapshotList => self.snapshot_list(asked).await,
            op => Err(WebError::unsupported(format!("{} is not supported", op.name()))),
        }
    }

    async fn xattrs(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        let names = asked.query.all("xattr.name").map(xattr_name).collect::<Result<Vec<_>, _>>()?;
        let encoding = match asked.query.text("encoding") {
            None => Encoding::Text,
            Some(text) => Encoding::parse(text).ok_or_else(|| {
                let problem = format!(
                    "No enum constant org.apache.hadoop.fs.XAttrCodec.{}",
                    text.to_uppercase()
                );
                WebError::parameter("encoding", problem)
            })?,
        };
        let call = calls::GetXattrs { path: asked.path.clone(), names };
        let list = self.ask(asked, call).await?;
        Ok(match asked.op {
            Op::ListXattrs => json::ok(&rights::xattr_names(&list)),
            _ => json::ok(&rights::xattrs(&list, encoding)),
        })
    }

    /// The two snapshots, and what changed between them.
    async fn snapshot_diff(
        &self,
        asked: &Asked<'_>,
    ) -> Result<(String, String, Vec<DiffEntry>), WebError> {
        let text = |name| asked.query.text(name).unwrap_or_default().to_owned();
        let (from, to) = (text("oldsnapshotname"), text("snapshotname"));
        let mut all = Vec::new();
        loop {
            let call = calls::SnapshotDiff {
                path: asked.path.clone(),
                from: from.clone(),
                to: to.clone(),
                skip: all.len() as u64,
            };
            let DiffPage { entries, remaining } = self.ask(asked, call).await?;
            if remaining > DIFF_ENTRIES_MAX {
                let text = format!(
                    "more than {DIFF_ENTRIES_MAX} differences: \"hdfs snapshotDiff\" shows them all"
                );
                return Err(WebError::new(Exception::Io, text));
            }
            let end = remaining == 0 || entries.is_empty();
            all.extend(entries);
            if end {
                return Ok((from, to, all));
            }
        }
    }

    /// One page of what changed. Its end says where the next one begins, and a client sends that back.
    async fn snapshot_diff_listing(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        let text = |name| asked.query.text(name).unwrap_or_default().to_owned();
        let (from, to) = (text("oldsnapshotname"), text("snapshotname"));
        let last = asked.query.any_text("snapshotdiffstartpath");
        let index = asked.query.integer("snapshotdiffindex", -1)?.unwrap_or(-1);
        let done = u64::try_from(index).unwrap_or(0);
        if done == 0 && !last.is_empty() {
            let problem =
                "it is given together with snapshotdiffindex, both as the last answer has them";
            return Err(WebError::parameter("snapshotdiffstartpath", problem));
        }
        // Begins with the last entry of the page before, to see that it is still there.
        let (path, skip) = (asked.path.clone(), done.saturating_sub(1));
        let call = calls::SnapshotDiff { path, from, to, skip };
        let DiffPage { entries, remaining } = self.ask(asked, call).await?;
        let new = match entries.split_first() {
            _ if done == 0 => &entries[..],
            Some((first, new)) if first.path == last => new,
            _ => {
                let text = "the differences are others than those of the page before; \
                            begin again, without snapshotdiffstartpath and snapshotdiffindex";
                return Err(WebError::new(Exception::Io, text));
            }
        };
        Ok(json::ok(&snapshot::diff_listing(new, done, remaining > 0)))
    }

    /// The user's trash, or everybody's that the user may see.
    async fn trash_roots(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        let homes = path::parse(HOMES)?;
        let mut users = vec![asked.user.clone()];
        if asked.query.boolean("allusers", false)? {
            users.clear();
            loop {
                let after = users.last().cloned().unwrap_or_default();
                let ListPage { entries, remaining } =
                    match self.page_of(asked, homes.clone(), after).await {
                        Err(error) if error.exception == Exception::FileNotFound => break,
                        page => page?,
                    };
                users.extend(entries.into_iter().filter(|e| e.directory).map(|e| e.name));
                if remaining == 0 {
                    break;
                }
                if users.len() >= HOMES_MAX {
                    let text = format!("more than {HOMES_MAX} homes: ask for one user's trash");
                    return Err(WebError::new(Exception::Io, text));
                }
            }
        }
        let mut found = Vec::new();
        for user in users {
            let root = path::parse(&format!("{HOMES}/{user}/.Trash"))?;
            match self.ask(asked, calls::Status { path: root.clone() }).await {
                Ok(status) => found.push((root, status)),
                // A caller who may not read a home learns nothing about its trash.
                Err(error)
                    if matches!(
                        error.exception,
                        Exception::FileNotFound | Exception::AccessControl
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(json::ok(&status::paths(&found)))
    }

    async fn snapshot_list(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        let mut all: Vec<SnapshotStatus> = Vec::new();
        loop {
            let after = all.last().map(|snapshot| snapshot.number);
            let call = calls::Snapshots { path: asked.path.clone(), after };
            let SnapshotPage { entries, remaining } = self.ask(asked, call).await?;
            let end = remaining == 0 || entries.is_empty();
            all.extend(entries);
            if end {
                return Ok(json::ok(&snapshot::list(&asked.path, &all)));
            }
        }
    }
}

/// Changes of features that not every file has.
pub(super) fn special_call(asked: &Asked<'_>) -> Result<Call, WebError> {
    let (op, query, path) = (asked.op, &asked.query, asked.path.clone());
    let name = |name| query.required(op, name).map(str::to_owned);
    match op {
        Op::AllowSnapshot => Ok(Call::AllowSnapshot(path)),
        Op::DisallowSnapshot => Ok(Call::DisallowSnapshot(path)),
        Op::CreateSnapshot => {
            Ok(Call::CreateSnapshot { path, name: query.text("snapshotname").map(str::to_owned) })
        }
        Op::RenameSnapshot => Ok(Call::RenameSnapshot {
            path,
            from: name("oldsnapshotname")?,
            to: name("snapshotname")?,
        }),
        Op::DeleteSnapshot => Ok(Call::DeleteSnapshot { path, name: name("snapshotname")? }),
        Op::ModifyAclEntries => change_acl(path, AclChange::Modify(entries(asked, true)?)),
        Op::SetAcl => change_acl(path, AclChange::Replace(entries(asked, true)?)),
        Op::RemoveAclEntries => change_acl(path, AclChange::Remove(entries(asked, false)?)),
        Op::RemoveDefaultAcl => change_acl(path, AclChange::RemoveDefault),
        Op::RemoveAcl => change_acl(path, AclChange::RemoveAll),
        Op::SetXattr => {
            let name = xattr_name(query.required(op, "xattr.name")?)?;
            let text = query.text("xattr.value").unwrap_or_default();
            let value = rights::decode_value(text).ok_or_else(|| {
                WebError::parameter("xattr.value", format!("Failed to decode \"{text}\"."))
            })?;
            Ok(Call::SetXattr { path, name, value, flag: xattr_flag(op, query)? })
        }
        Op::RemoveXattr => {
            Ok(Call::RemoveXattr { path, name: xattr_name(query.required(op, "xattr.name")?)? })
        }
        Op::SetStoragePolicy => {
            Ok(Call::SetStoragePolicy { path, policy: Some(storage_policy(asked)?) })
        }
        Op::UnsetStoragePolicy => Ok(Call::SetStoragePolicy { path, policy: None }),
        op => Err(WebError::unsupported(format!("{} is not supported", op.name()))),
    }
}

fn storage_policy(asked: &Asked<'_>) -> Result<StoragePolicy, WebError> {
    let name = asked.query.required(asked.op, "storagepolicy")?;
    StoragePolicy::of_name(name).ok_or_else(|| {
        let text = format!("Cannot find a block policy with the name {name}");
        WebError::new(Exception::HadoopIllegalArgument, text)
    })
}

fn change_acl(path: protocol::DfsPath, change: AclChange) -> Result<Call, WebError> {
    Ok(Call::ChangeAcl { path, change })
}

fn entries(asked: &Asked<'_>, has_actions: bool) -> Result<Vec<AclEntry>, WebError> {
    let text = asked.query.text("aclspec").ok_or_else(|| required(asked.op, "aclspec"))?;
    AclEntry::parse_list(text, has_actions)
        .map_err(|error| WebError::parameter("aclspec", error.to_string()))
}

fn xattr_name(text: &str) -> Result<String, WebError> {
    let name = XattrName::parse(text)
        .map_err(|error| WebError::new(Exception::HadoopIllegalArgument, error.to_string()))?;
    Ok(name.prefixed())
}

fn xattr_flag(op: Op, query: &Query) -> Result<XattrFlag, WebError> {
    let text = query.required(op, "flag")?;
    let (mut create, mut replace) = (false, false);
    for flag in text.split(',').map(str::trim) {
        match flag.to_ascii_uppercase().as_str() {
            "CREATE" => create = true,
            "REPLACE" => replace = true,
            other => {
                let problem = format!("No enum constant org.apache.hadoop.fs.XAttrSetFlag.{other}");
                return Err(WebError::parameter("flag", problem));
            }
        }
    }
    Ok(match (create, replace) {
        (true, false) => XattrFlag::Create,
        (false, true) => XattrFlag::Replace,
        _ => XattrFlag::CreateOrReplace,
    })
}

fn domain(name: &str, value: &str, pattern: &str) -> WebError {
    let problem = format!("Invalid value: \"{value}\" does not belong to the domain {pattern}");
    WebError::parameter(name, problem)
}
