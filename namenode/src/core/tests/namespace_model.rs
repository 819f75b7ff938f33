//! The namespace as a slow, obviously right model: a map from paths to nodes, and for every snapshot a copy of that map.
//!
//! It gives the expected result of every operation, by the rules of HDFS and in their order. Where quotas meet snapshots it knows only
//! bounds: how much a snapshot still holds is charged where the file was seen last.

use std::collections::BTreeMap;

use protocol::ErrorKind;
use protocol::acl::{AclChange, AclEntry, AclScope, AclStatus};
use protocol::namenode::QuotaChange;
use protocol::permission::{Action, STICKY};

use super::namespace_rules::Needs;
use crate::core::rights::{Caller, acl};

/// Bytes per block.
pub(crate) const BLOCK: u64 = 1000;

/// What comes of an operation.
pub(crate) type Outcome = Result<Option<bool>, ErrorKind>;

/// A tree by absolute paths, or by paths below the root of a copy.
pub(crate) type Tree = BTreeMap<String, Node>;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Node {
    /// Never given twice.
    pub(crate) id: u64,
    pub(crate) owner: String,
    pub(crate) group: String,
    pub(crate) mode: u16,
    /// Stored entries.
    pub(crate) acl: Vec<AclEntry>,
    pub(crate) xattrs: BTreeMap<String, Vec<u8>>,
    pub(crate) body: Body,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Body {
    Directory {
        /// Names and space.
        quota: (Option<u64>, Option<u64>),
        snapshots: Option<BTreeMap<String, Tree>>,
    },
    File(File),
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct File {
    /// Complete blocks: id, bytes.
    pub(crate) blocks: Vec<(u64, u64)>,
    /// The block that is being written: id, bytes that readers may count on.
    pub(crate) writing: Option<(u64, u64)>,
    pub(crate) open: Open,
    pub(crate) replication: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Open {
    No,
    /// By the client.
    Written,
    /// By a recovery.
    Recovered,
}

#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) nodes: Tree,
    next_id: u64,
    /// What the call at hand was answered, where a bound cannot say.
    pub(crate) exceeded: bool,
}

impl Node {
    pub(crate) fn file(&self) -> Option<&File> {
        match &self.body {
            Body::File(file) => Some(file),
            Body::Directory { .. } => None,
        }
    }

    fn file_mut(&mut self) -> &mut File {
        match &mut self.body {
            Body::File(file) => file,
            Body::Directory { .. } => panic!("a file"),
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.file().is_none()
    }

    pub(crate) fn snapshots(&self) -> Option<&BTreeMap<String, Tree>> {
        match &self.body {
            Body::Directory { snapshots, .. } => snapshots.as_ref(),
            Body::File(_) => None,
        }
    }

    fn default_acl(&self) -> Vec<AclEntry> {
        let defaults = self.acl.iter().filter(|entry| entry.scope == AclScope::Default);
        defaults.cloned().collect()
    }
}

pub(crate) fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(end) => &path[..end],
    }
}

/// All directories above a path, the root first; none above the root.
pub(super) fn above(path: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut at = path;
    while at != "/" {
        at = parent(at);
        all.push(at);
    }
    all.reverse();
    all
}

pub(super) fn is_below(path: &str, top: &str) -> bool {
    path != top && (top == "/" || path.strip_prefix(top).is_some_and(|rest| rest.starts_with('/')))
}

impl Model {
    pub(crate) fn new() -> Model {
        let root = Node {
            id: 0,
            owner: "root".to_owned(),
            group: "supergroup".to_owned(),
            mode: 0o755,
            acl: Vec::new(),
            xattrs: BTreeMap::new(),
            body: Body::Directory { quota: (None, None), snapshots: None },
        };
        Model { nodes: [("/".to_owned(), root)].into(), next_id: 1, exceeded: false }
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    fn at(&mut self, path: &str) -> &mut Node {
        self.nodes.get_mut(path).expect("it was found")
    }

    pub(crate) fn below<'a>(
        &'a self,
        top: &'a str,
    ) -> impl Iterator<Item = (&'a String, &'a Node)> {
        self.nodes.iter().filter(move |(path, _)| is_below(path, top))
    }

    /// The copy that a snapshot is.
    pub(crate) fn copy(&self, top: &str) -> Tree {
        let all = self.below(top).chain(self.nodes.get_key_value(top));
        all.map(|(path, node)| {
            let mut node = node.clone();
            if let Body::Directory { quota, snapshots } = &mut node.body {
                (*quota, *snapshots) = ((None, None), None);
            }
            let rest = match top {
                "/" if path == "/" => "",
                "/" => path.as_str(),
                _ => &path[top.len()..],
            };
            (rest.to_owned(), node)
        })
        .collect()
    }

    // changes

    /// A refused operation changes nothing.
    pub(crate) fn change(
        &mut self,
        exceeded: bool,
        change: impl FnOnce(&mut Model) -> Outcome,
    ) -> Outcome {
        let mut next = self.clone();
        next.exceeded = exceeded;
        let outcome = change(&mut next);
        match outcome {
            Ok(_) => *self = next,
            Err(_) => self.next_id = next.next_id,
        }
        outcome
    }

    fn remove(&mut self, top: &str) {
        self.nodes.retain(|path, _| path != top && !is_below(path, top));
    }

    fn relocate(&mut self, from: &str, to: &str) {
        let moved: Vec<(String, Node)> = self
            .nodes
            .iter()
            .filter(|(path, _)| *path == from || is_below(path, from))
            .map(|(path, node)| (format!("{to}{}", &path[from.len()..]), node.clone()))
            .collect();
        self.remove(from);
        self.nodes.extend(moved);
    }

    /// Makes an entry, and what is missing above it.
    fn make(
        &mut self,
        caller: Caller<'_>,
        path: &str,
        (mode, between): (u16, Option<u16>),
        file: Option<File>,
    ) {
        let missing: Vec<String> = above(path)
            .into_iter()
            .filter(|at| self.get(at).is_none())
            .map(str::to_owned)
            .collect();
        let first = missing.first().map_or(path, String::as_str);
        let holder = self.get(parent(first)).expect("it exists");
        let (group, defaults) = (holder.group.clone(), holder.default_acl());
        let between = between.unwrap_or(holder.mode | 0o300);
        for (at, file) in missing.iter().map(|at| (at.as_str(), None)).chain([(path, Some(file))]) {
            let asked = if file.is_some() { mode } else { between };
            let body = match file.flatten() {
                Some(file) => Body::File(file),
                None => Body::Directory { quota: (None, None), snapshots: None },
            };
            let is_directory = matches!(body, Body::Directory { .. });
            let (mode, acl) = acl::inherited(&defaults, asked, is_directory);
            let node = Node {
                id: self.new_id(),
                owner: caller.user.to_owned(),
                group: group.clone(),
                mode,
                acl,
                xattrs: BTreeMap::new(),
                body,
            };
            self.nodes.insert(at.to_owned(), node);
        }
    }

    /// Names that making `path` with its parents adds.
    fn missing(&self, path: &str) -> u64 {
        1 + above(path).iter().filter(|at| self.get(at).is_none()).count() as u64
    }

    pub(crate) fn mkdirs(
        &mut self,
        caller: Caller<'_>,
        path: &str,
        parents: bool,
        (mode, unmasked): (u16, Option<u16>),
    ) -> Outcome {
        self.walk(caller, path)?;
        match self.get(path) {
            Some(node) if node.is_directory() && parents => return Ok(None),
            Some(_) => return Err(ErrorKind::AlreadyExists),
            None => {}
        }
        self.check(caller, path, Needs { ancestor: Some(Action::WRITE), ..Needs::default() })?;
        if !parents && self.get(parent(path)).is_none() {
            return Err(ErrorKind::NotFound);
        }
        self.fits(path, "", (self.missing(path), 0))?;
        let first = above(path).into_iter().rev().find(|at| self.get(at).is_some());
        let defaults = self.get(first.expect("the root is there")).map(Node::default_acl);
        // A default list takes the place of the umask.
        let mode = match unmasked {
            Some(unmasked) if defaults.is_some_and(|list| !list.is_empty()) => unmasked,
            _ => mode,
        };
        self.make(caller, path, (mode, Some(mode | 0o300)), None);
        Ok(None)
    }

    /// Makes a file with one block that is being written, or with none.
    pub(crate) fn create(
        &mut self,
        caller: Caller<'_>,
        path: &str,
        overwrite: bool,
        block: bool,
    ) -> Outcome {
        self.find(caller, path, Needs { ancestor: Some(Action::WRITE), ..Needs::default() })?;
        match self.get(path).map(|node| (node, node.file())) {
            Some((_, None)) => return Err(ErrorKind::AlreadyExists),
            Some((node, Some(_)))
                if overwrite && !caller.is_superuser && !node.grants(caller, Action::WRITE) =>
            {
                return Err(ErrorKind::PermissionDenied);
            }
            Some((_, Some(_))) if overwrite => {}
            Some((_, Some(file))) => return Err(busy(file).unwrap_or(ErrorKind::AlreadyExists)),
            None => {}
        }
        self.remove(path);
        self.fits(path, "", (self.missing(path), if block { BLOCK * 3 } else { 0 }))?;
        let writing = block.then(|| (self.new_id(), 0));
        let file = File { blocks: Vec::new(), writing, open: Open::Written, replication: 3 };
        self.make(caller, path, (0o644, None), Some(file));
        Ok(None)
    }

    /// Flushes an open file of the client up to a length of its last block.
    pub(crate) fn sync(&mut self, path: &str, bytes: u64) {
        if let Some((_, known)) = &mut self.at(path).file_mut().writing {
            *known = bytes;
        }
    }

    /// Closes an open file of the client.
    pub(crate) fn close(&mut self, path: &str, bytes: u64) {
        let file = self.at(path).file_mut();
        if let Some((id, _)) = file.writing.take() {
            file.blocks.push((id, bytes));
        }
        file.open = Open::No;
    }

    /// Opens a file at its end; with a new block where the last is full.
    pub(crate) fn append(&mut self, caller: Caller<'_>, path: &str) -> Outcome {
        self.expect(caller, path, Needs { target: Some(Action::WRITE), ..Needs::default() })?;
        let Some(file) = self.get(path).and_then(Node::file) else {
            return Err(ErrorKind::AlreadyExists);
        };
        if let Some(refusal) = busy(file) {
            return Err(refusal);
        }
        let last = file.blocks.last().copied().filter(|(_, bytes)| *bytes < BLOCK);
        let id = self.get(path).map_or(0, |node| node.id);
        // What a snapshot has more after it would not follow it any longer.
        let last = last.filter(|last| !self.copies_of(id).any(|copy| copy.has_more_after(last.0)));
        let more = BLOCK - last.map_or(0, |(_, bytes)| bytes);
        self.fits(path, "", (0, more * file.replication))?;
        let writing = last.unwrap_or((self.new_id(), 0));
        let file = self.at(path).file_mut();
        if last.is_some() {
            file.blocks.pop();
        }
        (file.writing, file.open) = (Some(writing), Open::Written);
        Ok(None)
    }

    pub(crate) fn truncate(&mut self, caller: Caller<'_>, path: &str, length: u64) -> Outcome {
        self.expect(caller, path, Needs { target: Some(Action::WRITE), ..Needs::default() })?;
        let Some(file) = self.get(path).and_then(Node::file).cloned() else {
            return Err(ErrorKind::NotFound);
        };
        if let Some(refusal) = busy(&file) {
            return Err(refusal);
        }
        match length.cmp(&file.complete()) {
            std::cmp::Ordering::Greater => return Err(ErrorKind::InvalidArgument),
            std::cmp::Ordering::Equal => return Ok(Some(true)),
            std::cmp::Ordering::Less => {}
        }
        let mut next = File { blocks: Vec::new(), ..file.clone() };
        let mut left = length;
        for (id, bytes) in &file.blocks {
            if *bytes > left {
                break;
            }
            left -= bytes;
            next.blocks.push((*id, *bytes));
        }
        if left > 0 {
            (next.writing, next.open) = (Some((self.new_id(), left)), Open::Recovered);
            self.fits(path, "", (0, next.space().saturating_sub(file.space())))?;
        }
        *self.at(path).file_mut() = next;
        Ok(Some(left == 0))
    }

    /// Ends every recovery.
    pub(crate) fn recover(&mut self) {
        for node in self.nodes.values_mut() {
            if let Body::File(file) = &mut node.body
                && file.open == Open::Recovered
            {
                file.blocks.extend(file.writing.take());
                file.open = Open::No;
            }
        }
    }

    pub(crate) fn concat(&mut self, caller: Caller<'_>, target: &str, source: &str) -> Outcome {
        let is_file = |path: &str| self.get(path).is_some_and(|node| !node.is_directory());
        self.expect(caller, target, Needs { target: Some(Action::WRITE), ..Needs::default() })?;
        if !is_file(target) {
            return Err(ErrorKind::NotFound);
        }
        if self.get(target).and_then(Node::file).is_some_and(|file| file.open != Open::No) {
            return Err(ErrorKind::InvalidArgument);
        }
        let (read, write) = (Some(Action::READ), Some(Action::WRITE));
        self.expect(caller, source, Needs { target: read, parent: write, ..Needs::default() })?;
        if !is_file(source) {
            return Err(ErrorKind::NotFound);
        }
        let from = self.get(source).cloned().expect("it is a file");
        let file = from.file().expect("it is a file");
        if parent(source) != parent(target)
            || source == target
            || file.open != Open::No
            || file.blocks.is_empty()
        {
            return Err(ErrorKind::InvalidArgument);
        }
        let copies = self.nodes.values().filter_map(Node::snapshots).flat_map(BTreeMap::values);
        if copies.flat_map(BTreeMap::values).any(|node| node.id == from.id) {
            return Err(ErrorKind::Snapshot);
        }
        let blocks = file.blocks.clone();
        let replication = self.get(target).and_then(Node::file).map_or(0, |file| file.replication);
        let more = (file.complete() * replication).saturating_sub(file.space());
        self.fits(target, "", (0, more))?;
        self.remove(source);
        self.at(target).file_mut().blocks.extend(blocks);
        Ok(None)
    }

    pub(crate) fn delete(&mut self, caller: Caller<'_>, path: &str, recursive: bool) -> Outcome {
        let needs = Needs { parent: Some(Action::WRITE), subtree: true, ..Needs::default() };
        if !self.find(caller, path, needs)? {
            return Ok(Some(false));
        }
        if !recursive && self.below(path).next().is_some() {
            return Err(ErrorKind::NotEmpty);
        }
        if path == "/" {
            return Ok(Some(false));
        }
        self.check_snapshotted(path)?;
        self.remove(path);
        Ok(Some(true))
    }

    /// No directory with snapshots is deleted or renamed.
    fn check_snapshotted(&self, top: &str) -> Result<(), ErrorKind> {
        let mut within = self.below(top).chain(self.nodes.get_key_value(top));
        match within.any(|(_, node)| node.snapshots().is_some_and(|all| !all.is_empty())) {
            true => Err(ErrorKind::Snapshot),
            false => Ok(()),
        }
    }

    /// Directories with snapshots do not come below one another.
    fn check_nesting(&self, from: &str, to: &str) -> Result<(), ErrorKind> {
        let is_root = |path: &str| self.get(path).is_some_and(|node| node.snapshots().is_some());
        let carried = is_root(from) || self.below(from).any(|(path, _)| is_root(path));
        match carried && above(to).into_iter().any(is_root) {
            true => Err(ErrorKind::Snapshot),
            false => Ok(()),
        }
    }

    fn check_move(
        &self,
        caller: Caller<'_>,
        from: &str,
        to: &str,
        into: bool,
    ) -> Result<(), ErrorKind> {
        self.walk(caller, from)?;
        let can_follow = match self.walk(caller, to) {
            Err(ErrorKind::ParentNotDirectory) => false,
            walked => walked.map(|()| true)?,
        };
        let write = Some(Action::WRITE);
        self.check(caller, from, Needs { parent: write, ..Needs::default() })?;
        if !can_follow {
            return Ok(());
        }
        let target = self.get(to).filter(|node| node.is_directory());
        match (into, target) {
            (true, Some(directory))
                if caller.is_superuser || directory.grants(caller, Action::WRITE) =>
            {
                Ok(())
            }
            (true, Some(_)) => Err(ErrorKind::PermissionDenied),
            (true, None) => self.check(caller, to, Needs { ancestor: write, ..Needs::default() }),
            (false, _) => {
                self.check(caller, to, Needs { ancestor: write, parent: write, ..Needs::default() })
            }
        }
    }

    /// Rename without options.
    pub(crate) fn rename(&mut self, caller: Caller<'_>, from: &str, to: &str) -> Outcome {
        self.check_move(caller, from, to, true)?;
        if from == "/" || self.get(from).is_none() {
            return Ok(Some(false));
        }
        let is_file = self.get(from).is_some_and(|node| !node.is_directory());
        if from == to {
            return Ok(Some(is_file));
        }
        let name = &from[from.rfind('/').expect("absolute")..];
        let target = match self.get(to) {
            Some(node) if node.is_directory() => format!("{}{name}", to.trim_end_matches('/')),
            Some(_) => return Ok(Some(false)),
            None => to.to_owned(),
        };
        if target == from {
            return Ok(Some(is_file));
        }
        if self.get(&target).is_some() || is_below(&target, from) {
            return Ok(Some(false));
        }
        if !self.get(parent(&target)).is_some_and(Node::is_directory) {
            return Ok(Some(false));
        }
        self.relocate_checked(from, &target)?;
        Ok(Some(true))
    }

    fn relocate_checked(&mut self, from: &str, to: &str) -> Result<(), ErrorKind> {
        self.check_snapshotted(from)?;
        self.check_nesting(from, to)?;
        let (names, _, space) = self.size(from);
        self.fits(to, from, (names, space))?;
        self.relocate(from, to);
        Ok(())
    }

    pub(crate) fn rename_with_options(
        &mut self,
        caller: Caller<'_>,
        (from, to): (&str, &str),
        overwrite: bool,
    ) -> Outcome {
        self.check_move(caller, from, to, false)?;
        let Some(source) = self.get(from) else { return Err(ErrorKind::NotFound) };
        if from == to {
            return Err(ErrorKind::AlreadyExists);
        }
        if from == "/" || to == "/" || is_below(to, from) {
            return Err(ErrorKind::InvalidArgument);
        }
        if let Some(target) = self.get(to) {
            if source.is_directory() != target.is_directory() || !overwrite {
                return Err(ErrorKind::AlreadyExists);
            }
            if self.below(to).next().is_some() {
                return Err(ErrorKind::NotEmpty);
            }
        }
        let file_above = above(to).iter().any(|at| self.get(at).is_some_and(|n| !n.is_directory()));
        if file_above {
            return Err(ErrorKind::ParentNotDirectory);
        }
        if self.get(parent(to)).is_none() {
            return Err(ErrorKind::NotFound);
        }
        if self.get(to).is_some() {
            self.check_snapshotted(to)?;
        }
        self.check_nesting(from, to)?;
        self.remove(to);
        self.relocate_checked(from, to)?;
        Ok(None)
    }

    pub(crate) fn set_replication(
        &mut self,
        caller: Caller<'_>,
        path: &str,
        replication: u64,
    ) -> Outcome {
        self.find(caller, path, Needs { target: Some(Action::WRITE), ..Needs::default() })?;
        let Some(file) = self.get(path).and_then(Node::file) else { return Ok(Some(false)) };
        let next = File { replication, ..file.clone() };
        let more = self.replicas_grow(path, replication);
        self.fits(path, "", (0, more))?;
        *self.at(path).file_mut() = next;
        Ok(Some(true))
    }

    pub(crate) fn set_mode(&mut self, caller: Caller<'_>, path: &str, mode: u16) -> Outcome {
        self.expect(caller, path, Needs { ownership: true, ..Needs::default() })?;
        self.at(path).mode = mode;
        Ok(None)
    }

    pub(crate) fn set_owner(
        &mut self,
        caller: Caller<'_>,
        path: &str,
        owner: &str,
        group: &str,
    ) -> Outcome {
        if owner.is_empty() && group.is_empty() {
            return Err(ErrorKind::InvalidArgument);
        }
        self.expect(caller, path, Needs { ownership: true, ..Needs::default() })?;
        let gives_away = !owner.is_empty() && owner != caller.user;
        let is_foreign = !group.is_empty() && !caller.groups.iter().any(|own| own == group);
        if !caller.is_superuser && (gives_away || is_foreign) {
            return Err(ErrorKind::PermissionDenied);
        }
        let node = self.at(path);
        for (slot, new) in [(&mut node.owner, owner), (&mut node.group, group)] {
            if !new.is_empty() {
                new.clone_into(slot);
            }
        }
        Ok(None)
    }

    pub(crate) fn change_acl(
        &mut self,
        caller: Caller<'_>,
        path: &str,
        change: &AclChange,
    ) -> Outcome {
        self.expect(caller, path, Needs { ownership: true, ..Needs::default() })?;
        let node = self.at(path);
        let (owner, group) = (String::new(), String::new());
        let whole = AclStatus { owner, group, mode: node.mode, entries: node.acl.clone() }.whole();
        let list = acl::changed(&whole, change).map_err(|_| ErrorKind::InvalidArgument)?;
        let has_defaults = list.iter().any(|entry| entry.scope == AclScope::Default);
        if has_defaults && !node.is_directory() {
            return Err(ErrorKind::InvalidArgument);
        }
        (node.mode, node.acl) = acl::stored(node.mode, &list);
        Ok(None)
    }

    pub(crate) fn set_xattr(
        &mut self,
        caller: Caller<'_>,
        path: &str,
        name: &str,
        value: Option<Vec<u8>>,
    ) -> Outcome {
        let is_sticky =
            self.get(path).is_some_and(|node| node.is_directory() && node.mode & STICKY != 0);
        let target = (!is_sticky).then_some(Action::WRITE);
        self.expect(caller, path, Needs { ownership: is_sticky, target, ..Needs::default() })?;
        let xattrs = &mut self.at(path).xattrs;
        match value {
            Some(value) => drop(xattrs.insert(name.to_owned(), value)),
            None if xattrs.remove(name).is_none() => return Err(ErrorKind::InvalidArgument),
            None => {}
        }
        Ok(None)
    }

    pub(crate) fn set_quota(
        &mut self,
        caller: Caller<'_>,
        path: &str,
        (names, space): (QuotaChange, QuotaChange),
    ) -> Outcome {
        self.expect_directory_of_superuser(caller, path)?;
        if path == "/" && names == QuotaChange::Clear {
            return Err(ErrorKind::InvalidArgument);
        }
        let Body::Directory { quota, .. } = &mut self.at(path).body else { panic!("a directory") };
        for (slot, change) in [(&mut quota.0, names), (&mut quota.1, space)] {
            match change {
                QuotaChange::Keep => {}
                QuotaChange::Clear => *slot = None,
                QuotaChange::Set(value) => *slot = Some(value),
            }
        }
        Ok(None)
    }

    fn expect_directory_of_superuser(
        &self,
        caller: Caller<'_>,
        path: &str,
    ) -> Result<(), ErrorKind> {
        if !caller.is_superuser {
            return Err(ErrorKind::PermissionDenied);
        }
        self.expect(caller, path, Needs::default())?;
        match self.get(path).is_some_and(Node::is_directory) {
            true => Ok(()),
            false => Err(ErrorKind::NotDirectory),
        }
    }

    // snapshots

    pub(crate) fn allow(&mut self, caller: Caller<'_>, path: &str, allow: bool) -> Outcome {
        self.expect_directory_of_superuser(caller, path)?;
        let is_root = |path: &str| self.get(path).is_some_and(|node| node.snapshots().is_some());
        let nested =
            above(path).into_iter().any(is_root) || self.below(path).any(|(at, _)| is_root(at));
        let here = is_root(path);
        let Body::Directory { snapshots, .. } = &mut self.at(path).body else {
            panic!("a directory")
        };
        match allow {
            true if !here && nested => Err(ErrorKind::Snapshot),
            true => {
                snapshots.get_or_insert_default();
                Ok(None)
            }
            false if snapshots.as_ref().is_some_and(|all| !all.is_empty()) => {
                Err(ErrorKind::Snapshot)
            }
            false => {
                *snapshots = None;
                Ok(None)
            }
        }
    }

    /// The snapshots of a directory of the caller's own.
    fn of(
        &mut self,
        caller: Caller<'_>,
        path: &str,
    ) -> Result<&mut BTreeMap<String, Tree>, ErrorKind> {
        self.expect(caller, path, Needs { ownership: true, ..Needs::default() })?;
        match &mut self.at(path).body {
            Body::File(_) => Err(ErrorKind::NotDirectory),
            Body::Directory { snapshots, .. } => snapshots.as_mut().ok_or(ErrorKind::Snapshot),
        }
    }

    pub(crate) fn create_snapshot(
        &mut self,
        caller: Caller<'_>,
        path: &str,
        name: &str,
    ) -> Outcome {
        let copy = self.copy(path);
        let all = self.of(caller, path)?;
        match all.contains_key(name) {
            true => Err(ErrorKind::Snapshot),
            false => {
                all.insert(name.to_owned(), copy);
                Ok(None)
            }
        }
    }

    pub(crate) fn rename_snapshot(
        &mut self,
        caller: Caller<'_>,
        path: &str,
        from: &str,
        to: &str,
    ) -> Outcome {
        let all = self.of(caller, path)?;
        if !all.contains_key(from) || from != to && all.contains_key(to) {
            return Err(ErrorKind::Snapshot);
        }
        let copy = all.remove(from).expect("it is there");
        all.insert(to.to_owned(), copy);
        Ok(None)
    }

    pub(crate) fn delete_snapshot(
        &mut self,
        caller: Caller<'_>,
        path: &str,
        name: &str,
    ) -> Outcome {
        match self.of(caller, path)?.remove(name) {
            Some(_) => Ok(None),
            None => Err(ErrorKind::Snapshot),
        }
    }
}

/// Why a file that is being written cannot be opened or cut.
fn busy(file: &File) -> Option<ErrorKind> {
    match file.open {
        Open::No => None,
        Open::Written => Some(ErrorKind::AlreadyBeingCreated),
        Open::Recovered => Some(ErrorKind::RecoveryInProgress),
    }
}
