//! `-diff FROM TO`: what changed between two snapshots of the source is done to a target that is as the first of them.
//!
//! What was deleted or renamed first moves, the deepest first, into a directory beside the rest. From there what was renamed goes to its new place, the
//! highest first, and the rest is deleted ([`shift`]). Then only what is new or changed is left to copy.

use protocol::namenode::{DiffEntry, DiffKind};

use crate::error::{Error, Result};
use crate::listing::Walk;
use crate::order::Entry;
use crate::places::{Files, Location, file};
use crate::shift::{Plan, recover, shift};
use crate::spared::Spared;

/// The directory of the snapshots of a directory.
const SNAPSHOTS: &str = ".snapshot";

/// Source, target and the snapshots.
pub(crate) struct Sync<'a> {
    pub(crate) source: (&'a dyn Files, &'a Location),
    pub(crate) target: (&'a dyn Files, &'a Location),
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    /// Different for each run.
    pub(crate) id: &'a str,
    /// In the target: it neither has to be as it was, nor becomes what the source has there.
    pub(crate) spared: &'a Spared,
}

impl Sync<'_> {
    /// Moves and deletes in the target; returns what is left to copy, by its path.
    pub(crate) fn run(&self, walk: &Walk<'_>) -> Result<Vec<Entry>> {
        let ((source, at), (target, to)) = (self.source, self.target);
        let changes = |files: &dyn Files, at: &Location, from: &str, to: &str| {
            files.changes(&at.path, from, to).map_err(file("compare snapshots of", at))
        };
        recover(target, to)?;
        let changed = changes(target, to, self.from, "")?;
        if let Some(change) = self.spared.first_other(&changed) {
            return Err(Error::TargetChanged {
                target: to.to_string(),
                snapshot: self.from.to_owned(),
                change: format!("./{} was {}", change.path, word(change.kind)),
            });
        }
        let end = if self.to == "." { "" } else { self.to };
        let changes = self.spared.without(changes(source, at, self.from, end)?);
        let root = match end {
            "" => at.clone(),
            snapshot => at.below(&format!("{SNAPSHOTS}/{snapshot}")),
        };
        let (mut entries, copies) = (Vec::new(), copies(&changes));
        let created = copies.iter().filter(|(_, whole)| *whole).map(|(path, _)| path.as_str());
        let plan = Plan::of(&changes, created);
        for (relative, whole) in copies {
            let path = root.below(&relative);
            let status = source.status(&path.path).map_err(file("look for", &path))?;
            let Some(status) = status else { continue };
            let is_directory = status.directory;
            let is_told = !relative.is_empty() && walk.filters.wants(&path);
            let entry = Entry::new(path, relative, status);
            if whole && is_directory {
                entries.extend(walk.below(source, &entry)?);
            }
            entries.extend(is_told.then_some(entry));
        }
        // Of two, the one that could not be listed: nothing is made of it.
        entries.sort_by(|left, right| {
            let key = |entry: &Entry| entry.unread.is_none();
            left.relative.cmp(&right.relative).then(key(left).cmp(&key(right)))
        });
        entries.dedup_by(|left, right| left.relative == right.relative);
        // When all is known that the source can refuse.
        shift(target, to, self.id, &plan)?;
        Ok(entries)
    }
}

fn word(kind: DiffKind) -> &'static str {
    match kind {
        DiffKind::Created => "created",
        DiffKind::Deleted => "deleted",
        DiffKind::Modified => "modified",
        DiffKind::Renamed => "renamed",
    }
}

/// What is to be copied, by its path after the renames, and whether with all that is below.
fn copies(changes: &[DiffEntry]) -> Vec<(String, bool)> {
    let renames: Vec<(&str, &str)> = changes
        .iter()
        .filter(|change| change.kind == DiffKind::Renamed)
        .filter_map(|change| Some((change.path.as_str(), change.target.as_deref()?)))
        .collect();
    let now = |change: &DiffEntry| {
        let path = change.path.as_str();
        let moved = renames.iter().filter_map(|(from, to)| {
            let rest = path.strip_prefix(from)?;
            // Of the same path a new file is another one than the renamed.
            let is_it = rest.is_empty() && change.kind == DiffKind::Modified;
            (is_it || rest.starts_with('/')).then(|| (from.len(), format!("{to}{rest}")))
        });
        moved.max().map_or(path.to_owned(), |(_, path)| path)
    };
    changes
        .iter()
        .filter(|change| matches!(change.kind, DiffKind::Created | DiffKind::Modified))
        .map(|change| (now(change), change.kind == DiffKind::Created))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(text: &str) -> DiffEntry {
        let mut words = text.split(' ');
        let kind = match words.next() {
            Some("+") => DiffKind::Created,
            Some("-") => DiffKind::Deleted,
            Some("M") => DiffKind::Modified,
            _ => DiffKind::Renamed,
        };
        let path = words.next().unwrap_or_default().to_owned();
        DiffEntry { kind, path, target: words.next().map(str::to_owned) }
    }

    #[test]
    fn what_is_copied() {
        let changes =
            ["M ", "R a b", "M a", "M a/x", "+ a/new", "+ a", "- d/e/f", "R d/e d/g", "- d"]
                .map(change);
        let copied = copies(&changes);
        let expected = [("", false), ("b", false), ("b/x", false), ("b/new", true), ("a", true)];
        assert_eq!(copied, expected.map(|(path, whole)| (path.to_owned(), whole)));
    }
}
