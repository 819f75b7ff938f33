//! What is in a target and belongs to no copy: what the system and the runs of this command keep there. A target may be above all that: a home directory, `/`,
//! or on this machine the directory for temporary files.
//!
//! ```text
//! cluster        /user/NAME/.staging      of every user: copies and jobs that run
//!                /system/hanno/bin        programs and files of jobs
//! this machine   TMPDIR/hanno-distcp-ID   of every copy that runs in its driver
//! both           LOG/distcp-ID            with `-log LOG`: this run's and earlier ones
//! ```
//!
//! Invariant: `-delete` deletes none of it and no directory that leads there, and the last step changes no attributes of it.

use protocol::address::home;
use protocol::jobs::FILES_DIR;
use protocol::namenode::{DiffEntry, DiffKind};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::places::{Files, Location, Place, file};

/// Where copies and jobs have their files, below the home directory.
pub(crate) const STAGING: &str = ".staging";
/// How the directory of a copy on this machine begins.
pub(crate) const STAGING_OF_MACHINE: &str = "hanno-distcp-";
/// How the log of a run begins, below the directory that `-log` names.
pub(crate) const LOG: &str = "distcp-";
/// Any user.
const ANY: &str = "*";

/// One element of a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Element {
    Is(String),
    Begins(String),
    Any,
}

impl Element {
    fn takes(&self, name: &str) -> bool {
        match self {
            Element::Is(this) => this == name,
            Element::Begins(start) => name.starts_with(start.as_str()),
            Element::Any => true,
        }
    }
}

