//! Makes a journal start again that refuses to, at the price of what its log has lost.
//!
//! A state can be restored up to the first record that is in no copy of the log. What comes after that is given up, even if it can be read:
//! it was made from a state that nobody has any more. [`Repair::plan`] works this out and changes nothing; [`Repair::apply`] does it.
//!
//! Invariants:
//! - nothing is deleted: what is given up stays as `*.bad-<n>`;
//! - nothing is given up that a start could still restore;
//! - interrupted anywhere, it can be run again, and a start before that refuses as before or loses nothing more.

use std::path::{Path, PathBuf};

use sys::fs::LockFile;

use crate::admin::{Survey, survey};
use crate::chain::{Copy, RecordFn};
use crate::disk::{keep_aside, publish, put_aside};
use crate::error::{JournalError, chain as error_chain};
use crate::home::Home;
use crate::home::mark::{self, Mark, Start};
use crate::id::{Epoch, Txid};
use crate::options::Options;
use crate::recover;
use crate::segment::{self, Header};

/// Consecutive records that are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The first of them.
    pub from: Txid,
    /// The last of them; `None` if nobody knows how many there were, or whether there were any.
    pub to: Option<Txid>,
    /// Whether they can be read.
    pub is_readable: bool,
}

/// What would be done to a journal; holds its lock.
pub struct Repair {
    survey: Survey,
    /// The checkpoint or image that the next start begins from.
    base: Txid,
    /// The state up to this record can be restored.
    kept: Txid,
    given_up: Vec<GivenUp>,
    _lock: LockFile,
}

impl Repair {
    /// Examines the journal and decides. Nothing is changed, except what sled itself needs to be opened.
    ///
    /// # Errors
    /// [`JournalError`] if the journal is in use or cannot be read.
    pub fn plan(options: &Options) -> Result<Repair, JournalError> {
        crate::admin::demand_journal(options)?;
        let lock = crate::take_lock(&options.dir)?;
        let survey = survey(options)?;
        let (base, kept) = survey.reach();
        let given_up = given_up(&survey, kept);
        Ok(Repair { survey, base, kept, given_up, _lock: lock })
    }

    /// The last record of the state that the next start restores.
    pub fn kept(&self) -> Txid {
        self.kept
    }

    /// The checkpoint or image from which it does so.
    pub fn base(&self) -> Txid {
        self.base
    }

    /// What is wrong, one line each.
    pub fn problems(&self) -> &[String] {
        &self.survey.problems
    }

    /// What it gives up, in order; nothing if the journal starts without help.
    pub fn given_up(&self) -> &[GivenUp] {
        &self.given_up
    }

    /// Passes on the records that are given up although they can be read.
    ///
    /// # Errors
    /// The error of `see`; [`JournalError`] if they cannot be read after all.
    pub fn readable(&self, see: &mut RecordFn<'_>) -> Result<(), JournalError> {
        self.survey.chain.replay(&*self.survey.places.disk, self.kept, see)
    }

    /// Makes the journal start from what is kept; returns what was done, one line each.
    ///
    /// # Errors
    /// [`JournalError`]: then nothing is lost, and it can be tried again.
    pub fn apply(self) -> Result<Vec<String>, JournalError> {
        let Survey { places, homes, chain, .. } = &self.survey;
        let mut done = Vec::new();
        if self.given_up.is_empty() {
            let mut left_out = Vec::new();
            recover::heal(&*places.disk, homes, chain, &mut left_out, &mut done)?;
            done.extend(left_out.into_iter().map(|out| format!("left out {out}")));
            return Ok(done);
        }
        // The next start puts aside what is not believed, and fills the directory.
        let believed = homes.iter().enumerate().filter(|(index, _)| homes.is_believed(*index));
        for (index, home) in believed {
            match self.give_up_in(home, index, &mut done) {
                Ok(()) => {}
                Err(error) if index == 0 => return Err(error),
                Err(error) => {
                    done.push(format!("left out {}: {}", home.dir.display(), error_chain(&error)));
                }
            }
        }
        done.push(format!("the log ends at record {}", self.kept));
        Ok(done)
    }

    fn give_up_in(
        &self,
        home: &Home,
        index: usize,
        done: &mut Vec<String>,
    ) -> Result<(), JournalError> {
        let Survey { places, homes, chain, .. } = &self.survey;
        let disk = &*places.disk;
        for (applied, path) in home.images.iter().filter(|(applied, _)| *applied > self.kept) {
            let dir = path.parent().expect("images are in a directory");
            let aside = put_aside(disk, dir, &crate::image::file_name(*applied))?;
            done.push(format!("moved {} to {}", path.display(), aside.display()));
        }
        let next = self.kept.next();
        let dir: &Path = &chain.dirs[index].path;
        // The newest first: the log never shows a hole that was not there.
        for segment in chain.segments.iter().rev() {
            let name = segment::file_name(segment.first);
            let is_absent = matches!(segment.copies[index], Copy::Missing | Copy::Pruned);
            if is_absent || segment.scan.reach() <= self.kept {
                continue;
            }
            let aside = if segment.first >= next {
                put_aside(disk, dir, &name)?
            } else {
                keep_aside(disk, dir, &name)?
            };
            done.push(format!("kept {} as {}", dir.join(&name).display(), aside.display()));
        }
        let marked = homes.found().mark().map_or(Epoch(0), |mark| mark.epoch);
        let epoch = marked.max(chain.epoch());
        // A segment that begins here means that nothing after it in older ones counts.
        let header = Header { first: next, epoch }.encode();
        publish(disk, dir, &segment::file_name(next), |file| file.append(&header))?;
        // A mirror that is away has what is given up here: it no longer belongs to this journal.
        let starts = homes.starts().turned(Start { epoch, nonce: places.nonce });
        mark::write(disk, &home.dir, Mark { epoch, last: self.kept, is_closed: true }, &starts)
    }

    /// The journal's directory.
    pub fn dir(&self) -> PathBuf {
        self.survey.places.dir.clone()
    }
}

/// What a state as of `kept` lacks of what was in the log.
fn given_up(survey: &Survey, kept: Txid) -> Vec<GivenUp> {
    let (chain, proof) = (&survey.chain, survey.proof());
    if survey.start_from().is_ok() {
        return Vec::new();
    }
    let mut out = Vec::new();
    let mut next = kept.next();
    let readable = |from: Txid, to: Txid, out: &mut Vec<GivenUp>| {
        if from <= to {
            out.push(GivenUp { from, to: Some(to), is_readable: true });
        }
    };
    let end = survey.closed_end();
    let torn = chain.torn.iter().filter(|torn| torn.from <= proof.last());
    for hole in chain.holes.iter().chain(torn).filter(|hole| hole.to > kept) {
        readable(next, Txid(hole.from.0 - 1), &mut out);
        let to = if hole.to == Txid::MAX { end } else { Some(hole.to) };
        out.push(GivenUp { from: hole.from.max(next), to, is_readable: false });
        let Some(to) = to else { return out };
        next = to.next();
    }
    readable(next, chain.last(), &mut out);
    next = next.max(chain.last().next());
    match end {
        Some(end) if end >= next => {
            out.push(GivenUp { from: next, to: Some(end), is_readable: false });
        }
        // The log has lost its end, and nobody knows how much that was.
        None if chain.known_last() < proof.last() || chain.epoch() < proof.epoch() => {
            out.push(GivenUp { from: next, to: None, is_readable: false });
        }
        Some(_) | None => {}
    }
    if out.is_empty() {
        out.push(GivenUp { from: next, to: None, is_readable: false });
    }
    out
}
