//! The archive under way: every text passes the scrub on its way in, and what could not be had is noted.

use std::io::{self, Write};

use anyhow::{Context, Result};

use super::archive::Archive;
use super::scrub::{Kind, Scrub};
use crate::connect::describe;

/// The archive, and what it lacks.
pub(super) struct Bundle<W: Write> {
    archive: Archive<W>,
    scrub: Scrub,
    count: usize,
    missing: Vec<String>,
}

impl<W: Write> Bundle<W> {
    pub(super) fn new(archive: Archive<W>, scrub: Scrub) -> Self {
        Bundle { archive, scrub, count: 0, missing: Vec::new() }
    }

    /// Packs a text; one that could not be had is noted.
    ///
    /// # Errors
    /// Those of writing the archive.
    pub(super) fn add(&mut self, name: &str, kind: Kind, text: Result<String>) -> Result<()> {
        match text {
            Ok(text) => {
                let text = self.scrub.text(&text, kind);
                match self.archive.add(name, text.as_bytes()) {
                    Ok(()) => self.count += 1,
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                        self.lacks(name, "its name or its size does not fit into an archive");
                    }
                    Err(error) => return Err(error).context("cannot write the archive"),
                }
            }
            Err(error) => self.lacks(name, &describe(error.as_ref())),
        }
        Ok(())
    }

    /// Notes what could not be had.
    pub(super) fn lacks(&mut self, name: &str, why: &str) {
        self.missing.push(format!("{name}: {why}"));
    }

    /// Adds what is missing, and ends the archive: what it was written to, the number of its files, and what is missing.
    ///
    /// # Errors
    /// Those of writing the archive.
    pub(super) fn finish(mut self) -> Result<(W, usize, Vec<String>)> {
        let missing: String = self.missing.iter().map(|line| format!("{line}\n")).collect();
        self.add("missing.txt", Kind::Log, Ok(missing))?;
        let out = self.archive.finish().context("cannot write the archive")?;
        Ok((out, self.count, self.missing))
    }
}
