//! What `-diff` moves and deletes in the target: all of it or nothing.
//!
//! ```text
//! .distcp.diff.tmp.ID/plan     all steps, written first
//!                     0, 1, …  what has left its place: deleted or renamed, the deepest first
//!                     placing  all has left; from now on new places are filled, the highest first
//! ```
//!
//! Invariants: as long as the directory is there, all can be put back, which an error does at once and after a crash the next run; that it is deleted is the last
//! step, and with it goes what the source has deleted.

use std::io::{Read, Write};

use protocol::namenode::{DiffEntry, DiffKind};
use serde::{Deserialize, Serialize};

use crate::error::{Error, PlaceError, Result};
use crate::places::{Files, Location, NewFile, file};

/// How the directory of a run begins; its end is different for each.
const PREFIX: &str = ".distcp.diff.tmp.";

/// Something that is no longer where it was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Move {
    from: String,
    /// `None` if it is gone.
    to: Option<String>,
}

/// How a new place is filled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Step {
    /// A directory that the source has made.
    Make(String),
    /// One of the moves ends here.
    Place(usize, String),
}

impl Step {
    fn path(&self) -> &str {
        match self {
            Step::Make(path) | Step::Place(_, path) => path,
        }
    }
}

/// All steps.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The deepest first.
    moves: Vec<Move>,
    /// The highest first.
    steps: Vec<Step>,
}

fn depth(path: &str) -> usize {
    path.matches('/').count()
}

impl Plan {
    /// What changes ask for; `created` are the paths of what is new, after all renames.
    pub(crate) fn of<'a>(changes: &[DiffEntry], created: impl Iterator<Item = &'a str>) -> Self {
        let mut moves: Vec<Move> = changes
            .iter()
            .filter(|change| matches!(change.kind, DiffKind::Deleted | DiffKind::Renamed))
            .map(|change| Move { from: change.path.clone(), to: change.target.clone() })
            .collect();
        moves.sort_by_key(|item| (std::cmp::Reverse(depth(&item.from)), item.from.clone()));
        let placed = moves.iter().enumerate();
        let mut steps: Vec<Step> = placed
            .filter_map(|(number, item)| Some(Step::Place(number, item.to.clone()?)))
            .collect();
        let leads_to = |above: &str, step: &Step| {
            step.path().strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
        };
        let made = created.filter(|path| steps.iter().any(|step| leads_to(path, step)));
        let made: Vec<Step> = made.map(|path| Step::Make(path.to_owned())).collect();
        steps.extend(made);
        steps.sort_by_key(|step| (depth(step.path()), step.path().to_owned()));
        Plan { moves, steps }
    }
}

/// Does all that is planned in the target.
pub(crate) fn shift(files: &dyn Files, target: &Location, id: &str, plan: &Plan) -> Result<()> {
    if plan.moves.is_empty() {
        return Ok(());
    }
    let aside = Aside { files, target, directory: target.below(&format!("{PREFIX}{id}")) };
    aside.run(plan).map_err(|error| match aside.put_back() {
        Ok(()) => error,
        Err(_) => aside.left(error),
    })
}

/// Puts back what earlier runs have moved that did not end.
pub(crate) fn recover(files: &dyn Files, target: &Location) -> Result<()> {
    for entry in files.list(&target.path).map_err(file("list", target))? {
        if entry.directory && entry.name.starts_with(PREFIX) {
            let aside = Aside { files, target, directory: target.below(&entry.name) };
            aside.put_back().map_err(|error| aside.left(error))?;
        }
    }
    Ok(())
}

/// The directory of a run.
struct Aside<'a> {
    files: &'a dyn Files,
    target: &'a Location,
    directory: Location,
}

