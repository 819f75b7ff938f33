//! A model of the NameNode's name space, with the rules of HDFS that the JobTracker relies on.

use std::collections::{BTreeMap, HashMap};

use protocol::namenode::{self, Body, Call, Created, FileStatus, Reply};
use protocol::{CallId, DfsPath, ErrorKind, InodeId, RemoteError};

/// Paths of directories (`None`) and files (their ids).
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) entries: BTreeMap<DfsPath, Option<InodeId>>,
    /// Permission bits of what was made, after and before the umask.
    pub(crate) modes: BTreeMap<DfsPath, (u16, Option<u16>)>,
    open: HashMap<InodeId, DfsPath>,
    answers: HashMap<CallId, namenode::Answer>,
    next: u64,
    pub(crate) safe_mode: bool,
    /// Safe mode lets deletions pass; it begins when `_SUCCESS` is created.
    pub(crate) fills_up: bool,
    pub(crate) is_full: bool,
    /// A quota: there may be this many entries.
    pub(crate) most: Option<usize>,
    /// Calls about the output of a job that safe mode refused.
    pub(crate) refused: u64,
}

pub(crate) type Outcome = Result<Reply, RemoteError>;

impl Names {
    pub(crate) fn call(&mut self, request: namenode::Request) -> Outcome {
        if self.safe_mode {
            self.refused += u64::from(request.body.calls().iter().any(is_of_job));
            return Err(RemoteError::new(ErrorKind::SafeMode, "Name node is in safe mode"));
        }
        if let Some(answer) = self.answers.get(&request.call) {
            return answer.clone();
        }
        let answer = match request.body {
            Body::One(call) => self.one(call),
            Body::Batch(calls) => {
                let answers: Vec<Outcome> = calls.into_iter().map(|call| self.one(call)).collect();
                match answers.iter().find(|answer| !is_refused(answer)) {
                    None if !answers.is_empty() => answers[0].clone(),
                    _ => Ok(Reply::Batch(answers)),
                }
            }
        };
        if is_refused(&answer) {
            return answer;
        }
        self.answers.insert(request.call, answer.clone());
        answer
    }

    fn one(&mut self, call: Call) -> Outcome {
        let fail = |kind, path: &DfsPath| Err(RemoteError::new(kind, format!("{path}: {kind:?}")));
        match call {
            Call::Status(path) => match self.entries.get(&path) {
                Some(entry) => Ok(Reply::Status(status("", entry.is_none()))),
                None => fail(ErrorKind::NotFound, &path),
            },
            Call::List { path, start_after, limit } => {
                if !self.entries.contains_key(&path) {
                    return fail(ErrorKind::NotFound, &path);
                }
                let inside = self.entries.iter().filter(|(child, _)| {
                    child.parent().as_ref() == Some(&path)
                        && child.name().unwrap_or("") > start_after.as_str()
                });
                let mut entries: Vec<FileStatus> = inside
                    .map(|(child, entry)| status(child.name().unwrap(), entry.is_none()))
                    .collect();
                let page = (limit as usize).min(2);
                let remaining = entries.len().saturating_sub(page) as u64;
                entries.truncate(page);
                Ok(Reply::Listing { entries, remaining })
            }
            Call::Mkdirs { path, .. } if path.is_root() => Ok(Reply::Done),
            Call::Mkdirs { path, mode, unmasked, parents } => match self.entries.get(&path) {
                Some(None) if parents => Ok(Reply::Done),
                Some(_) => fail(ErrorKind::AlreadyExists, &path),
                None => {
                    if self.most.is_some_and(|most| self.entries.len() >= most) {
                        return fail(ErrorKind::NamespaceQuotaExceeded, &path);
                    }
                    self.make_parents(&path, parents)?;
                    self.modes.insert(path.clone(), (mode, unmasked));
                    self.entries.insert(path, None);
                    Ok(Reply::Done)
                }
            },
            other => self.file(other),
        }
    }

