//! What the input paths of a job stand for, on the cluster and on this machine alike: files, the files of directories, the matches of globs.
//!
//! Invariants: names that begin with `_` or `.` are left out of directories and globs; a directory within an input directory is read, passed over
//! or an error, as the job's properties say, and never dropped without a word.

use std::collections::BTreeSet;

use protocol::glob::{Pattern, expand_braces, is_glob};
use protocol::property::keys;

use crate::Result;
use crate::error::Error;
use crate::options::Options;
use crate::splits::{FileToCut, is_hidden};

/// What a path is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) is_directory: bool,
    pub(crate) length: u64,
    /// Bytes of its blocks.
    pub(crate) block_bytes: u64,
}

/// A file system.
pub(crate) trait Tree {
    /// What `path` is, if it is there.
    fn look(&self, path: &str) -> Result<Option<Entry>>;
    /// Names and what they are, in order; of what is no directory nothing.
    fn list(&self, path: &str) -> Result<Vec<(String, Entry)>>;
}

/// What becomes of directories in input directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Inner {
    /// They fail the job, as in Hadoop.
    #[default]
    Refused,
    /// Their files are read, and those of directories in them.
    Read,
    /// They are passed over.
    Ignored,
}

impl Inner {
    /// What the properties of a job say.
    pub(crate) fn of_job(options: &Options) -> Result<Self, Error> {
        Ok(match (options.value(keys::RECURSIVE)?, options.value(keys::IGNORE_DIRECTORIES)?) {
            (Some(true), _) => Inner::Read,
            (_, Some(true)) => Inner::Ignored,
            _ => Inner::Refused,
        })
    }
}

/// The files that `paths` stand for, in order.
pub(crate) fn expand(tree: &impl Tree, paths: &[String], inner: Inner) -> Result<Vec<FileToCut>> {
    let mut files = Vec::new();
    for path in paths {
        match tree.look(path)? {
            Some(entry) => add(tree, path, entry, inner, &mut files)?,
            None if is_glob(path) => {
                let matches = matches(tree, path)?;
                if matches.is_empty() {
                    return Err(Error::NoMatch { pattern: path.clone() }.into());
                }
                for path in matches {
                    let Some(entry) = tree.look(&path)? else { continue };
                    add(tree, &path, entry, inner, &mut files)?;
                }
            }
            None => return Err(Error::NoInput { path: path.clone() }.into()),
        }
    }
    Ok(files)
}

fn add(
    tree: &impl Tree,
    path: &str,
    entry: Entry,
    inner: Inner,
    files: &mut Vec<FileToCut>,
) -> Result<()> {
    if !entry.is_directory {
        files.push(file(path.to_owned(), entry));
        return Ok(());
    }
    let mut directories = vec![path.to_owned()];
    while let Some(directory) = directories.pop() {
        let mut below = Vec::new();
        for (name, entry) in tree.list(&directory)? {
            let path = join(&directory, &name);
            match (is_hidden(&name), entry.is_directory, inner) {
                (true, ..) | (_, true, Inner::Ignored) => {}
                (_, false, _) => files.push(file(path, entry)),
                (_, true, Inner::Read) => below.push(path),
                (_, true, Inner::Refused) => return Err(Error::NotAFile { path }.into()),
            }
        }
        // Those of the first directory come first.
        directories.extend(below.into_iter().rev());
    }
    Ok(())
}

fn file(path: String, entry: Entry) -> FileToCut {
    FileToCut { path, length: entry.length, block_bytes: entry.block_bytes }
}

/// The paths that fit a glob, each once, in order.
fn matches(tree: &impl Tree, glob: &str) -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    let too_many = |error| Error::usage(format!("{glob}: {error}"));
    for text in expand_braces(glob).map_err(too_many)? {
        let root = if text.starts_with('/') { "/" } else { "" };
        let elements: Vec<Pattern> =
            text.split('/').filter(|element| !element.is_empty()).map(Pattern::new).collect();
        let mut found = vec![root.to_owned()];
        for (index, pattern) in elements.iter().enumerate() {
            let is_last = index + 1 == elements.len();
            let mut next = Vec::new();
            for path in found {
                match pattern.literal() {
                    Some(name) => next.push(join(&path, &name)),
                    None => {
                        let listed = tree.list(if path.is_empty() { "." } else { &path })?;
                        let fits = |(name, entry): &(String, Entry)| {
                            let is_passed =
                                if is_last { is_hidden(name) } else { !entry.is_directory };
                            !is_passed && pattern.matches(name)
                        };
                        next.extend(
                            listed.iter().filter(|it| fits(it)).map(|(name, _)| join(&path, name)),
                        );
                    }
                }
            }
            found = next;
        }
        for path in found {
            if tree.look(&path)?.is_some() {
                all.insert(path);
            }
        }
    }
    Ok(all)
}