impl Aside<'_> {
    fn plan(&self) -> Location {
        self.directory.below("plan")
    }

    fn placing(&self) -> Location {
        self.directory.below("placing")
    }

    fn place(&self, number: usize) -> Location {
        self.directory.below(&number.to_string())
    }

    /// The error of what could be neither done nor put back.
    fn left(&self, error: Error) -> Error {
        Error::Aside { directory: self.directory.to_string(), source: Box::new(error) }
    }

    fn run(&self, plan: &Plan) -> Result<()> {
        self.make(&self.directory)?;
        self.write(&self.plan(), &serde_json::to_vec(plan).map_err(Error::List)?)?;
        for (number, item) in plan.moves.iter().enumerate() {
            self.rename(&self.target.below(&item.from), &self.place(number))?;
        }
        self.write(&self.placing(), b"")?;
        for step in &plan.steps {
            let to = self.target.below(step.path());
            match step {
                Step::Make(_) => self.make(&to)?,
                Step::Place(number, _) => {
                    self.make(&to.parent())?;
                    self.rename(&self.place(*number), &to)?;
                }
            }
        }
        self.delete(&self.directory)
    }

    /// Undoes all that was done. It can be interrupted, too, and then be done again.
    fn put_back(&self) -> Result<()> {
        let Some(plan) = self.read()? else {
            // Nothing moves before the plan is written: only its directory is there, perhaps with the beginning of it.
            let entries = self.files.list(&self.directory.path);
            let is_ours = |name: &str| name == self.plan().name();
            let entries = entries.map_err(file("list", &self.directory))?;
            if entries.iter().any(|entry| !is_ours(&entry.name)) {
                return Err(Error::NoPlan { path: self.plan().to_string() });
            }
            return self.delete(&self.directory);
        };
        if self.is_there(&self.placing())? {
            for step in plan.steps.iter().rev() {
                let at = self.target.below(step.path());
                match step {
                    Step::Make(_) => self.unmake(&at)?,
                    Step::Place(number, _) if !self.is_there(&self.place(*number))? => {
                        self.rename(&at, &self.place(*number))?;
                    }
                    Step::Place(..) => {}
                }
            }
            self.delete(&self.placing())?;
        }
        for (number, item) in plan.moves.iter().enumerate().rev() {
            if self.is_there(&self.place(number))? {
                self.rename(&self.place(number), &self.target.below(&item.from))?;
            }
        }
        self.delete(&self.directory)
    }

    /// Deletes a directory that was made; what somebody has put there meanwhile stays, and is an error.
    fn unmake(&self, at: &Location) -> Result<()> {
        if !self.is_there(at)? {
            return Ok(());
        }
        match self.files.list(&at.path).map_err(file("list", at))?.is_empty() {
            true => self.delete(at),
            false => Err(Error::NotEmpty { path: at.to_string() }),
        }
    }

    /// `None` if it is not there or not whole.
    fn read(&self) -> Result<Option<Plan>> {
        let at = self.plan();
        if !self.is_there(&at)? {
            return Ok(None);
        }
        let mut text = Vec::new();
        let mut reader = self.files.open(&at.path, 0).map_err(file("open", &at))?;
        reader.read_to_end(&mut text).map_err(PlaceError::Machine).map_err(file("read", &at))?;
        Ok(serde_json::from_slice(&text).ok())
    }

    fn write(&self, at: &Location, bytes: &[u8]) -> Result<()> {
        let new = NewFile { overwrite: true, ..NewFile::default() };
        let mut writer = self.files.create(&at.path, new).map_err(file("create", at))?;
        writer.write_all(bytes).map_err(PlaceError::Machine).map_err(file("write", at))?;
        writer.finish().map_err(file("write", at))
    }

    fn is_there(&self, at: &Location) -> Result<bool> {
        Ok(self.files.status(&at.path).map_err(file("look for", at))?.is_some())
    }

    fn make(&self, at: &Location) -> Result<()> {
        self.files.make_directories(&at.path).map_err(file("make the directory", at))
    }

    fn rename(&self, from: &Location, to: &Location) -> Result<()> {
        self.files.rename(&from.path, &to.path).map_err(file("rename", from))
    }

    fn delete(&self, at: &Location) -> Result<()> {
        self.files.delete(&at.path).map_err(file("delete", at)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::places::double::Double;

    fn change(kind: DiffKind, path: &str, target: Option<&str>) -> DiffEntry {
        DiffEntry { kind, path: path.to_owned(), target: target.map(str::to_owned) }
    }

    /// Two files change their names, a directory goes into a new one of a renamed one, and the rest of what it was in is deleted.
    fn plan() -> Plan {
        let renamed = |from, to| change(DiffKind::Renamed, from, Some(to));
        let deleted = |path| change(DiffKind::Deleted, path, None);
        let changes = [
            renamed("a", "b"),
            change(DiffKind::Created, "a/new", None),
            renamed("d/e", "b/new/e"),
            deleted("d/e/f"),
            deleted("d"),
            renamed("s1", "s2"),
            renamed("s2", "s1"),
        ];
        Plan::of(&changes, ["b/new", "later"].into_iter())
    }

    fn target() -> (tempfile::TempDir, Location) {
        let scratch = tempfile::tempdir().unwrap();
        for path in ["a/x", "d/e/f", "d/e/g", "d/k", "s1", "s2"] {
            let file = scratch.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, path).unwrap();
        }
        let at = Location::of_test(scratch.path());
        (scratch, at)
    }

    /// Files with what is in them, and empty directories.
    fn tree(root: &Path) -> BTreeMap<String, String> {
        let (mut all, mut left) = (BTreeMap::new(), vec![root.to_owned()]);
        while let Some(at) = left.pop() {
            let name = at.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if at.is_file() {
                all.insert(name, fs::read_to_string(at).unwrap());
                continue;
            }
            let before = left.len();
            left.extend(fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path()));
            if left.len() == before {
                all.insert(name, String::new());
            }
        }
        all
    }

    #[test]
    fn what_moves_and_in_which_order() {
        let plan = plan();
        let from: Vec<&str> = plan.moves.iter().map(|item| item.from.as_str()).collect();
        assert_eq!(from, ["d/e/f", "d/e", "a", "d", "s1", "s2"]);
        let steps: Vec<&str> = plan.steps.iter().map(Step::path).collect();
        assert_eq!(steps, ["b", "s1", "s2", "b/new", "b/new/e"]);
    }

    #[test]
    fn wherever_it_is_interrupted_the_next_run_puts_all_back() {
        for works in 0.. {
            let (scratch, at) = target();
            let before = tree(scratch.path());
            match shift(&Double::that_works(works), &at, "1", &plan()) {
                Ok(()) => {
                    let after = tree(scratch.path()).into_iter();
                    let after: Vec<String> =
                        after.map(|(path, text)| format!("{path} {text}")).collect();
                    assert_eq!(after, ["b/new/e/g d/e/g", "b/x a/x", "s1 s2", "s2 s1"]);
                    assert!(works > 15, "{works}");
                    return;
                }
                Err(error) => {
                    assert!(protocol::error::chain(&error).contains(&format!("{PREFIX}1")));
                }
            }
            // What puts it back is interrupted as often as it has steps.
            let mut steps = 0..;
            while recover(&Double::that_works(steps.next().unwrap()), &at).is_err() {}
            assert_eq!(tree(scratch.path()), before, "{works}");
        }
    }

    #[test]
    fn an_error_leaves_the_target_as_it_was() {
        let (scratch, at) = target();
        let before = tree(scratch.path());
        let lost = Move { from: "lost".to_owned(), to: Some("found".to_owned()) };
        let mut plan = plan();
        plan.moves.push(lost);
        let error = shift(&Double::default(), &at, "1", &plan).unwrap_err();
        assert!(matches!(error, Error::File { what: "rename", .. }), "{error}");
        assert_eq!(tree(scratch.path()), before);
        // Something of somebody else's.
        fs::create_dir_all(scratch.path().join(format!("{PREFIX}2/0"))).unwrap();
        let error = recover(&Double::default(), &at).unwrap_err();
        assert!(error.to_string().contains(&format!("{PREFIX}2")), "{error}");
    }
}