    fn file(&mut self, call: Call) -> Outcome {
        let fail = |kind, path: &DfsPath| Err(RemoteError::new(kind, format!("{path}: {kind:?}")));
        if self.is_full && !matches!(call, Call::Delete { .. }) {
            self.refused += 1;
            return fail(ErrorKind::SafeMode, &DfsPath::root());
        }
        match call {
            Call::Create(create) => {
                self.is_full = self.fills_up && create.path.name() == Some("_SUCCESS");
                self.make_parents(&create.path, create.parents)?;
                self.modes.insert(create.path.clone(), (create.mode, create.unmasked));
                self.next += 1;
                let file = InodeId(self.next);
                self.entries.insert(create.path.clone(), Some(file));
                self.open.insert(file, create.path);
                Ok(Reply::Created(Created {
                    file,
                    block_size: 1,
                    replication: 1,
                    first_block: None,
                }))
            }
            Call::Complete { file, publish, .. } => {
                let Some(from) = self.open.remove(&file) else {
                    return fail(ErrorKind::LeaseExpired, &DfsPath::root());
                };
                if let Some(publish) = publish {
                    self.entries.remove(&from);
                    self.entries.insert(publish.path, Some(file));
                }
                Ok(Reply::Done)
            }
            Call::Rename { from, to, .. } => {
                let Some(entry) = self.entries.get(&from).copied() else {
                    return fail(ErrorKind::NotFound, &from);
                };
                if self.entries.contains_key(&to) {
                    return fail(ErrorKind::AlreadyExists, &to);
                }
                assert!(entry.is_some(), "only files are renamed");
                self.entries.remove(&from);
                self.entries.insert(to, entry);
                Ok(Reply::Done)
            }
            Call::Delete { path, recursive } => {
                let below = self.entries.keys().filter(|other| other.starts_with(&path));
                if below.count() > 1 && !recursive {
                    return fail(ErrorKind::NotEmpty, &path);
                }
                let before = self.entries.len();
                self.entries.retain(|other, _| !other.starts_with(&path));
                self.open.retain(|_, other| !other.starts_with(&path));
                Ok(Reply::Flag(self.entries.len() < before))
            }
            Call::SetMode { path, mode } => {
                self.modes.insert(path, (mode, None));
                Ok(Reply::Done)
            }
            other => panic!("the JobTracker does not need {other:?}"),
        }
    }

    fn make_parents(&mut self, path: &DfsPath, parents: bool) -> Result<(), RemoteError> {
        let Some(parent) = path.parent().filter(|parent| !parent.is_root()) else { return Ok(()) };
        match self.entries.get(&parent) {
            Some(None) => Ok(()),
            Some(Some(_)) => Err(RemoteError::new(ErrorKind::NotDirectory, "a file")),
            None if parents => {
                self.make_parents(&parent, true)?;
                self.entries.insert(parent, None);
                Ok(())
            }
            None => Err(RemoteError::new(ErrorKind::NotFound, "no parent")),
        }
    }
}

/// About the output of a job, not about what all of them share.
fn is_of_job(call: &Call) -> bool {
    let (Call::Status(path) | Call::List { path, .. } | Call::Mkdirs { path, .. }) = call else {
        return false;
    };
    !path.starts_with(&DfsPath::parse("/system").unwrap())
}

fn is_refused(answer: &Outcome) -> bool {
    matches!(answer, Err(refusal) if refusal.kind == ErrorKind::SafeMode)
}

fn status(name: &str, directory: bool) -> FileStatus {
    FileStatus {
        name: name.to_owned(),
        inode: InodeId(1),
        directory,
        length: 0,
        replication: 1,
        block_size: 1,
        owner: String::new(),
        group: String::new(),
        mode: 0o755,
        mtime_ms: 0,
        atime_ms: 0,
        children_count: 0,
        open: false,
        has_acl: false,
        snapshottable: false,
        storage_policy: None,
    }
}
