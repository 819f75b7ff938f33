//! [`DfsClient`]: names and their attributes. Files are written by [`DfsWriter`] and read by [`DfsReader`].

use std::sync::Arc;

use crate::config::ClientConfig;
use protocol::address::Site;
use protocol::namenode::{
    Answer, Body, Call, ClusterStatus, ContentSummary, DatanodeReport, FileStatus, FsckPage,
    LIST_ENTRIES_MAX, ListPage, LocatedBlocks, RenameInto, RenameTo, Reply, Room, SafeModeAction,
    TypedCall, calls,
};
use protocol::property::Umask;
use protocol::{ClientId, DfsPath, ErrorKind, InodeId};
use transport::rpc::CallOptions;

use super::create::CreateOptions;
use super::error::DfsError;
use super::lease::Leases;
use super::link::Link;
use super::reader::DfsReader;
use super::writer::{DfsWriter, SmallFile, write_together};
use transport::{RpcError, Timeouts};

/// A client of the file system. Cheap to clone; clones share connections and leases. Its calls block.
#[derive(Clone, Debug)]
pub struct DfsClient {
    pub(super) link: Arc<Link>,
    leases: Arc<Leases>,
}

impl DfsClient {
    /// A client of the NameNode that `config` names. Sends nothing yet.
    ///
    /// # Errors
    /// [`DfsError`] if no NameNode is named, or its address or the secret cannot be used.
    pub fn connect(config: &ClientConfig) -> Result<Self, DfsError> {
        DfsClient::connect_with(config, CallOptions::default(), Timeouts::default())
    }

    /// As [`DfsClient::connect`], with other timeouts.
    ///
    /// # Errors
    /// As [`DfsClient::connect`].
    pub fn connect_with(
        config: &ClientConfig,
        options: CallOptions,
        timeouts: Timeouts,
    ) -> Result<Self, DfsError> {
        Ok(DfsClient::over(Link::connect(config, options, timeouts)?))
    }

    fn over(link: Link) -> Self {
        let link = Arc::new(link);
        DfsClient { leases: Arc::new(Leases::new(&link)), link }
    }

    /// A client that acts as another user, over the same connections, but with leases of its own.
    pub fn as_user(&self, user: &str) -> Self {
        DfsClient::over(self.link.as_user(user))
    }

    /// Acting user.
    pub fn user(&self) -> &str {
        &self.link.user
    }

    /// Identity of this client, which holds the leases of its writers.
    pub fn id(&self) -> ClientId {
        self.link.id
    }

    /// Address of the NameNode.
    pub fn namenode(&self) -> &str {
        self.link.namenode()
    }

    /// Where paths lead from here.
    pub fn site(&self) -> Site {
        self.link.site.clone()
    }

    /// One file or directory.
    ///
    /// # Errors
    /// [`DfsError`]; kind `NotFound` if there is none.
    pub fn status(&self, path: &DfsPath) -> Result<FileStatus, DfsError> {
        self.link.ask(calls::Status { path: path.clone() })
    }

    /// One file or directory, `None` if there is none.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn try_status(&self, path: &DfsPath) -> Result<Option<FileStatus>, DfsError> {
        match self.status(path) {
            Ok(status) => Ok(Some(status)),
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The entries of a directory in byte order of names, fetched page by page; for a file, the file itself.
    pub fn list(&self, path: &DfsPath) -> Listing {
        Listing {
            client: self.clone(),
            path: path.clone(),
            page: Vec::new().into_iter(),
            start_after: Some(String::new()),
        }
    }

    /// Totals of a subtree.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn content_summary(&self, path: &DfsPath) -> Result<ContentSummary, DfsError> {
        self.link.ask(calls::ContentSummary { path: path.clone() })
    }

