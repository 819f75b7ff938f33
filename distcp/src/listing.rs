//! What there is to copy: sources and patterns become entries, each with its path below the target.
//!
//! Hadoop's rules of names: a directory that is the only source becomes the target if that does not exist, and with `-update` or `-overwrite` always;
//! otherwise sources keep their names in the target.

use std::sync::Mutex;
use std::sync::PoisonError;

use protocol::glob::{Pattern, expand_braces, is_glob};
use regex::Regex;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::order::Entry;
use crate::places::{Files, Location, Places, Status, file};

/// How often a source is tried before it is given up with `-i`; without `-i` a task is tried again, and a list is not made.
pub(crate) const TRIES: u32 = 3;

/// The sources that exist, with what they are; patterns are expanded.
pub(crate) fn sources(places: &Places, given: &[Location]) -> Result<Vec<(Location, Status)>> {
    let mut found = Vec::new();
    for source in given {
        let files = places.files(&source.place).map_err(file("reach", source))?;
        match files.status(&source.path).map_err(file("look for", source))? {
            Some(status) => found.push((source.clone(), status)),
            None if is_glob(&source.path) => {
                let matches = matches(&*files, source)?;
                if matches.is_empty() {
                    return Err(Error::NoMatch { pattern: source.to_string() });
                }
                found.extend(matches);
            }
            None => return Err(Error::NoSource { path: source.to_string() }),
        }
    }
    Ok(found)
}

/// What a pattern matches, in order.
fn matches(files: &dyn Files, pattern: &Location) -> Result<Vec<(Location, Status)>> {
    let mut all = Vec::new();
    let too_many = |error| Error::usage(format!("{pattern}: {error}"));
    for text in expand_braces(&pattern.path).map_err(too_many)? {
        let mut paths: Vec<(Location, Option<Status>)> =
            vec![(Location { path: "/".to_owned(), ..pattern.clone() }, None)];
        for element in text.split('/').filter(|element| !element.is_empty()) {
            let mut next = Vec::new();
            for (directory, status) in paths {
                if status.is_some_and(|status| !status.directory) {
                    continue;
                }
                next.extend(children(files, &directory, element)?);
            }
            paths = next;
        }
        all.extend(paths.into_iter().filter_map(|(path, status)| Some((path, status?))));
    }
    all.sort_by(|(left, _), (right, _)| left.cmp(right));
    all.dedup_by(|(left, _), (right, _)| left == right);
    Ok(all)
}

/// The entries of a directory that an element of a pattern matches.
fn children(
    files: &dyn Files,
    directory: &Location,
    element: &str,
) -> Result<Vec<(Location, Option<Status>)>> {
    if !is_glob(element) {
        let path = directory.below(element);
        let status = files.status(&path.path).map_err(file("look for", &path))?;
        return Ok(status.map(|status| (path, Some(status))).into_iter().collect());
    }
    let pattern = Pattern::new(element);
    let list = files.list(&directory.path).map_err(file("list", directory))?;
    let wanted = list.into_iter().filter(|status| pattern.matches(&status.name));
    Ok(wanted.map(|status| (directory.below(&status.name), Some(status))).collect())
}

/// What is known of the target before the copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    Missing,
    File,
    Directory,
}

/// The part of a source's path that its files keep below the target: nothing, or its name.
fn prefix(
    (source, status): &(Location, Status),
    is_only: bool,
    target: Target,
    is_sync: bool,
) -> String {
    let becomes_target = match (is_only, status.directory) {
        (true, false) => target != Target::Directory,
        (_, true) => is_sync || (is_only && target == Target::Missing),
        (false, false) => false,
    };
    if becomes_target { String::new() } else { source.name().to_owned() }
}

/// Which paths are left out.
pub(crate) struct Filters(Vec<Regex>);

