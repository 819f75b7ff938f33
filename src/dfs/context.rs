//! The tools of every shell command: the NameNode, the arguments, the properties, standard output.

use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use client::interrupt::Undisturbed;
use protocol::glob;
use protocol::namenode::FileStatus;

use super::args::Parsed;
use super::fs::{
    Failure, Item, Named, Problem, Resolver, Store, WriteOptions, alternatives, text_of,
};
use super::properties::Properties;
use crate::output::{Buffered, report};

/// One run of one command.
pub(crate) struct Context {
    /// Name without dash, for messages.
    pub(crate) command: &'static str,
    /// The file systems.
    pub(crate) store: Store,
    /// Turns operands into paths.
    pub(crate) resolver: Resolver,
    /// The arguments.
    pub(crate) args: Parsed,
    /// The properties from `-D`.
    pub(crate) properties: Properties,
    failed: AtomicBool,
}

impl Context {
    pub(crate) fn new(
        command: &'static str,
        store: Store,
        resolver: Resolver,
        args: Parsed,
        properties: Properties,
    ) -> Self {
        let failed = AtomicBool::new(false);
        Context { command, store, resolver, args, properties, failed }
    }

    /// Prints a failure; the command continues and ends with exit code 1. Any thread may call it.
    pub(crate) fn report(&self, failure: &Failure) {
        self.failed.store(true, Ordering::Relaxed);
        if !matches!(failure, Failure::ReaderLeft) {
            report!("{}: {failure}", self.command);
        }
    }

    /// Unwraps an outcome; reports a failure, and the command continues.
    ///
    /// # Errors
    /// [`Failure::ReaderLeft`], and text that is not a path.
    pub(crate) fn reported<T>(&self, outcome: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match outcome {
            Ok(found) => Ok(Some(found)),
            Err(failure @ (Failure::ReaderLeft | Failure::Usage(_))) => Err(failure),
            Err(failure) => {
                self.report(&failure);
                Ok(None)
            }
        }
    }

