//! The last step, in the job's one reduce, when all maps are done: attributes of directories, deletions, publication.
//!
//! Invariant: it can be done again, whole or in part, with the same result.

use std::collections::BTreeSet;
use std::io::BufRead;

use client::interrupt::Unfinished;

use crate::error::{Error, Result};
use crate::keep::keep;
use crate::listing::{Filters, leading_to, within};
use crate::order::{Entry, Order};
use crate::places::{Files, Location, Places, Status, file};
use crate::spared::Spared;

/// What the last step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Committed {
    pub(crate) deleted: u64,
}

/// Does the last step; `list` is the whole list, and `alive` is called now and then.
pub(crate) fn commit(
    order: &Order,
    places: &Places,
    list: impl BufRead,
    alive: &mut dyn FnMut(),
) -> Result<Committed> {
    remove_temporary(order, places)?;
    let files = places.files(&order.work.place).map_err(file("reach", &order.work))?;
    let mut committed = Committed::default();
    let (mut wanted, mut directories) = (BTreeSet::new(), Vec::new());
    let mut unread = BTreeSet::new();
    for entry in read(list) {
        let entry = entry?;
        if order.delete {
            wanted.extend(leading_to(&entry.relative).map(str::to_owned));
        }
        // Its target has what an earlier copy made.
        if entry.unread.is_some() {
            unread.insert(entry.relative);
            continue;
        }
        let is_ours = !order.spared.has(&entry.relative);
        if entry.status.directory && is_ours && order.preserve.of_directories() {
            directories.push(entry);
        }
    }
    if order.delete {
        let kept = Kept::of(order, unread)?;
        committed.deleted =
            Deletion { files: &*files, top: &order.work, kept, alive }.run(&wanted)?;
    }
    // Those below come first: what is set above may forbid to go there, and changes below change times above.
    for entry in directories.iter().rev() {
        alive();
        let target = order.work.below(&entry.relative);
        let from = places.files(&entry.source.place).map_err(file("reach", &entry.source))?;
        keep((&*from, &*files), entry, &target, order.preserve)?;
    }
    publish(order, places)?;
    Ok(committed)
}

/// What is not deleted: what is no part of the copy, and what was not listed, as the filters exclude it or the source could not be read: that it is not in the
/// list says nothing.
struct Kept<'a> {
    filters: Filters,
    sources: &'a [(Location, String)],
    spared: &'a Spared,
    /// Directories.
    unread: BTreeSet<String>,
}

impl<'a> Kept<'a> {
    fn of(order: &'a Order, unread: BTreeSet<String>) -> Result<Self> {
        let (text, sources) = &order.filtered;
        Ok(Kept { filters: Filters::parse(text)?, sources, spared: &order.spared, unread })
    }

    /// True if it is spared or in a directory that was not listed, or if the filters exclude what a source would have at this path below the target, or a
    /// directory above it.
    fn has(&self, relative: &str) -> bool {
        self.spared.has(relative)
            || self.unread.contains("")
            || leading_to(relative).any(|path| self.unread.contains(path))
            || (!self.filters.is_none() && leading_to(relative).any(|path| self.excludes(path)))
    }

    /// True if a directory may have such an entry.
    fn may_be_below(&self, relative: &str) -> bool {
        !self.filters.is_none() || self.spared.is_below(relative)
    }

    fn excludes(&self, relative: &str) -> bool {
        let mut places = self.sources.iter().filter_map(|(source, prefix)| {
            let rest = relative.strip_prefix(prefix.as_str())?;
            let is_within = prefix.is_empty() || rest.is_empty() || rest.starts_with('/');
            is_within.then(|| source.below(rest.trim_start_matches('/')))
        });
        places.any(|place| !self.filters.wants(&place))
    }
}

/// What `-delete` does. A link is an entry of the target: what it leads to was not named for that.
struct Deletion<'a> {
    files: &'a dyn Files,
    top: &'a Location,
    kept: Kept<'a>,
    alive: &'a mut dyn FnMut(),
}