impl Filters {
    /// One expression a line; a path that one of them matches as a whole is left out.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let expression = |(number, line): (usize, &str)| {
            let whole = Regex::new(&format!("^(?:{line})$"));
            whole.map_err(|error| {
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default().trim();
                Error::usage(format!("-filters: line {}: `{line}`: {reason}", number + 1))
            })
        };
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines.map(expression).collect::<Result<_>>().map(Filters)
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn wants(&self, at: &Location) -> bool {
        !self.0.iter().any(|regex| regex.is_match(&at.path) || regex.is_match(&at.to_string()))
    }
}

/// The sources with the part of their paths that their files keep below the target.
pub(crate) fn placed(
    sources: &[(Location, Status)],
    target: Target,
    options: &Options,
) -> Vec<(Location, String)> {
    let (is_only, is_sync) = (sources.len() == 1, options.update || options.overwrite);
    let place = |source: &(Location, Status)| prefix(source, is_only, target, is_sync);
    sources.iter().map(|source| (source.0.clone(), place(source))).collect()
}

/// All entries of the sources, in the order of their paths below the target.
pub(crate) fn entries(
    places: &Places,
    sources: &[(Location, Status)],
    target: Target,
    options: &Options,
    filters: &Filters,
) -> Result<Vec<Entry>> {
    let is_sync = options.update || options.overwrite;
    let walk = Walk { threads: options.listing_threads, filters, lenient: options.ignore_failures };
    let mut entries = Vec::new();
    for ((at, status), (_, relative)) in sources.iter().zip(placed(sources, target, options)) {
        let is_root = relative.is_empty() && status.directory;
        let is_told = filters.wants(at) && (!is_root || !is_sync || options.update_root);
        let top = Entry::new(at.clone(), relative, status.clone());
        let below = match status.directory {
            true => walk.below(&*places.files(&at.place).map_err(file("reach", at))?, &top)?,
            false => Vec::new(),
        };
        let is_unread = below.iter().any(|entry| entry.unread.is_some() && entry.source == *at);
        entries.extend((is_told && !is_unread).then_some(top));
        entries.extend(below);
    }
    // Those that could not be listed come last, so that others of one name are neighbours.
    entries.sort_by(|left, right| {
        let key = |entry: &Entry| entry.unread.is_some();
        left.relative.cmp(&right.relative).then(key(left).cmp(&key(right)))
    });
    for pair in entries.windows(2) {
        // Where nothing is copied, nothing is copied twice.
        if pair[0].relative == pair[1].relative && pair[1].unread.is_none() {
            let [first, second] = [&pair[0], &pair[1]].map(|entry| entry.source.to_string());
            return Err(Error::Duplicate { first, second });
        }
    }
    Ok(entries)
}

/// How trees are listed.
pub(crate) struct Walk<'a> {
    pub(crate) threads: usize,
    pub(crate) filters: &'a Filters,
    /// A directory that cannot be listed is told and passed over.
    pub(crate) lenient: bool,
}

impl Walk<'_> {
    /// All that is below a directory, one level after the other; the directory itself only if it cannot be listed.
    pub(crate) fn below(&self, files: &dyn Files, top: &Entry) -> Result<Vec<Entry>> {
        let (mut level, mut all) = (vec![top.clone()], Vec::new());
        while !level.is_empty() {
            let waiting = Mutex::new(level.into_iter());
            let listed = Mutex::new(Ok(Vec::new()));
            let work = || {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(directory) = next else { return };
                    let found = self.listed(files, directory);
                    let mut listed = listed.lock().unwrap_or_else(PoisonError::into_inner);
                    match (&mut *listed, found) {
                        (Ok(all), Ok(found)) => all.push(found),
                        (Ok(_), Err(error)) => *listed = Err(error),
                        (Err(_), _) => return,
                    }
                }
            };
            match self.threads {
                1 => work(),
                threads => std::thread::scope(|scope| {
                    (0..threads).for_each(|_| {
                        scope.spawn(work);
                    });
                }),
            }
            level = Vec::new();
            for (directory, found) in listed.into_inner().unwrap_or_else(PoisonError::into_inner)? {
                let is_told = directory.unread.is_some() || directory.source != top.source;
                all.extend(is_told.then_some(directory));
                let (directories, files): (Vec<_>, Vec<_>) =
                    found.into_iter().partition(|entry| entry.status.directory);
                level.extend(directories);
                all.extend(files);
            }
        }
        Ok(all)
    }

    /// A directory, with why it could not be listed if that is passed over, and its entries.
    fn listed(&self, files: &dyn Files, directory: Entry) -> Result<(Entry, Vec<Entry>)> {
        let mut tries = 1;
        loop {
            match children_of(files, &directory, self.filters) {
                Ok(found) => return Ok((directory, found)),
                Err(error) if !self.lenient => return Err(error),
                Err(_) if tries < TRIES => tries += 1,
                Err(error) => {
                    let unread = Some(protocol::error::chain(&error));
                    return Ok((Entry { unread, ..directory }, Vec::new()));
                }
            }
        }
    }
}