    /// Ends the command with exit code 1 without a message.
    pub(crate) fn set_failed(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// True once something failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Expands `operands` and calls `each` on every match; reports failures, which do not stop the rest.
    ///
    /// # Errors
    /// [`Failure::ReaderLeft`], and text that is not a path.
    pub(crate) fn for_each(
        &self,
        operands: &[OsString],
        mut each: impl FnMut(Item) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for operand in operands {
            for item in self.reported(self.expand(operand))?.unwrap_or_default() {
                self.reported(each(item))?;
            }
        }
        Ok(())
    }

    /// Creates an empty file, or truncates the existing one.
    pub(crate) fn create_empty(&self, named: &Named) -> Result<(), Failure> {
        self.store.create(named, &self.empty(true))?.close(Undisturbed::now())
    }

    /// Creates an empty file unless something is there, perhaps since just now.
    pub(crate) fn create_missing(&self, named: &Named) -> Result<(), Failure> {
        match self.store.create(named, &self.empty(false)) {
            Err(failure) if failure.problem() == Some(&Problem::Exists) => Ok(()),
            created => created?.close(Undisturbed::now()),
        }
    }

    fn empty(&self, overwrite: bool) -> WriteOptions {
        WriteOptions {
            publish_as: None,
            overwrite,
            umask: self.properties.umask,
            replication: self.properties.replication,
            block_size: self.properties.block_size,
        }
    }

    /// The paths that an operand names: all matches of a glob, otherwise the one path, which must exist. What is no text is no glob.
    pub(crate) fn expand(&self, operand: &OsString) -> Result<Vec<Item>, Failure> {
        if let Some(named) = self.resolver.resolve_bytes(operand)? {
            let status = self.store.status(&named)?;
            return Ok(vec![Item { named, status }]);
        }
        let text = text_of(operand)?;
        let items = self.matches(text)?;
        if !items.is_empty() {
            return Ok(items);
        }
        let named = self.single(text)?;
        let status = self.store.status(&named)?;
        Ok(vec![Item { named, status }])
    }

    /// Like [`Context::expand`] for paths that need not exist.
    pub(crate) fn expand_any(&self, operand: &OsString) -> Result<Vec<Named>, Failure> {
        let text = text_of(operand)?;
        let items = self.matches(text)?;
        if !items.is_empty() {
            return Ok(items.into_iter().map(|item| item.named).collect());
        }
        Ok(vec![self.single(text)?])
    }

    /// The one path that a text without matches names; a pattern names none.
    fn single(&self, text: &str) -> Result<Named, Failure> {
        if glob::is_pattern(text) {
            self.resolver.accept(text)?;
            return Err(Failure::missing(text));
        }
        self.resolver.resolve(&glob::unquoted(text))
    }

    /// The paths that several operands name, in order; a missing one is reported when its turn comes.
    ///
    /// # Errors
    /// Text that is not a path.
    pub(crate) fn expand_all(
        &self,
        operands: &[OsString],
    ) -> Result<Vec<Result<Item, Failure>>, Failure> {
        let mut items = Vec::new();
        for operand in operands {
            match self.expand(operand) {
                Ok(found) => items.extend(found.into_iter().map(Ok)),
                Err(failure @ Failure::Usage(_)) => return Err(failure),
                Err(failure) => items.push(Err(failure)),
            }
        }
        Ok(items)
    }

    /// The matches of a glob, in order; nothing for an operand that is not a glob.
    fn matches(&self, text: &str) -> Result<Vec<Item>, Failure> {
        let mut items = Vec::new();
        if glob::is_glob(text) {
            for alternative in alternatives(text)? {
                self.match_elements(&alternative, &mut items)?;
            }
            items.sort_by(|a, b| a.named.path.cmp(&b.named.path));
            items.dedup_by(|a, b| a.named.path == b.named.path);
        }
        Ok(items)
    }

    /// Walks the elements of one brace-free glob.
    fn match_elements(&self, text: &str, found: &mut Vec<Item>) -> Result<(), Failure> {
        let typed = self.resolver.accept(text)?;
        let start = if typed.path.starts_with('/') || typed.scheme.is_some() { "/" } else { "" };
        let top = format!("{}{start}", typed.prefix);
        let top = self.resolver.resolve(if top.is_empty() { "." } else { &top })?;
        let mut here = vec![Candidate { named: top, status: None }];
        for element in typed.path.split('/').filter(|element| !element.is_empty()) {
            let pattern = glob::Pattern::new(element);
            let mut next = Vec::new();
            for Candidate { named: directory, status } in here {
                if status.as_ref().is_some_and(|status| !status.directory) {
                    continue;
                }
                let unseen = |named| Candidate { named, status: None };
                match pattern.literal() {
                    Some(name) if name == "." || name == ".." => {
                        let text = format!("{}/{name}", directory.typed);
                        next.push(unseen(self.resolver.resolve(&text)?));
                    }
                    Some(name) => next.extend(directory.child(&name).ok().map(unseen)),
                    None => self.matching_children(&directory, status, &pattern, &mut next)?,
                }
            }
            here = next;
        }
        for Candidate { named, status } in here {
            let status = if status.is_some() { status } else { self.find_match(&named)? };
            found.extend(status.map(|status| Item { named, status }));
        }
        Ok(())
    }

    /// What is at a path that a pattern leads to: below a file there is nothing.
    fn find_match(&self, named: &Named) -> Result<Option<FileStatus>, Failure> {
        match self.store.find(named) {
            Err(Failure::FileAbove(_)) => Ok(None),
            found => found,
        }
    }

    fn matching_children(
        &self,
        directory: &Named,
        status: Option<FileStatus>,
        pattern: &glob::Pattern,
        next: &mut Vec<Candidate>,
    ) -> Result<(), Failure> {
        let status = if status.is_some() { status } else { self.find_match(directory)? };
        if !status.is_some_and(|status| status.directory) {
            return Ok(());
        }
        self.store.list(directory, |page| {
            for entry in page.into_iter().filter(|entry| pattern.matches(&entry.name)) {
                next.push(Candidate { named: directory.child(&entry.name)?, status: Some(entry) });
            }
            Ok(())
        })
    }
}

/// A possible match of a glob, with its status if a listing included it: asking again for each of many matches takes long.
struct Candidate {
    named: Named,
    status: Option<FileStatus>,
}

/// Standard output, with errors as [`Failure`].
pub(crate) struct Screen {
    out: Buffered,
}

impl Screen {
    /// # Errors
    /// As [`Buffered::new`].
    pub(crate) fn new() -> Result<Self, Failure> {
        let out = Buffered::new().map_err(Failure::output)?;
        Ok(Screen { out })
    }

    /// Prints one line.
    pub(crate) fn line(&mut self, text: fmt::Arguments<'_>) -> Result<(), Failure> {
        self.out.line(text).map_err(Failure::output)
    }

    /// Prints without ending the line.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), Failure> {
        self.out.text(text).map_err(Failure::output)
    }

    /// Prints what somebody stored beside a file; it may not be text.
    pub(crate) fn value(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self.out.is_terminal() {
            true => self.print(&String::from_utf8_lossy(bytes)),
            false => self.bytes(bytes),
        }
    }

    /// Writes the bytes of a file unchanged. Large slices are not copied.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.bytes(bytes).map_err(Failure::output)
    }

    /// Flushes the buffer.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::output)
    }
}