impl Deletion<'_> {
    /// Deletes what is not wanted below the top; how many entries of directories that stay.
    fn run(mut self, wanted: &BTreeSet<String>) -> Result<u64> {
        let there = self.files.status(&self.top.path).map_err(file("look for", self.top))?;
        let mut left: Vec<String> = Vec::new();
        left.extend(there.filter(|status| status.directory).map(|_| String::new()));
        let mut deleted = 0;
        while let Some(directory) = left.pop() {
            for (relative, is_directory) in self.entries(&directory)? {
                if wanted.contains(&relative) {
                    left.extend(is_directory.then_some(relative));
                } else if !self.stays(&relative, is_directory, &mut deleted)? {
                    deleted += self.delete(&relative)?;
                }
            }
        }
        Ok(deleted)
    }

    /// True for what is kept, and for a directory with such an entry below: of that, everything else is deleted here.
    fn stays(&mut self, relative: &str, is_directory: bool, deleted: &mut u64) -> Result<bool> {
        if self.kept.has(relative) {
            return Ok(true);
        }
        if !is_directory || !self.kept.may_be_below(relative) {
            return Ok(false);
        }
        let (mut others, mut stays) = (Vec::new(), false);
        for (entry, is_directory) in self.entries(relative)? {
            match self.stays(&entry, is_directory, deleted)? {
                true => stays = true,
                false => others.push(entry),
            }
        }
        for other in others.iter().filter(|_| stays) {
            *deleted += self.delete(other)?;
        }
        Ok(stays)
    }

    /// The paths of the entries of a directory, and whether they are directories.
    fn entries(&mut self, directory: &str) -> Result<Vec<(String, bool)>> {
        let at = self.top.below(directory);
        let list = self.files.list_unfollowed(&at.path).map_err(file("list", &at))?;
        let entry = |entry: Status| {
            (self.alive)();
            (within(directory, &entry.name), entry.directory)
        };
        Ok(list.into_iter().map(entry).collect())
    }

    fn delete(&mut self, relative: &str) -> Result<u64> {
        (self.alive)();
        let gone = self.files.delete_below(&self.top.path, relative);
        gone.map(u64::from).map_err(file("delete", &self.top.below(relative)))
    }
}

/// Deletes what killed attempts left.
fn remove_temporary(order: &Order, places: &Places) -> Result<()> {
    if let Some(temporary) = &order.temporary {
        let files = places.files(&temporary.place).map_err(file("reach", temporary))?;
        // Where nothing was copied there may be no right to delete anything either.
        if files.status(&temporary.path).map_err(file("look for", temporary))?.is_some() {
            files.delete(&temporary.path).map_err(file("delete", temporary))?;
        }
    }
    Ok(())
}

/// Deletes what a copy that failed leaves: temporary files, and an atomic copy that is not complete.
pub(crate) fn abandon(order: &Order, places: &Places) -> Result<()> {
    remove_temporary(order, places)?;
    if order.publish.is_some() {
        let files = places.files(&order.work.place).map_err(file("reach", &order.work))?;
        files.delete(&order.work.path).map_err(file("delete", &order.work))?;
    }
    Ok(())
}

/// Gives an atomic copy its name.
fn publish(order: &Order, places: &Places) -> Result<()> {
    let Some(path) = &order.publish else { return Ok(()) };
    let target = &Location { place: order.work.place.clone(), path: path.clone() };
    let files = places.files(&target.place).map_err(file("reach", target))?;
    let there = |at: &Location| files.status(&at.path).map_err(file("look for", at));
    match (there(&order.work)?.is_some(), there(target)?.is_some()) {
        (true, true) => Err(Error::AtomicTarget { target: target.to_string() }),
        // An attempt before this one did it.
        (false, true) => Ok(()),
        (false, false) => {
            Err(Error::NoWork { work: order.work.to_string(), target: target.to_string() })
        }
        (true, false) => {
            // Until then the copy can be deleted, afterwards it is the target.
            let _unfinished = Unfinished::beginning(format!("the publication of {target}"));
            let parent = target.parent();
            files.make_directories(&parent.path).map_err(file("make the directory", &parent))?;
            files.rename(&order.work.path, &target.path).map_err(file("rename onto", target))
        }
    }
}

