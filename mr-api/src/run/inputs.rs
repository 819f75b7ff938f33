//! What the input paths of a job stand for, on the cluster and on this machine alike: files, the files of directories, the matches of globs.
//!
//! Invariants: names that begin with `_` or `.` are skipped in directories and globs; a directory within an input directory is read,
//! ignored or an error, as the job's properties say, and never dropped silently.

use std::collections::BTreeMap;

use mr_formats::splits::{FileToCut, is_hidden};
use mr_model::{Error, Result};
use protocol::glob::{Pattern, expand_braces, is_glob};
use protocol::property::keys;

use super::options::Options;

/// What a path refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) is_directory: bool,
    pub(crate) length: u64,
    /// Bytes of its blocks.
    pub(crate) block_bytes: u64,
}

/// A file system.
pub(crate) trait Tree {
    /// The entry at `path`, if there is one.
    fn status(&self, path: &str) -> Result<Option<Entry>>;
    /// The wanted names and their entries, in order; nothing for a path that is not a directory. Unwanted names cost no query.
    fn list(&self, path: &str, is_wanted: &dyn Fn(&str) -> bool) -> Result<Vec<(String, Entry)>>;
}

/// How to treat directories in input directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Subdirectories {
    /// They fail the job, as in Hadoop.
    #[default]
    Refused,
    /// Their files are read, and those of directories in them.
    Read,
    /// They are ignored.
    Ignored,
}

impl Subdirectories {
    /// The choice in the properties of a job.
    pub(crate) fn of_job(options: &Options) -> Result<Self, Error> {
        Ok(match (options.value(keys::RECURSIVE)?, options.value(keys::IGNORE_DIRECTORIES)?) {
            (Some(true), _) => Subdirectories::Read,
            (_, Some(true)) => Subdirectories::Ignored,
            _ => Subdirectories::Refused,
        })
    }
}

/// The files that `paths` stand for, in order.
pub(crate) fn expand(
    tree: &impl Tree,
    paths: &[String],
    inner: Subdirectories,
) -> Result<Vec<FileToCut>> {
    let mut files = Vec::new();
    for path in paths {
        match tree.status(path)? {
            Some(entry) => add(tree, path, entry, inner, &mut files)?,
            None if is_glob(path) => {
                let matches = matches(tree, path)?;
                if matches.is_empty() {
                    return Err(Error::NoMatch { pattern: path.clone() }.into());
                }
                for (path, entry) in matches {
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
    inner: Subdirectories,
    files: &mut Vec<FileToCut>,
) -> Result<()> {
    if !entry.is_directory {
        files.push(file(path.to_owned(), entry));
        return Ok(());
    }
    let mut directories = vec![path.to_owned()];
    while let Some(directory) = directories.pop() {
        let mut below = Vec::new();
        for (name, entry) in tree.list(&directory, &|name| !is_hidden(name))? {
            let path = join(&directory, &name);
            match (entry.is_directory, inner) {
                (true, Subdirectories::Ignored) => {}
                (false, _) => files.push(file(path, entry)),
                (true, Subdirectories::Read) => below.push(path),
                (true, Subdirectories::Refused) => return Err(Error::NotAFile { path }.into()),
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

/// The paths that match a glob and their entries, each once, in order.
fn matches(tree: &impl Tree, glob: &str) -> Result<BTreeMap<String, Entry>> {
    let mut all = BTreeMap::new();
    let too_many = |error| Error::usage(format!("{glob}: {error}"));
    for text in expand_braces(glob).map_err(too_many)? {
        let root = if text.starts_with('/') { "/" } else { "" };
        let elements: Vec<Pattern> =
            text.split('/').filter(|element| !element.is_empty()).map(Pattern::new).collect();
        // Entries are known only for paths that were listed.
        let mut found = vec![(root.to_owned(), None)];
        for (index, pattern) in elements.iter().enumerate() {
            let is_last = index + 1 == elements.len();
            let is_wanted = |name: &str| pattern.matches(name) && !(is_last && is_hidden(name));
            let mut next = Vec::new();
            for (path, _) in found {
                if let Some(name) = pattern.literal() {
                    next.push((join(&path, &name), None));
                    continue;
                }
                let directory: &str = if path.is_empty() { "." } else { &path };
                let listed = tree.list(directory, &is_wanted)?.into_iter();
                let below = listed.filter(|(_, entry)| is_last || entry.is_directory);
                next.extend(below.map(|(name, entry)| (join(&path, &name), Some(entry))));
            }
            found = next;
        }
        for (path, known) in found {
            let entry = match known {
                None => tree.status(&path)?,
                known => known,
            };
            all.extend(entry.map(|entry| (path, entry)));
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
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use super::*;

    /// Files by path; directories follow from the paths of the files.
    struct Files {
        files: BTreeMap<&'static str, u64>,
        /// Number of queries for single paths.
        looks: Cell<usize>,
    }

    impl Files {
        fn entry(&self, path: &str) -> Option<Entry> {
            let entry = |is_directory, length| Entry { is_directory, length, block_bytes: 1 };
            let below = format!("{path}/");
            if let Some(length) = self.files.get(path) {
                return Some(entry(false, *length));
            }
            let is_directory = self.files.keys().any(|file| file.starts_with(&below));
            is_directory.then(|| entry(true, 0))
        }
    }

    impl Tree for Files {
        fn status(&self, path: &str) -> Result<Option<Entry>> {
            self.looks.set(self.looks.get() + 1);
            Ok(self.entry(path))
        }

        fn list(
            &self,
            path: &str,
            is_wanted: &dyn Fn(&str) -> bool,
        ) -> Result<Vec<(String, Entry)>> {
            let below = if path == "/" { "/".to_owned() } else { format!("{path}/") };
            let names: BTreeSet<String> = self
                .files
                .keys()
                .filter_map(|file| file.strip_prefix(&below))
                .map(|rest| rest.split('/').next().unwrap_or_default().to_owned())
                .filter(|name| is_wanted(name))
                .collect();
            let entry = |name: String| {
                let entry = self.entry(&format!("{below}{name}")).expect("listed");
                (name, entry)
            };
            Ok(names.into_iter().map(entry).collect())
        }
    }

    fn tree() -> Files {
        let files = [
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
        ];
        Files { files: files.map(|path| (path, 1)).into(), looks: Cell::new(0) }
    }

    fn expanded(path: &str, inner: Subdirectories) -> Result<Vec<String>> {
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
            assert_eq!(expanded(glob, Subdirectories::Refused).unwrap(), found, "{glob}");
        }
        for (path, part) in [("/in/*.csv", "matches 0 files"), ("/nothing", "does not exist")] {
            let error = expanded(path, Subdirectories::Refused).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn what_a_list_has_told_is_not_asked_for_again() {
        for (path, looks) in [("/in/*", 1), ("/202?/*", 1), ("/*/x", 5), ("/in", 1)] {
            let tree = tree();
            expand(&tree, &[path.to_owned()], Subdirectories::Refused).unwrap();
            assert_eq!(tree.looks.get(), looks, "{path}");
        }
    }

    #[test]
    fn directories_in_directories_are_never_dropped_in_silence() {
        let error = expanded("/deep", Subdirectories::Refused).unwrap_err().to_string();
        assert!(error.starts_with("Not a file: /deep/sub"), "{error}");
        assert_eq!(expanded("/deep", Subdirectories::Ignored).unwrap(), ["/deep/1", "/deep/z"]);
        let all = ["/deep/1", "/deep/z", "/deep/sub/2", "/deep/sub/more/3"];
        assert_eq!(expanded("/deep", Subdirectories::Read).unwrap(), all);
    }
}