fn elements(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

fn plain(path: &str) -> Vec<Element> {
    elements(path).map(|name| Element::Is(name.to_owned())).collect()
}

/// Paths below a target; each of them with all that is in it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Spared(Vec<Vec<Element>>);

impl Spared {
    /// What there may be in a target, for a run with this staging directory and log.
    pub(crate) fn of(
        files: &dyn Files,
        target: &Location,
        staging: &Location,
        log: Option<&Location>,
    ) -> Result<Self> {
        // Without links, so that two names of one directory are one.
        let real = |at: &Location| files.real(&at.path).map_err(file("look for", at));
        let below = |directory: &Location, start: &str| -> Result<Vec<Element>> {
            let mut pattern = plain(&real(directory)?);
            pattern.push(Element::Begins(start.to_owned()));
            Ok(pattern)
        };
        let mut spared = Spared::default();
        let top = real(target)?;
        match (&target.place, &staging.place) {
            (Place::Machine, Place::Machine) => {
                spared.add(&top, below(&staging.parent(), STAGING_OF_MACHINE)?);
            }
            (Place::Machine, _) => {}
            // Another name of this cluster may be the target's, so the place does not matter.
            _ => {
                let home = home(ANY);
                let of_homes = elements(&home).map(|name| match name {
                    ANY => Element::Any,
                    name => Element::Is(name.to_owned()),
                });
                spared.add(&top, plain(FILES_DIR));
                let staging = Element::Is(STAGING.to_owned());
                spared.add(&top, of_homes.chain([staging]).collect());
            }
        }
        if let Some(log) = log.filter(|log| log.place == target.place) {
            let mut logs = Spared::default();
            logs.add(&top, below(log, LOG)?);
            // A target that is itself a log of old is not meant to be kept.
            spared.0.extend(logs.0.into_iter().filter(|pattern| !pattern.is_empty()));
        }
        Ok(spared)
    }

    /// Adds those sources that are in the target, by their paths: what is in them may have no copy yet.
    pub(crate) fn keep_sources(&mut self, target: &Location, sources: &[Location]) {
        let below = sources.iter().filter(|source| source.is_within(target) && *source != target);
        below.for_each(|source| self.add(&target.path, plain(&source.path)));
    }

    /// Adds what is below `top` of an absolute path.
    fn add(&mut self, top: &str, pattern: Vec<Element>) {
        let (mut pattern, mut top) = (pattern.into_iter(), elements(top));
        let is_apart = top.by_ref().zip(pattern.by_ref()).any(|(name, it)| !it.takes(name));
        if !is_apart {
            self.0.push(pattern.collect());
        }
    }

    /// True for what is spared, and all in it.
    pub(crate) fn has(&self, relative: &str) -> bool {
        self.0.iter().any(|pattern| {
            let mut names = elements(relative);
            pattern.iter().all(|element| names.next().is_some_and(|name| element.takes(name)))
        })
    }

    /// True for a directory in which there may be something that is spared.
    pub(crate) fn is_below(&self, relative: &str) -> bool {
        self.0.iter().any(|pattern| {
            elements(relative).count() < pattern.len()
                && elements(relative).zip(pattern).all(|(name, element)| element.takes(name))
        })
    }

    /// True for a change of what is spared alone.
    fn has_change(&self, change: &DiffEntry) -> bool {
        let mut paths = [Some(&change.path), change.target.as_ref()].into_iter().flatten();
        paths.all(|path| self.has(path))
    }

    /// The changes of a directory without those of what is spared.
    pub(crate) fn without(&self, mut changes: Vec<DiffEntry>) -> Vec<DiffEntry> {
        changes.retain(|change| !self.has_change(change));
        changes
    }

    /// The first change of what is not spared. That something spared came into a directory, or left it, is none.
    pub(crate) fn first_other<'a>(&self, changes: &'a [DiffEntry]) -> Option<&'a DiffEntry> {
        let parent = |path: &'a str| path.rsplit_once('/').map_or("", |(above, _)| above);
        let moved = changes.iter().filter(|change| change.kind != DiffKind::Modified);
        let spared = moved.filter(|change| self.has_change(change));
        let touched: Vec<&str> = spared.map(|change| parent(&change.path)).collect();
        let is_touched = |change: &DiffEntry| {
            change.kind == DiffKind::Modified && touched.contains(&change.path.as_str())
        };
        changes.iter().find(|change| !self.has_change(change) && !is_touched(change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::double::Double;

    fn at(place: &Place, path: &str) -> Location {
        Location { place: place.clone(), path: path.to_owned() }
    }

    fn cluster() -> Place {
        Place::Cluster { authority: "h:1".to_owned() }
    }

    fn of_cluster(target: &str, log: Option<&str>) -> Spared {
        let staging = at(&cluster(), "/user/ann/.staging/distcp-1");
        let log = log.map(|log| at(&cluster(), log));
        let target = at(&cluster(), target);
        Spared::of(&Double::default(), &target, &staging, log.as_ref()).unwrap()
    }

    #[test]
    fn staging_is_of_the_system_wherever_the_target_is() {
        for (target, spared, above, others) in [
            ("/", "user/ann/.staging", "user/ann", "user/ann/x/.staging"),
            ("/", "user/bob/.staging/job/x", "user", ".staging"),
            ("/user", "ann/.staging/distcp-1", "ann", "ann/.stagingx"),
            ("/user/ann", ".staging", "", "x/.staging"),
        ] {
            let found = of_cluster(target, None);
            assert!(found.has(spared) && !found.has(above) && !found.has(others), "{target}");
            assert!(found.is_below(above) && !found.is_below(spared), "{target}");
        }
        for target in ["/data", "/user/ann/data", "/users"] {
            let found = of_cluster(target, None);
            assert!(!found.has(".staging") && !found.is_below(""), "{target}");
        }
        // Everything there.
        assert!(of_cluster("/user/ann/.staging", None).has(""));
        let web = Place::Web { authority: "other:1".to_owned(), is_encrypted: false };
        let staging = at(&cluster(), "/user/ann/.staging/distcp-1");
        let far = Spared::of(&Double::default(), &at(&web, "/user"), &staging, None).unwrap();
        assert!(far.has("ann/.staging/x"));
    }

    #[test]
    fn the_files_of_jobs_and_sources_in_the_target_are_spared() {
        let root = of_cluster("/", None);
        assert!(root.has("system/hanno/bin/ann/x") && root.is_below("system"));
        assert!(!root.has("system/hanno") && !root.has("systems"));
        let mut inside = of_cluster("/t", None);
        inside
            .keep_sources(&at(&cluster(), "/t"), &[at(&cluster(), "/t/src"), at(&cluster(), "/t")]);
        assert!(
            inside.has("src/a") && inside.is_below("") && !inside.has("src2") && !inside.has("")
        );
        inside.keep_sources(&at(&cluster(), "/t"), &[at(&cluster(), "/"), at(&cluster(), "/tt/x")]);
        assert!(!inside.has("") && !inside.has("x"));
    }

    #[test]
    fn logs_are_spared_where_they_are() {
        let found = of_cluster("/t", Some("/t/log"));
        assert!(found.has("log/distcp-1/part-r-00000") && found.is_below("log"));
        assert!(!found.has("log/x") && !found.has("log"));
        assert!(of_cluster("/t", Some("/t")).has("distcp-1"));
        assert!(!of_cluster("/t", Some("/log")).has("distcp-1"));
        assert!(!of_cluster("/log/distcp-1", Some("/log")).has(""));
    }

    #[test]
    fn what_runs_on_this_machine_is_spared_by_any_name() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("tmp")).unwrap();
        std::os::unix::fs::symlink("tmp", scratch.path().join("link")).unwrap();
        let staging = Location::of_test(&scratch.path().join("tmp/hanno-distcp-1"));
        for (target, path) in [("", "tmp/hanno-distcp-2/lists"), ("link", "hanno-distcp-1")] {
            let target = Location::of_test(&scratch.path().join(target));
            let found = Spared::of(&Double::default(), &target, &staging, None).unwrap();
            assert!(found.has(path) && !found.has("tmp") && !found.has("link"), "{target}");
        }
    }

    #[test]
    fn changes_of_what_is_spared_are_none() {
        let change = |kind, path: &str, target: Option<&str>| DiffEntry {
            kind,
            path: path.to_owned(),
            target: target.map(str::to_owned),
        };
        use DiffKind::{Created, Modified, Renamed};
        let spared = of_cluster("/user", None);
        let system = [
            change(Modified, "ann", None),
            change(Created, "ann/.staging", None),
            change(Modified, "bob/.staging", None),
            change(Renamed, "bob/.staging/a", Some("bob/.staging/b")),
        ];
        assert_eq!(spared.first_other(&system), None);
        // The source's home may have got other attributes, too.
        assert_eq!(spared.without(system.to_vec()), system[..1]);
        let users = [
            change(Modified, "bob", None),
            change(Created, "ann/x", None),
            change(Renamed, "bob/.staging/a", Some("bob/a")),
        ];
        for user in users {
            let all = [&system[..], std::slice::from_ref(&user)].concat();
            assert_eq!(spared.first_other(&all), Some(&user));
            assert_eq!(spared.without(all), [system[0].clone(), user]);
        }
    }
}