fn join(directory: &str, name: &str) -> String {
    match directory {
        "" => name.to_owned(),
        "/" => format!("/{name}"),
        _ => format!("{}/{name}", directory.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Files by path; directories are what they lie in.
    struct Files(BTreeMap<&'static str, u64>);

    impl Tree for Files {
        fn look(&self, path: &str) -> Result<Option<Entry>> {
            let entry = |is_directory, length| Entry { is_directory, length, block_bytes: 1 };
            let below = format!("{path}/");
            if let Some(length) = self.0.get(path) {
                return Ok(Some(entry(false, *length)));
            }
            let is_directory = self.0.keys().any(|file| file.starts_with(&below));
            Ok(is_directory.then(|| entry(true, 0)))
        }

        fn list(&self, path: &str) -> Result<Vec<(String, Entry)>> {
            let below = if path == "/" { "/".to_owned() } else { format!("{path}/") };
            let names: BTreeSet<String> = self
                .0
                .keys()
                .filter_map(|file| file.strip_prefix(&below))
                .map(|rest| rest.split('/').next().unwrap_or_default().to_owned())
                .collect();
            let entry = |name: String| {
                let entry = self.look(&format!("{below}{name}"))?.expect("listed");
                Ok((name, entry))
            };
            names.into_iter().map(entry).collect()
        }
    }

    fn tree() -> Files {
        Files(
            [
                "/in/a.txt",
                "/in/b[1].txt",
                "/in/c.log",
                "/in/_SUCCESS",
                "/2024/x",
                "/2025/x",
                "/2025/y",
                "/deep/1",
                "/deep/sub/2",
                "/deep/sub/more/3",
                "/deep/_temporary/4",
                "/deep/z",
            ]
            .map(|path| (path, 1))
            .into(),
        )
    }

    fn expanded(path: &str, inner: Inner) -> Result<Vec<String>> {
        let files = expand(&tree(), &[path.to_owned()], inner)?;
        Ok(files.into_iter().map(|file| file.path).collect())
    }

    #[test]
    fn globs_of_all_kinds_in_all_places() {
        for (glob, found) in [
            ("/in/*", &["/in/a.txt", "/in/b[1].txt", "/in/c.log"][..]),
            ("/in/{a,c}.*", &["/in/a.txt", "/in/c.log"]),
            ("/in/[a-b]*", &["/in/a.txt", "/in/b[1].txt"]),
            ("/in/[^a-b]*", &["/in/c.log"]),
            ("/in/?.txt", &["/in/a.txt"]),
            ("/*/x", &["/2024/x", "/2025/x"]),
            ("/202?/{x,y}", &["/2024/x", "/2025/x", "/2025/y"]),
            ("/{in/a.txt,2024/x}", &["/2024/x", "/in/a.txt"]),
            (r"/in/b\[1\].txt", &["/in/b[1].txt"]),
            ("/in/b[1].txt", &["/in/b[1].txt"]),
            ("/202[45]", &["/2024/x", "/2025/x", "/2025/y"]),
            ("/in", &["/in/a.txt", "/in/b[1].txt", "/in/c.log"]),
        ] {
            assert_eq!(expanded(glob, Inner::Refused).unwrap(), found, "{glob}");
        }
        for (path, part) in [("/in/*.csv", "matches 0 files"), ("/nothing", "does not exist")] {
            let error = expanded(path, Inner::Refused).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn directories_in_directories_are_never_dropped_in_silence() {
        let error = expanded("/deep", Inner::Refused).unwrap_err().to_string();
        assert!(error.starts_with("Not a file: /deep/sub"), "{error}");
        assert_eq!(expanded("/deep", Inner::Ignored).unwrap(), ["/deep/1", "/deep/z"]);
        let all = ["/deep/1", "/deep/z", "/deep/sub/2", "/deep/sub/more/3"];
        assert_eq!(expanded("/deep", Inner::Read).unwrap(), all);
    }
}
