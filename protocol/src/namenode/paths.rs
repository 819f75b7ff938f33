//! The paths that a call names. Every type of a field says which it holds, so a field of a new type does not compile until that type does.

use super::answers::ReplicaMove;
use super::arguments::{BadReplica, Create, Publish, QuotaChange, SafeModeAction, WrittenBlock};
use crate::acl::AclChange;
use crate::permission::Action;
use crate::storage::StoragePolicy;
use crate::xattr::XattrFlag;
use crate::{BlockId, DatanodeId, DfsPath, GenerationStamp, InodeId};

/// What a field of a call holds of paths.
pub(super) trait Paths {
    /// Passes `visit` each path.
    fn each<'a>(&'a self, visit: &mut impl FnMut(&'a DfsPath));

    /// As [`Paths::each`], for changing them.
    fn each_mut(&mut self, visit: &mut impl FnMut(&mut DfsPath));
}

impl Paths for DfsPath {
    fn each<'a>(&'a self, visit: &mut impl FnMut(&'a DfsPath)) {
        visit(self);
    }

    fn each_mut(&mut self, visit: &mut impl FnMut(&mut DfsPath)) {
        visit(self);
    }
}

/// Types that hold paths in some of their parts.
macro_rules! with_paths {
    ($( $type:ty $(where $part:ident)?: |$value:ident| $shared:expr, $exclusive:expr; )*) => {$(
        impl $(<$part: Paths>)? Paths for $type {
            fn each<'a>(&'a self, visit: &mut impl FnMut(&'a DfsPath)) {
                let $value = self;
                $shared.into_iter().for_each(|part| part.each(visit));
            }

            fn each_mut(&mut self, visit: &mut impl FnMut(&mut DfsPath)) {
                let $value = self;
                $exclusive.into_iter().for_each(|part| part.each_mut(visit));
            }
        }
    )*};
}

with_paths! {
    Option<T> where T: |part| part, part;
    Vec<T> where T: |parts| parts, parts;
    Create: |create| [&create.path], [&mut create.path];
    Publish: |publish| [&publish.path], [&mut publish.path];
}

/// Types that hold none.
macro_rules! without_paths {
    ($($type:ty),* $(,)?) => {$(
        impl Paths for $type {
            fn each<'a>(&'a self, _: &mut impl FnMut(&'a DfsPath)) {}

            fn each_mut(&mut self, _: &mut impl FnMut(&mut DfsPath)) {}
        }
    )*};
}

without_paths! {
    bool, u8, u16, u32, u64, String, InodeId, BlockId, GenerationStamp, DatanodeId, WrittenBlock, BadReplica, ReplicaMove,
    SafeModeAction, QuotaChange, AclChange, XattrFlag, Action, StoragePolicy,
}

#[cfg(test)]
mod tests {
    use super::super::Call;
    use super::*;

    #[test]
    fn every_path_of_a_call_is_shown_and_can_be_changed() {
        let dfs = |path: &str| DfsPath::parse(path).unwrap();
        let publish = Some(Publish { path: dfs("/a"), overwrite: false });
        for (mut call, count) in [
            (Call::Status(dfs("/a")), 1),
            (Call::Rename { from: dfs("/a"), to: dfs("/b"), overwrite: None }, 2),
            (Call::Concat { target: dfs("/a"), sources: vec![dfs("/b"), dfs("/c")] }, 3),
            (Call::Fsck { path: dfs("/a"), after: Some(dfs("/a/b")) }, 2),
            (Call::Complete { file: InodeId(1), last: None, publish }, 1),
            (Call::CheckSuperuser, 0),
        ] {
            call.each_path_mut(|path| *path = path.join("x").unwrap());
            let mut seen = Vec::new();
            call.each_path(|path| seen.push(path.name()));
            assert_eq!(seen, vec![Some("x"); count], "{call:?}");
        }
    }
}