    /// Creates a directory; with `parents` also its missing ancestors, and accepts an existing directory.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn mkdirs(&self, path: &DfsPath, mode: u16, parents: bool) -> Result<(), DfsError> {
        self.link.ask(calls::Mkdirs { path: path.clone(), mode, unmasked: None, parents })
    }

    /// As [`DfsClient::mkdirs`] with mode 0777 under a umask; a default access control list replaces the umask.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn mkdirs_masked(
        &self,
        path: &DfsPath,
        umask: Umask,
        parents: bool,
    ) -> Result<(), DfsError> {
        let (mode, unmasked) = umask.of_directory();
        self.link.ask(calls::Mkdirs { path: path.clone(), mode, unmasked, parents })
    }

    /// Makes a file and opens it for writing.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn create(&self, path: &DfsPath, options: CreateOptions) -> Result<DfsWriter, DfsError> {
        DfsWriter::create(&self.link, &self.leases, path.clone(), options)
    }

    /// Writes files as a whole, each with its own outcome, in order; small ones share messages. A file is complete and published when this returns, or
    /// deleted.
    pub fn write_small(&self, files: Vec<SmallFile>) -> Vec<Result<(), DfsError>> {
        write_together(&self.link, &self.leases, files)
    }

    /// Opens a closed file for writing at its end; with `new_block`, in a new block even if the last one has room.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn append(&self, path: &DfsPath, new_block: bool) -> Result<DfsWriter, DfsError> {
        DfsWriter::append(&self.link, &self.leases, path.clone(), new_block)
    }

    /// Truncates a closed file to `length`; returns false if its last block is still being cut; the file is closed once that is done.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn truncate(&self, path: &DfsPath, length: u64) -> Result<bool, DfsError> {
        self.link.ask(calls::Truncate { path: path.clone(), length })
    }

    /// Moves the blocks of `sources`, in order, to the end of `target`, and deletes the sources.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn concat(&self, target: &DfsPath, sources: &[DfsPath]) -> Result<(), DfsError> {
        self.link.ask(calls::Concat { target: target.clone(), sources: sources.to_vec() })
    }

    /// True if nobody writes the file.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn is_file_closed(&self, path: &DfsPath) -> Result<bool, DfsError> {
        self.status(path).map(|status| !status.open)
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn open(&self, path: &DfsPath) -> Result<DfsReader, DfsError> {
        DfsReader::open(&self.link, path.clone())
    }

    /// Renames as HDFS does without options: moves into an existing directory, and returns false instead of most errors.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn rename(&self, from: &DfsPath, to: &DfsPath) -> Result<bool, DfsError> {
        self.link.ask(RenameInto { from: from.clone(), to: to.clone() })
    }

    /// Renames to exactly `to`.
    ///
    /// # Errors
    /// [`DfsError`], also if `to` exists and `overwrite` is false.
    pub fn rename_to(&self, from: &DfsPath, to: &DfsPath, overwrite: bool) -> Result<(), DfsError> {
        self.link.ask(RenameTo { from: from.clone(), to: to.clone(), overwrite })
    }

    /// Deletes; returns false if there was nothing.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn delete(&self, path: &DfsPath, recursive: bool) -> Result<bool, DfsError> {
        self.link.ask(calls::Delete { path: path.clone(), recursive })
    }

    /// Sets the wanted number of replicas; returns false for a directory or a missing path.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn set_replication(&self, path: &DfsPath, replication: u16) -> Result<bool, DfsError> {
        self.link.ask(calls::SetReplication { path: path.clone(), replication })
    }

    /// Sets permission bits.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn set_mode(&self, path: &DfsPath, mode: u16) -> Result<(), DfsError> {
        self.link.ask(calls::SetMode { path: path.clone(), mode })
    }

    /// Sets owner and group; an empty one stays as it is.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn set_owner(&self, path: &DfsPath, owner: &str, group: &str) -> Result<(), DfsError> {
        let (owner, group) = (owner.to_owned(), group.to_owned());
        self.link.ask(calls::SetOwner { path: path.clone(), owner, group })
    }

    /// Sets modification and access time, milliseconds since the epoch; `None` leaves one as it is.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn set_times(
        &self,
        path: &DfsPath,
        mtime_ms: Option<u64>,
        atime_ms: Option<u64>,
    ) -> Result<(), DfsError> {
        self.link.ask(calls::SetTimes { path: path.clone(), mtime_ms, atime_ms })
    }

    /// Blocks of a file that overlap a range, replicas nearest first.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn locations(
        &self,
        path: &DfsPath,
        offset: u64,
        length: u64,
    ) -> Result<LocatedBlocks, DfsError> {
        self.link.locations(path, offset, length)
    }

    /// State of the NameNode.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn cluster_status(&self) -> Result<ClusterStatus, DfsError> {
        self.link.ask(calls::ClusterStatus)
    }

    /// The room of the cluster.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn room(&self) -> Result<Room, DfsError> {
        self.link.ask(calls::Room)
    }

    /// All DataNodes.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn datanodes(&self) -> Result<Vec<DatanodeReport>, DfsError> {
        self.link.ask(calls::Datanodes)
    }

    /// A page of files with the health of their blocks; continue with the page's `next`.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn fsck(&self, path: &DfsPath, after: Option<DfsPath>) -> Result<FsckPage, DfsError> {
        self.link.ask(calls::Fsck { path: path.clone(), after })
    }

    /// Takes a file away from a writer that is gone; returns true if it is closed now; otherwise ask again.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn recover_lease(&self, path: &DfsPath) -> Result<bool, DfsError> {
        self.link.ask(calls::RecoverLease { path: path.clone() })
    }

    /// Ends a file that this client writes, in place of its writer: deletes it, or, with `keep`, has it closed at its present length. Whatever others have put at
    /// its path stays.
    ///
    /// # Errors
    /// [`DfsError`]; of the kind [`ErrorKind::LeaseExpired`](protocol::ErrorKind::LeaseExpired) if this client does not write the file any more.
    pub fn abandon(&self, file: InodeId, keep: bool) -> Result<bool, DfsError> {
        self.link.ask(calls::AbandonFile { file, keep, unused: None })
    }

    /// Queries or changes safe mode; returns true if it is on afterwards.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn safe_mode(&self, action: SafeModeAction) -> Result<bool, DfsError> {
        self.link.ask(calls::SafeMode { action })
    }

    /// Several calls in one message, each with its own outcome, in order: at most [`BATCH_CALLS_MAX`](protocol::namenode::BATCH_CALLS_MAX). Where their answers are
    /// too long for one, the rest goes in further messages.
    ///
    /// # Errors
    /// [`DfsError`] if the batch as a whole was refused.
    pub fn ask_all<C: TypedCall>(
        &self,
        calls: impl IntoIterator<Item = C>,
    ) -> Result<Vec<Result<C::Answer, DfsError>>, DfsError> {
        let mut calls: Vec<Call> = calls.into_iter().map(Into::into).collect();
        let mut answers: Vec<Answer> = self.link.call(Body::Batch(calls.clone()))?.try_into()?;
        let mut made_before = 0;
        loop {
            // Those at the end that are refused for now were not made.
            let is_made = |answer: &Answer| !matches!(answer, Err(no) if no.kind.is_transient());
            let made = answers.iter().rposition(is_made).map_or(0, |last| last + 1);
            let rest = calls.split_off(calls.len().saturating_sub(answers.len() - made));
            if made <= made_before || rest.is_empty() {
                break;
            }
            made_before = made;
            // Refused as a whole they keep the refusals that they have.
            let Ok(reply) = self.link.call(Body::Batch(rest.clone())) else { break };
            answers.truncate(made);
            answers.extend(Vec::<Answer>::try_from(reply)?);
            calls = rest;
        }
        let outcome = |answer: Answer| Ok(answer.map_err(RpcError::Remote)?.try_into()?);
        Ok(answers.into_iter().map(outcome).collect())
    }

    /// Makes a call and returns the answer that it names.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn ask<C: TypedCall>(&self, call: C) -> Result<C::Answer, DfsError> {
        self.link.ask(call)
    }

    /// Makes any call, for any answer.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn call(&self, body: Call) -> Result<Reply, DfsError> {
        self.link.call(body)
    }
}

/// Entries of a directory; see [`DfsClient::list`].
#[derive(Debug)]
pub struct Listing {
    client: DfsClient,
    path: DfsPath,
    page: std::vec::IntoIter<FileStatus>,
    /// Where the next page begins; `None` after the last.
    start_after: Option<String>,
}

impl Iterator for Listing {
    type Item = Result<FileStatus, DfsError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.page.next() {
                return Some(Ok(entry));
            }
            let start_after = self.start_after.take()?;
            let path = self.path.clone();
            let call = calls::List { path, start_after, limit: LIST_ENTRIES_MAX };
            match self.client.ask(call) {
                Ok(ListPage { entries, remaining }) => {
                    if remaining > 0 {
                        self.start_after = entries.last().map(|entry| entry.name.clone());
                    }
                    self.page = entries.into_iter();
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
