//! How a file is created that must not bring back a directory which others have deleted.
//!
//! Invariant: of the directories above the file, only those below a given one are made. If that one is gone, nothing is made.

use protocol::namenode::{Answer, Call, Create, DIRECTORY_MODE};
use protocol::{DfsPath, ErrorKind};

/// The calls for one batch: a directory that exists is refused without harm, the last answer is the file's.
pub fn below(root: &DfsPath, create: Create) -> Vec<Call> {
    let parents = std::iter::successors(create.path.parent(), DfsPath::parent);
    let missing = parents.take_while(|path| path != root && path.starts_with(root));
    let mkdirs = |path| Call::Mkdirs { path, mode: DIRECTORY_MODE, unmasked: None, parents: false };
    let mut calls: Vec<Call> = missing.map(mkdirs).collect();
    calls.reverse();
    calls.push(Call::Create(Create { parents: false, ..create }));
    calls
}

/// The outcome of those calls. Where the file's directory is missing, the reason is what a directory was refused for.
pub fn outcome(mut answers: Vec<Answer>) -> Option<Answer> {
    let last = answers.pop()?;
    let is_missing = last.as_ref().is_err_and(|refusal| refusal.kind == ErrorKind::NotFound);
    let mut refusals = answers.into_iter().filter(|answer| {
        answer.as_ref().is_err_and(|refusal| refusal.kind != ErrorKind::AlreadyExists)
    });
    Some(if is_missing { refusals.next().unwrap_or(last) } else { last })
}

#[cfg(test)]
mod tests {
    use protocol::RemoteError;
    use protocol::namenode::Reply;

    use super::*;

    fn path(text: &str) -> DfsPath {
        DfsPath::parse(text).unwrap()
    }

    fn create(file: &str) -> Create {
        Create {
            path: path(file),
            mode: 0o644,
            unmasked: None,
            overwrite: true,
            parents: true,
            replication: None,
            block_size: None,
            first_block: true,
        }
    }

    /// Directories made for a file, and the path of the file; nothing else is made above them.
    fn made(root: &str, file: &str) -> Vec<String> {
        let calls = below(&path(root), create(file)).into_iter().map(|call| match call {
            Call::Mkdirs { path, parents: false, .. } => path.to_string(),
            Call::Create(Create { path, parents: false, .. }) => path.to_string(),
            other => panic!("{other:?}"),
        });
        calls.collect()
    }

    #[test]
    fn a_directory_that_is_refused_is_the_reason_where_the_file_has_none() {
        use ErrorKind::{AlreadyExists, NamespaceQuotaExceeded, NotFound, PermissionDenied};
        let no = |kind| Err(RemoteError::new(kind, "no"));
        let done = || Ok(Reply::Done);
        for (answers, expected) in [
            (vec![no(AlreadyExists), done(), done()], done()),
            (vec![no(PermissionDenied), done()], done()),
            (vec![no(PermissionDenied), no(AlreadyExists)], no(AlreadyExists)),
            (vec![no(AlreadyExists), no(PermissionDenied), no(NotFound)], no(PermissionDenied)),
            (
                vec![no(NamespaceQuotaExceeded), no(NotFound), no(NotFound)],
                no(NamespaceQuotaExceeded),
            ),
            (vec![no(NotFound), no(NotFound)], no(NotFound)),
        ] {
            assert_eq!(outcome(answers.clone()), Some(expected), "{answers:?}");
        }
        assert_eq!(outcome(vec![]), None);
    }

    #[test]
    fn directories_are_made_only_below_one_that_must_exist() {
        assert_eq!(made("/out", "/out/a/b/f"), ["/out/a", "/out/a/b", "/out/a/b/f"]);
        assert_eq!(made("/out", "/out/f"), ["/out/f"]);
        assert_eq!(made("/", "/a/f"), ["/a", "/a/f"]);
        assert_eq!(
            made("/out", "/other/a/f"),
            ["/other/a/f"],
            "none where the file is not below it"
        );
    }
}