/// A path and all above it, without the empty one; the highest first.
pub(crate) fn leading_to(path: &str) -> impl Iterator<Item = &str> {
    let above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
    above.chain([path]).filter(|path| !path.is_empty())
}

/// Refuses an entry where the target has a link, a FIFO, a device or a socket in its place or on the way there. The target itself may be a link that somebody
/// made to a directory: it was named.
pub(crate) fn check_way(files: &dyn Files, top: &Location, relative: &str) -> Result<()> {
    let special = |at: &Location| files.special(&at.path).map_err(file("look for", at));
    let refused = |at: &Location, kind| Err(Error::Special { target: at.to_string(), kind });
    if let Some(kind) = special(top)? {
        let leads_to = files.status(&top.path).map_err(file("look for", top))?;
        if !leads_to.is_some_and(|status| status.directory) {
            return refused(top, kind);
        }
    }
    for path in leading_to(relative) {
        let at = top.below(path);
        if let Some(kind) = special(&at)? {
            return refused(&at, kind);
        }
    }
    Ok(())
}

/// The path below the target of an entry of a directory there.
pub(crate) fn within(directory: &str, name: &str) -> String {
    match directory {
        "" => name.to_owned(),
        directory => format!("{directory}/{name}"),
    }
}

fn children_of(files: &dyn Files, directory: &Entry, filters: &Filters) -> Result<Vec<Entry>> {
    let at = &directory.source;
    let list = files.list(&at.path).map_err(file("list", at))?;
    let entry = |status: Status| {
        let relative = within(&directory.relative, &status.name);
        Entry::new(at.below(&status.name), relative, status)
    };
    Ok(list.into_iter().map(entry).filter(|entry| filters.wants(&entry.source)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;
    use crate::places::Place;

    fn at(path: &str) -> Location {
        Location { place: Place::Machine, path: path.to_owned() }
    }

    #[test]
    fn names_below_the_target_follow_hadoops_rules() {
        let source = |directory| (at("/s/a"), Status { directory, ..Status::default() });
        for (directory, is_only, target, is_sync, expected) in [
            (true, true, Target::Missing, false, ""),
            (true, true, Target::Directory, false, "a"),
            (true, true, Target::Directory, true, ""),
            (true, false, Target::Missing, false, "a"),
            (true, false, Target::Directory, true, ""),
            (false, true, Target::Missing, false, ""),
            (false, true, Target::File, true, ""),
            (false, true, Target::Directory, false, "a"),
            (false, true, Target::Directory, true, "a"),
            (false, false, Target::Missing, true, "a"),
        ] {
            let found = prefix(&source(directory), is_only, target, is_sync);
            assert_eq!(found, expected, "{directory} {is_only} {target:?} {is_sync}");
        }
    }

    #[test]
    fn what_cannot_be_listed_is_passed_over_if_that_is_wanted() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().to_str().unwrap();
        for path in ["a/x", "a/sub/ring/f", "b/y"] {
            let path = scratch.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "1").unwrap();
        }
        // Whoever runs the test, superuser or not: no directory is entered below itself.
        std::os::unix::fs::symlink(".", scratch.path().join("a/sub/ring/again")).unwrap();
        let places = Places::new(None, "ann".to_owned(), Default::default(), Default::default());
        let list = |line: &str, gone: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let (options, _) = parse(&words)?;
            let given: Vec<Location> =
                options.sources.iter().map(|text| at(&format!("{root}/{text}"))).collect();
            let mut found = sources(&places, &given)?;
            for (source, _) in found.iter_mut().filter(|(source, _)| source.name() == gone) {
                source.path.push_str("-gone");
            }
            let none = Filters::parse("")?;
            let entries = entries(&places, &found, Target::Directory, &options, &none)?;
            let told = |entry: Entry| match entry.unread {
                None => entry.relative,
                Some(reason) => {
                    assert!(
                        reason.starts_with(&format!("cannot list {}", entry.source)),
                        "{reason}"
                    );
                    format!("{} unread", entry.relative)
                }
            };
            Ok(entries.into_iter().map(told).collect::<Vec<_>>())
        };
        let all: Result<Vec<String>> = list("-update -i a /t", "");
        assert_eq!(all.unwrap(), ["sub", "sub/ring", "sub/ring/again unread", "sub/ring/f", "x"]);
        let threads = list("-update -i -numListstatusThreads 4 a b /t", "").unwrap();
        assert_eq!(threads.len(), 6);
        assert!(matches!(list("-update a /t", ""), Err(Error::File { what: "list", .. })));
        // Sources themselves: with and without a name in the target.
        assert_eq!(list("-i a b /t", "b").unwrap().last().unwrap(), "b-gone unread");
        assert_eq!(list("-update -i b a /t", "b").unwrap()[0], " unread");
        assert_eq!(list("-update -updateRoot -i b a /t", "b").unwrap()[..2], ["", " unread"]);
    }

    #[test]
    fn trees_patterns_and_filters() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().to_str().unwrap();
        for path in ["a/x", "a/sub/y", "a/sub/z.tmp", "b/x"] {
            let path = scratch.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "1").unwrap();
        }
        let places = Places::new(None, "ann".to_owned(), Default::default(), Default::default());
        let list = |line: &str, filters: &str, target| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let (options, _) = parse(&words)?;
            let given: Vec<Location> =
                options.sources.iter().map(|text| at(&format!("{root}/{text}"))).collect();
            let found = sources(&places, &given)?;
            let entries = entries(&places, &found, target, &options, &Filters::parse(filters)?)?;
            Ok(entries.into_iter().map(|entry| entry.relative).collect::<Vec<_>>())
        };
        let all: Result<Vec<String>> = list("a /t", "", Target::Missing);
        assert_eq!(all.unwrap(), ["", "sub", "sub/y", "sub/z.tmp", "x"]);
        let threads = list("-numListstatusThreads 4 -update a /t", "", Target::Directory).unwrap();
        assert_eq!(threads, ["sub", "sub/y", "sub/z.tmp", "x"]);
        let filtered = list("a /t", ".*\\.tmp\n\n", Target::Directory).unwrap();
        assert_eq!(filtered, ["a", "a/sub", "a/sub/y", "a/x"]);
        assert_eq!(list("[ab]/x* /t", "", Target::Directory).unwrap_err().exit_code(), 254);
        assert_eq!(list("a/{x,sub/y} /t", "", Target::Missing).unwrap(), ["x", "y"]);
        let refused = |line: &str, filters: &str| {
            let error = list(line, filters, Target::Missing).unwrap_err();
            assert_eq!(error.exit_code(), 255);
            error
        };
        let missing = refused("none /t", "");
        assert!(matches!(missing, Error::NoSource { .. }), "{missing:?}");
        assert!(missing.to_string().contains("doesn't exist"), "{missing}");
        let unmatched = refused("n* /t", "");
        assert!(matches!(unmatched, Error::NoMatch { .. }), "{unmatched:?}");
        assert!(unmatched.to_string().contains("n* doesn't exist"), "{unmatched}");
        let bad_filter = refused("a /t", "ok\n(");
        assert!(
            matches!(&bad_filter, Error::Usage { reason } if reason.contains("-filters: line 2")),
            "{bad_filter:?}"
        );
    }
}
