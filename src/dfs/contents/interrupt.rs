//! What a signal does to files that are being written: a half-written file is deleted, and one that is appended to is closed at its present length
//! ([`client::interrupt`]).
//!
//! Whoever creates a temporary file or appends holds a [`Temporary`] for it. A file of the cluster is ended by its inode, under this process's lease: what others
//! have put at its path meanwhile is not touched.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::OnceLock;

use client::interrupt::{self, Undisturbed, Unfinished};

use crate::dfs::fs::{Failure, FsPath, Named, Store, Writer};
use crate::output::report;

/// Where files are ended; there before any signal is handled.
static STORE: OnceLock<Store> = OnceLock::new();

/// A file that is cleaned up if the user interrupts while this lives.
#[derive(Debug)]
pub(super) struct Temporary {
    unfinished: Unfinished,
    place: FsPath,
    keep: bool,
}

impl Temporary {
    /// A new file at `place`, which an interrupt deletes.
    pub(super) fn new(place: FsPath) -> Self {
        let what = what(&place);
        let unfinished = match &place {
            // Only its writer knows its name.
            FsPath::Machine(_) => {
                let named = Named { typed: place.to_string(), path: place.clone() };
                let delete = move |store: &Store| store.delete(&named, false).map(drop);
                Unfinished::new(what, Box::new(|| end(delete)))
            }
            FsPath::Cluster(_) => Unfinished::beginning(what),
        };
        Temporary { unfinished, place, keep: false }
    }

    /// A file at `place`, which an interrupt closes.
    pub(super) fn appended(place: FsPath) -> Self {
        Temporary { unfinished: Unfinished::beginning(what(&place)), place, keep: true }
    }

    /// Its file is open; without this, an interrupt leaves it to the end of its lease.
    pub(super) fn opened(&self, writer: &Writer) {
        let Some(file) = writer.inode() else { return };
        let named = Named { typed: self.place.to_string(), path: self.place.clone() };
        let keep = self.keep;
        let abandon = move |store: &Store| store.abandon(&named, file, keep);
        self.unfinished.begun(Box::new(|| end(abandon)));
    }
}

/// What a copy reads, which says what its end means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Input {
    /// A file: all of it was there.
    Stored,
    /// A pipe, a terminal, a socket: it ends when whoever writes into it does, also by a signal that ends this process, too.
    Passing,
}

impl Input {
    /// A source of the cluster or of this machine.
    pub(super) fn at(place: &FsPath) -> Self {
        Input::of(place.machine().is_none_or(Path::is_file))
    }

    /// A file that is open.
    pub(super) fn opened(file: &File) -> Self {
        // Nobody knows: then it may be a pipe.
        Input::of(file.metadata().is_ok_and(|metadata| metadata.is_file()))
    }

    /// Of several sources, in order.
    pub(super) fn of_all(inputs: impl IntoIterator<Item = Input>) -> Self {
        Input::of(inputs.into_iter().all(|input| input == Input::Stored))
    }

    /// Standard input.
    pub(super) fn standard() -> Self {
        let owned = io::stdin().as_fd().try_clone_to_owned();
        owned.map_or(Input::Passing, |input| Input::opened(&File::from(input)))
    }

    fn of(is_file: bool) -> Self {
        if is_file { Input::Stored } else { Input::Passing }
    }

    /// Its end is there. Leave to complete what was written; after a signal, this waits for the end of the process.
    pub(super) fn ended(self) -> Undisturbed {
        match self {
            Input::Stored => Undisturbed::now(),
            Input::Passing => Undisturbed::behind_a_pipe(),
        }
    }
}

fn what(place: &FsPath) -> String {
    format!("the writing of {place}")
}

fn end(undo: impl FnOnce(&Store) -> Result<(), Failure>) -> interrupt::Undone {
    let Some(store) = STORE.get() else { return Err("no file was to be written".into()) };
    undo(store).map_err(|failure| failure.to_string().into())
}

/// From now on, a signal cleans up and ends the process.
///
/// # Errors
/// If the system refuses the handlers.
pub(super) fn watch(store: &Store) -> Result<(), Failure> {
    STORE.get_or_init(|| store.clone());
    let fail = |error: io::Error| Failure::Text(format!("cannot handle signals: {error}"));
    interrupt::watch(|text| report!("hanno: {text}")).map_err(fail)
}
