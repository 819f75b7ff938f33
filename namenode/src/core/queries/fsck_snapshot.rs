//! fsck of what a snapshot has: the same pages as those of the live tree, over the tree as it was.

use protocol::namenode::{FsckFile, FsckPage};
use protocol::permission::Action;
use protocol::{DfsPath, ErrorKind, InodeId, RemoteError};

use super::fsck::{BLOCKS_MAX, FILES_MAX, INODES_MAX, number_of_files};
use crate::core::namespace::lost_bytes;
use crate::core::nodes::Datanodes;
use crate::core::rights::Caller;
use crate::core::snapshots::{Seen, View};
use crate::core::state::State;
use crate::error::refuse;

/// A directory on the way, and its entries that were not passed yet.
struct Step<'a> {
    path: DfsPath,
    seen: Seen<'a>,
    rest: Box<dyn Iterator<Item = (&'a str, InodeId)> + 'a>,
}

impl State {
    pub(super) fn fsck_view(
        &self,
        nodes: &Datanodes,
        (path, after): (&DfsPath, Option<&DfsPath>),
        view: Option<View<'_>>,
        caller: Caller<'_>,
    ) -> Result<FsckPage, RemoteError> {
        let Some(View::Inside(top)) = view else {
            return Err(refuse(ErrorKind::NotFound, format!("File does not exist: {path}")));
        };
        let mut page = FsckPage { files: Vec::new(), directories: Vec::new(), next: None };
        let guard = self.guard(caller);
        let is_file = |seen: Seen<'_>| self.ns.file(seen.id).is_some();
        let check = |seen: Seen<'_>, path: &DfsPath| {
            let access = if is_file(seen) { Action::READ } else { Action::READ_EXECUTE };
            guard.check_former((seen.id, seen.state), access, path.as_str())
        };
        check(top, path)?;
        if is_file(top) {
            page.files.push(self.fsck_former(nodes, top, path.clone()));
            return Ok(page);
        }
        if after.is_none() {
            page.directories.push((path.clone(), 0));
        }
        let mut steps = self.former_steps(top, path, after);
        let (mut block_count, mut passed_count) = (0, 0);
        while let Some(step) = steps.last_mut() {
            let Some((name, id)) = step.rest.next() else {
                steps.pop();
                continue;
            };
            // Only a path that a rename made too long does not fit; its parts were checked.
            let (Ok(at), Some(seen)) = (step.path.join(name), self.ns.seen_below(step.seen, id))
            else {
                continue;
            };
            check(seen, &at)?;
            if is_file(seen) {
                let file = self.fsck_former(nodes, seen, at.clone());
                block_count += file.blocks.len();
                page.files.push(file);
            } else {
                page.directories.push((at.clone(), number_of_files(&page)));
                let rest = Box::new(self.ns.children_at(id, top.at, ""));
                steps.push(Step { path: at.clone(), seen, rest });
            }
            passed_count += 1;
            let full = page.files.len() >= FILES_MAX || block_count >= BLOCKS_MAX;
            if full || passed_count >= INODES_MAX {
                page.next = Some(at);
                break;
            }
        }
        Ok(page)
    }

    /// The way from `top` to `after`, as far as it exists; a snapshot does not change, but it may be another of the same name.
    fn former_steps<'a>(
        &'a self,
        top: Seen<'a>,
        path: &DfsPath,
        after: Option<&DfsPath>,
    ) -> Vec<Step<'a>> {
        let names = after.filter(|after| after.starts_with(path)).into_iter();
        let names = names.flat_map(|after| after.elements().skip(path.elements().count()));
        let (mut steps, mut at, mut directory) = (Vec::new(), path.clone(), Some(top));
        let rest = |id, name| Box::new(self.ns.children_at(id, top.at, name));
        for name in names {
            let Some(seen) = directory else { break };
            steps.push(Step { path: at.clone(), seen, rest: rest(seen.id, name) });
            let child = self.ns.child_at(seen.id, name, top.at);
            let child = child.filter(|child| self.ns.file(*child).is_none());
            directory = child.and_then(|child| self.ns.seen_below(seen, child));
            match at.join(name) {
                Ok(below) => at = below,
                Err(_) => directory = None,
            }
        }
        if let Some(seen) = directory {
            steps.push(Step { path: at, seen, rest: rest(seen.id, "") });
        }
        steps
    }

    /// A file as it was. A block that is still being recovered has no settled replicas yet and is left out.
    fn fsck_former(&self, nodes: &Datanodes, seen: Seen<'_>, path: DfsPath) -> FsckFile {
        let (list, mut left) = self.ns.blocks_at(seen.id, seen.state);
        let mut blocks = Vec::with_capacity(list.len());
        for block in list {
            let Some(mut found) = self.fsck_block(nodes, block) else { continue };
            found.length = found.length.min(left);
            left -= found.length;
            if self.ns.block(block).is_some_and(|info| info.complete) {
                blocks.push(found);
            }
        }
        let status = self.ns.status_at(seen, path.name().unwrap_or_default());
        let lost_bytes = lost_bytes(seen.state.features(&self.ns, seen.id));
        FsckFile { path, status, blocks, lost_bytes, awaited: Vec::new() }
    }
}
