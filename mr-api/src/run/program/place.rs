//! Where the plans of a program run, and where their intermediate outputs lie.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use client::interrupt::Unfinished;
use mr_model::runner::{Scratch, say};
use mr_model::{Error, Result};
use protocol::error::chain;

use crate::run::driver::ran::Output;
use crate::run::local::{LocalRunner, undo};
use crate::run::session::Session;

/// See the module.
pub(super) enum Place {
    /// In this process; intermediate outputs lie in a directory that is made when one is needed.
    Here {
        runner: Box<LocalRunner>,
        scratch: Mutex<Option<(Scratch, Unfinished)>>,
        next: AtomicU64,
    },
    Cluster(Box<Session>),
}

impl Place {
    pub(super) fn here(runner: LocalRunner) -> Self {
        let (scratch, next) = Default::default();
        Place::Here { runner: Box::new(runner), scratch, next }
    }

    /// A new place for an intermediate output in this process.
    pub(super) fn kept(&self) -> Result<PathBuf> {
        let Place::Here { scratch, next, .. } = self else { return Ok(PathBuf::new()) };
        let mut scratch = scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let scratch = match &mut *scratch {
            Some(scratch) => scratch,
            none => {
                let scratch = Scratch::new("program")?;
                let unfinished = undo::directory(scratch.path());
                none.insert((scratch, unfinished))
            }
        };
        Ok(scratch.0.path().join(format!("kept-{}", next.fetch_add(1, Ordering::Relaxed))))
    }

    /// Deletes an intermediate output.
    pub(super) fn forget(&self, output: &Output) {
        match (self, output) {
            (Place::Cluster(session), Output::Cluster(path)) => session.forget(path),
            (_, Output::Machine(path)) => {
                if let Err(error) = std::fs::remove_dir_all(path) {
                    let error = Error::file("remove", path)(error);
                    say(format_args!("{}\n", chain(&error)));
                }
            }
            (Place::Here { .. }, Output::Cluster(_)) => {}
        }
    }
}