/// The entries of a list.
pub(crate) fn read(list: impl BufRead) -> impl Iterator<Item = Result<Entry>> {
    list.lines().map(|line| {
        let own = |source| Error::Own { what: "read", path: "the list".to_owned(), source };
        serde_json::from_str(&line.map_err(own)?).map_err(Error::List)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::attributes::Attributes;

    fn order(root: &Path) -> Order {
        Order { update: true, delete: true, ..Order::of_test(root) }
    }

    fn list(root: &Path, paths: &[&str]) -> Vec<u8> {
        let mut list = Vec::new();
        for path in paths {
            let source = Location::of_test(&root.join("from").join(path));
            let status =
                Status { directory: path.ends_with('d'), mode: 0o700, ..Status::default() };
            let entry = Entry::new(source, (*path).to_owned(), status);
            list.extend(serde_json::to_vec(&entry).unwrap());
            list.push(b'\n');
        }
        list
    }

    #[test]
    fn what_is_missing_is_deleted_and_the_step_can_be_done_again() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        for path in ["d/x", "d/old", "gone/a/b", "d-not", ".distcp.tmp.1/attempt"] {
            let path = root.join("to").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let places = Places::new(None, String::new(), Default::default(), Default::default());
        let order = Order { preserve: Attributes::parse("p").unwrap(), ..order(root) };
        let step = || {
            let list = list(root, &["d", "d/x"]);
            commit(&order, &places, &list[..], &mut || {}).unwrap().deleted
        };
        assert_eq!((step(), step()), (3, 0));
        let mut names: Vec<String> = fs::read_dir(root.join("to"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["d"]);
        assert!(
            root.join("to/d/x").try_exists().unwrap()
                && !root.join("to/d/old").try_exists().unwrap()
        );
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(root.join("to/d")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn what_the_filters_exclude_stays_with_all_that_leads_there() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        let gone = ["old", "d/old", "gone/a/b", "gone/c", "half/old", "half/in/old"];
        let kept = ["d/x", "x.tmp", "half/in/x.tmp", "logs/a/b", "f"];
        for path in gone.iter().chain(&kept) {
            let path = root.join("to").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let at = |path: &str| Location::of_test(&root.join(path));
        let filters = format!(".*[.]tmp\n{}/from/logs\n.*/other/f", root.display());
        let sources = vec![(at("from"), String::new()), (at("other/f"), "f".to_owned())];
        let order = Order { filtered: (filters, sources), ..order(root) };
        let places = Places::new(None, String::new(), Default::default(), Default::default());
        let step = || {
            let list = list(root, &["d", "d/x"]);
            commit(&order, &places, &list[..], &mut || {}).unwrap().deleted
        };
        // `gone` goes as a whole.
        assert_eq!((step(), step()), (5, 0));
        let is_there = |path: &&str| root.join("to").join(path).try_exists().unwrap();
        assert!(kept.iter().all(is_there));
        assert!(!gone.iter().any(is_there) && !is_there(&"gone"));
    }

    #[test]
    fn what_runs_keep_in_the_target_stays_as_it_is() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        let kept = ["tmp/hanno-distcp-1/lists/list", "tmp/hanno-distcp-2/log", "log/distcp-1/part"];
        let gone = ["tmp/x", "log/x", "hanno-distcp-3/x", "old"];
        for path in kept.iter().chain(&gone) {
            let path = root.join("to").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let own = root.join("to/tmp/hanno-distcp-1");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o750)).unwrap();
        let places = Places::new(None, String::new(), Default::default(), Default::default());
        let (target, staging) = (order(root).work, Location::of_test(&own));
        let files = places.files(&target.place).unwrap();
        let log = Location::of_test(&root.join("to/log"));
        let spared = Spared::of(&*files, &target, &staging, Some(&log)).unwrap();
        let preserve = Attributes::parse("p").unwrap();
        let order = Order { spared, preserve, ..order(root) };
        let step = |paths: &[&str]| {
            commit(&order, &places, &list(root, paths)[..], &mut || {}).unwrap().deleted
        };
        assert_eq!((step(&[]), step(&[])), (4, 0));
        // The source has such a directory, too.
        let status = Status { directory: true, mode: 0o700, ..Status::default() };
        let directory =
            Entry::new(Location::of_test(root), "tmp/hanno-distcp-1".to_owned(), status);
        let text = serde_json::to_vec(&directory).unwrap();
        assert_eq!(commit(&order, &places, &text[..], &mut || {}).unwrap().deleted, 0);
        assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o750);
        let is_there = |path: &&str| root.join("to").join(path).try_exists().unwrap();
        assert!(kept.iter().all(is_there) && !gone.iter().any(is_there));
    }

    #[test]
    fn nothing_is_deleted_where_the_source_could_not_be_listed() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        let all = ["d/secret/a/x", "d/old", "secret/x", "x"];
        for path in all {
            let path = root.join("to").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let places = Places::new(None, String::new(), Default::default(), Default::default());
        let order = Order { preserve: Attributes::parse("p").unwrap(), ..order(root) };
        let step = |unread: &[&str]| {
            let mut list = list(root, &["d"]);
            for path in unread {
                let status = Status { directory: true, ..Status::default() };
                let entry = Entry::new(Location::of_test(root), (*path).to_owned(), status);
                let entry = Entry { unread: Some("cannot list".to_owned()), ..entry };
                list.extend(serde_json::to_vec(&entry).unwrap());
                list.push(b'\n');
            }
            commit(&order, &places, &list[..], &mut || {}).unwrap().deleted
        };
        let left = || all.map(|path| root.join("to").join(path).try_exists().unwrap());
        // The source itself; a directory that the target lacks.
        assert_eq!((step(&["", "none"]), left()), (0, [true; 4]));
        assert_eq!((step(&["d/secret"]), left()), (3, [true, false, false, false]));
        assert_eq!((step(&[]), left()), (1, [false; 4]));
    }

    #[test]
    fn links_in_the_target_are_entries_and_no_ways() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        for path in ["outside/kept", "to/d/x", "to/a/x"] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        for name in ["wanted", "other", "d/other"] {
            std::os::unix::fs::symlink(root.join("outside"), root.join("to").join(name)).unwrap();
        }
        let places = Places::new(None, String::new(), Default::default(), Default::default());
        // Of `a` only what is in it was listed.
        let list = list(root, &["wanted", "d", "d/x", "a/x"]);
        let done = commit(&order(root), &places, &list[..], &mut || {}).unwrap();
        assert_eq!(done.deleted, 2);
        assert!(root.join("outside/kept").is_file());
        for (name, is_there) in
            [("wanted", true), ("other", false), ("d/other", false), ("a/x", true)]
        {
            assert_eq!(root.join("to").join(name).symlink_metadata().is_ok(), is_there, "{name}");
        }
    }

    #[test]
    fn an_atomic_copy_appears_once_or_not_at_all() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        let order = Order {
            publish: Some(root.join("deep/target").to_str().unwrap().to_owned()),
            delete: false,
            ..order(root)
        };
        let places = Places::new(None, String::new(), Default::default(), Default::default());
        let step = || commit(&order, &places, &b""[..], &mut || {});
        assert!(matches!(step().unwrap_err(), Error::NoWork { .. }));
        fs::create_dir(root.join("to")).unwrap();
        step().unwrap();
        assert!(root.join("deep/target").is_dir() && !root.join("to").try_exists().unwrap());
        step().unwrap();
        fs::create_dir(root.join("to")).unwrap();
        assert!(matches!(step().unwrap_err(), Error::AtomicTarget { .. }));
        abandon(&order, &places).unwrap();
        assert!(root.join("deep/target").is_dir() && !root.join("to").try_exists().unwrap());
    }
}
