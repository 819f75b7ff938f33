//! Copies one file or directory, in a map.
//!
//! ```text
//! source ─► same as the target? ─► skipped
//!                │ no
//!                ├─► -append: the target is its beginning ─► the rest at its end
//!                └─► temporary file ─► attributes ─► renamed onto the target
//! ```
//!
//! Invariants: a file of the target is the old one or the whole new one, unless `-direct` or `-append` was asked for; only a file is replaced, and no link below
//! the target is passed; a temporary file of an attempt that fails is deleted by it, and of one that is killed by the last step.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::time::{Duration, Instant};

use client::interrupt::Unfinished;

use crate::error::{Error, PlaceError, Result};
use crate::keep::keep;
use crate::listing::check_way;
use crate::order::{Entry, Order};
use crate::places::{Files, Location, NewFile, Place, Places, Status, Writer, file};
use crate::throttle::{pause, piece};

/// Longest wait between two signs of life.
const WAIT_STEP: Duration = Duration::from_secs(1);

/// What became of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Done {
    Directory,
    Copied {
        bytes: u64,
    },
    /// As copied, but only what the target lacked.
    Appended {
        bytes: u64,
    },
    Skipped,
}

/// What hears of bytes as they are copied.
pub(crate) trait Progress {
    fn copied(&mut self, bytes: u64);
}

/// What a map copies with.
pub(crate) struct Copier<'a> {
    order: &'a Order,
    places: &'a Places,
    /// Of this attempt, in the name of its temporary files.
    attempt: String,
    target: std::sync::Arc<dyn Files>,
    made: BTreeSet<String>,
    begun: Instant,
    bytes: u64,
    buffer: Vec<u8>,
}

impl<'a> Copier<'a> {
    pub(crate) fn new(order: &'a Order, places: &'a Places, attempt: String) -> Result<Self> {
        let target = places.files(&order.work.place).map_err(file("reach", &order.work))?;
        Ok(Copier {
            order,
            places,
            attempt,
            target,
            made: BTreeSet::new(),
            begun: Instant::now(),
            bytes: 0,
            buffer: vec![0; order.buffer_bytes],
        })
    }

    /// Copies an entry.
    pub(crate) fn copy(&mut self, entry: &Entry, progress: &mut dyn Progress) -> Result<Done> {
        if let Some(reason) = &entry.unread {
            return Err(Error::Unlisted { reason: reason.clone() });
        }
        let target = self.order.work.below(&entry.relative);
        let from = self.places.files(&entry.source.place).map_err(read(entry))?;
        check_way(&*self.target, &self.order.work, &entry.relative)?;
        let there = self.target.status(&target.path).map_err(file("look for", &target))?;
        if let Some(there) = there.as_ref().filter(|it| it.directory != entry.status.directory) {
            let (is, wanted) = (there.kind(), entry.status.kind());
            return Err(Error::OtherKind { target: target.to_string(), is, wanted });
        }
        if entry.status.directory {
            self.directory(&target)?;
            // Its attributes come last: files in it change its times, and it may not be writable then.
            return Ok(Done::Directory);
        }
        // What was listed may have changed, or be gone.
        let now = from.status(&entry.source.path).map_err(read(entry))?;
        let now =
            now.ok_or_else(|| read(entry)(PlaceError::Machine(io::ErrorKind::NotFound.into())))?;
        let entry =
            Entry { status: Status { name: entry.status.name.clone(), ..now }, ..entry.clone() };
        let parts = (&*from, &*std::sync::Arc::clone(&self.target));
        let is_half_written = self.order.keeps_what_was_there() && !entry.was_there;
        if let Some(there) = &there
            && !self.order.overwrite
            && !is_half_written
        {
            if is_same(parts, &entry, (&target, there), self.order)? {
                keep(parts, &entry, &target, self.order.preserve)?;
                return Ok(Done::Skipped);
            }
            if self.order.append && is_beginning(parts, &entry, (&target, there), &mut self.buffer)?
            {
                let bytes = self.append(parts, &entry, (&target, there), progress)?;
                keep(parts, &entry, &target, self.order.preserve)?;
                return Ok(Done::Appended { bytes });
            }
        }
        self.directory(&target.parent())?;
        let is_new = there.is_none() || is_half_written;
        let bytes = self.whole(parts, &entry, (&target, is_new), progress)?;
        Ok(Done::Copied { bytes })
    }

    /// Makes a directory that this map has not seen yet.
    fn directory(&mut self, at: &Location) -> Result<()> {
        if self.made.insert(at.path.clone()) {
            // Not after a signal has what is there deleted.
            let _unfinished = Unfinished::beginning(format!("the making of {at}"));
            self.target.make_directories(&at.path).map_err(file("make the directory", at))?;
        }
        Ok(())
    }

    fn append(
        &mut self,
        (from, to): (&dyn Files, &dyn Files),
        entry: &Entry,
        (target, there): (&Location, &Status),
        progress: &mut dyn Progress,
    ) -> Result<u64> {
        let rest = from.open(&entry.source.path, there.length).map_err(read(entry))?;
        let unfinished = Unfinished::beginning(format!("the writing of {target}"));
        let writer = to.append(&target.path).map_err(file("append to", target))?;
        unfinished.begun(writer.undo(true));
        let missing = entry.status.length - there.length;
        self.transfer((from, to), entry, rest, (writer, target), missing, progress)
    }

    /// Writes a new file and puts it in its place.
    fn whole(
        &mut self,
        (from, to): (&dyn Files, &dyn Files),
        entry: &Entry,
        (target, is_new): (&Location, bool),
        progress: &mut dyn Progress,
    ) -> Result<u64> {
        let begin = || Unfinished::beginning(format!("the writing of {target}"));
        let Some(directory) = &self.order.temporary else {
            // It would be emptied before it is read.
            if to.is_one_file(from, (&entry.source, target)).map_err(file("look for", target))? {
                return Err(Error::OntoItself { target: target.to_string() });
            }
            let unfinished = begin();
            let written = self.write((from, to), entry, (target, &unfinished), progress);
            if written.is_err() && is_new {
                // The failure matters more. Another run would take what is left for a copy.
                let _ = to.delete(&target.path);
            }
            let bytes = written?;
            keep((from, to), entry, target, self.order.preserve)?;
            return Ok(bytes);
        };
        // One at a time in each attempt, and no two attempts have the same name.
        let temporary = directory.below(&self.attempt);
        self.directory(directory)?;
        let unfinished = begin();
        let written = self.write((from, to), entry, (&temporary, &unfinished), progress);
        let written = written.and_then(|bytes| {
            keep((from, to), entry, &temporary, self.order.preserve)?;
            to.rename(&temporary.path, &target.path).map_err(file("rename onto", target))?;
            Ok(bytes)
        });
        if written.is_err() {
            // The failure matters more; the last step deletes what is left.
            let _ = to.delete(&temporary.path);
        }
        written
    }

    /// Writes all of the source into a file, and checks what arrived.
    fn write(
        &mut self,
        (from, to): (&dyn Files, &dyn Files),
        entry: &Entry,
        (target, unfinished): (&Location, &Unfinished),
        progress: &mut dyn Progress,
    ) -> Result<u64> {
        let kept = self.order.preserve;
        let new = NewFile {
            replication: kept.replication.then_some(entry.status.replication).filter(|it| *it > 0),
            block_size: kept.block_size.then_some(entry.status.block_size).filter(|it| *it > 0),
            overwrite: true,
        };
        let source = from.open(&entry.source.path, 0).map_err(read(entry))?;
        let writer = to.create(&target.path, new).map_err(file("create", target))?;
        unfinished.begun(writer.undo(false));
        let new = (writer, target);
        self.transfer((from, to), entry, source, new, entry.status.length, progress)
    }

    /// Moves what is left of a source to the end of its copy, and checks the whole. Every copy ends here.
    fn transfer(
        &mut self,
        parts: (&dyn Files, &dyn Files),
        entry: &Entry,
        rest: Box<dyn Read>,
        (writer, target): (Box<dyn Writer>, &Location),
        expected: u64,
        progress: &mut dyn Progress,
    ) -> Result<u64> {
        let bytes = self.pump(entry, rest, (writer, target), expected, progress)?;
        // A file of a cluster changes by growing alone, which its length shows. One of this machine may be overwritten.
        if entry.source.place == Place::Machine {
            let now = parts.0.status(&entry.source.path).map_err(read(entry))?;
            let is_same = |now: &Status| {
                (now.length, now.mtime_ms) == (entry.status.length, entry.status.mtime_ms)
            };
            if !now.as_ref().is_some_and(is_same) {
                return Err(Error::Changed { path: entry.source.to_string() });
            }
        }
        // Within a place every byte is checked by reader and writer against the same checksums.
        if entry.source.place != target.place {
            check(parts, entry, target, self.order.skip_crc)?;
        }
        Ok(bytes)
    }

    /// Moves bytes, no faster than allowed.
    fn pump(
        &mut self,
        entry: &Entry,
        source: Box<dyn Read>,
        (mut writer, target): (Box<dyn Writer>, &Location),
        expected: u64,
        progress: &mut dyn Progress,
    ) -> Result<u64> {
        let mut found = 0;
        let at_once = match self.order.bandwidth {
            Some(megabytes) => piece(self.buffer.len(), megabytes),
            None => self.buffer.len(),
        };
        // One byte more than expected says enough: a source may have no end.
        let mut source = source.take(expected.saturating_add(1));
        loop {
            let count = match source.read(self.buffer.get_mut(..at_once).unwrap_or_default()) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(read(entry)(PlaceError::Machine(error))),
            };
            let bytes = self.buffer.get(..count).unwrap_or_default();
            let written = writer.write_all(bytes).map_err(PlaceError::Machine);
            written.map_err(file("write", target))?;
            found += count as u64;
            self.bytes += count as u64;
            progress.copied(count as u64);
            if let Some(megabytes) = self.order.bandwidth {
                let mut wait = pause(self.bytes, self.begun.elapsed(), megabytes);
                while !wait.is_zero() {
                    let step = wait.min(WAIT_STEP);
                    std::thread::sleep(step);
                    wait -= step;
                    // It is alive.
                    progress.copied(0);
                }
            }
        }
        if found != expected {
            return Err(Error::Length { path: entry.source.to_string(), expected, found });
        }
        writer.finish().map_err(file("write", target))?;
        Ok(found)
    }
}

/// The error of a source that cannot be read.
fn read(entry: &Entry) -> impl FnOnce(PlaceError) -> Error {
    let path = entry.source.to_string();
    move |source| Error::Read { path, source }
}

/// Compares a copy with its source: lengths, and checksums where they can be compared.
fn check(
    (from, to): (&dyn Files, &dyn Files),
    entry: &Entry,
    target: &Location,
    skip_crc: bool,
) -> Result<()> {
    let there = to.status(&target.path).map_err(file("look for", target))?;
    let (expected, found) = (entry.status.length, there.map_or(0, |there| there.length));
    if found != expected {
        return Err(Error::Length { path: entry.source.to_string(), expected, found });
    }
    let sums = match skip_crc {
        true => None,
        false => checksums((from, to), &entry.source, target)?,
    };
    match sums {
        Some((left, right)) if left.algorithm == right.algorithm && left.hex != right.hex => {
            Err(Error::Checksum { path: entry.source.to_string(), target: target.to_string() })
        }
        _ => Ok(()),
    }
}

/// Both checksums, if both places have such.
fn checksums(
    (from, to): (&dyn Files, &dyn Files),
    source: &Location,
    target: &Location,
) -> Result<Option<(crate::places::Checksum, crate::places::Checksum)>> {
    let wrong = |path: &Location| {
        let path = path.to_string();
        move |source| Error::Read { path, source }
    };
    let Some(left) = from.checksum(&source.path).map_err(wrong(source))? else { return Ok(None) };
    let right = to.checksum(&target.path).map_err(file("read the checksum of", target))?;
    Ok(right.map(|right| (left, right)))
}

/// True if the target needs no copy. Without `-update` what is there stays; with it, length, block size where that is kept, and checksum decide, or the
/// times where checksums cannot be compared.
fn is_same(
    parts: (&dyn Files, &dyn Files),
    entry: &Entry,
    (target, there): (&Location, &Status),
    order: &Order,
) -> Result<bool> {
    let source = &entry.status;
    if !order.update {
        return Ok(true);
    }
    if source.length != there.length {
        return Ok(false);
    }
    if source.length == 0 {
        return Ok(true);
    }
    if order.preserve.block_size && source.block_size != there.block_size {
        return Ok(false);
    }
    let is_newer = there.mtime_ms >= source.mtime_ms;
    if order.skip_crc {
        return Ok(is_newer);
    }
    Ok(match checksums(parts, &entry.source, target)? {
        Some((left, right)) if left.algorithm == right.algorithm => left.hex == right.hex,
        _ => is_newer,
    })
}

/// True if the target is shorter than the source and the same up to its end.
fn is_beginning(
    (from, to): (&dyn Files, &dyn Files),
    entry: &Entry,
    (target, there): (&Location, &Status),
    buffer: &mut [u8],
) -> Result<bool> {
    if there.length >= entry.status.length {
        return Ok(false);
    }
    let mut digest = |source: Box<dyn Read>| -> io::Result<u32> {
        let (mut source, mut sum) = (source.take(there.length), 0);
        loop {
            match source.read(buffer)? {
                0 => return Ok(sum),
                count => sum = crc32c::crc32c_append(sum, buffer.get(..count).unwrap_or_default()),
            }
        }
    };
    let source = from.open(&entry.source.path, 0).map_err(read(entry))?;
    let left = digest(source).map_err(|error| read(entry)(PlaceError::Machine(error)))?;
    let copy = to.open(&target.path, 0).map_err(file("open", target))?;
    let right = digest(copy).map_err(PlaceError::Machine).map_err(file("read", target))?;
    Ok(left == right)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::attributes::Attributes;
    use crate::places::Place;
    use crate::places::double::Double;

    struct Count(u64);

    impl Progress for Count {
        fn copied(&mut self, bytes: u64) {
            self.0 += bytes;
        }
    }

    /// Copies the file `from/x` and returns what became of it.
    fn copy(root: &Path, order: &Order) -> Result<Done> {
        let places = Places::new(None, "ann".to_owned(), Default::default(), Default::default());
        let source = Location::of_test(&root.join("from/x"));
        let status = places.files(&source.place).unwrap().status(&source.path).unwrap();
        let status = status.unwrap_or(Status { length: 1, ..Status::default() });
        let entry = Entry::new(source, "x".to_owned(), status);
        let mut count = Count(0);
        let done = Copier::new(order, &places, "attempt".to_owned())?.copy(&entry, &mut count)?;
        match done {
            Done::Copied { bytes } | Done::Appended { bytes } => assert_eq!(bytes, count.0),
            _ => assert_eq!(count.0, 0),
        }
        Ok(done)
    }

    #[test]
    fn files_are_copied_skipped_replaced_and_appended_to() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        fs::create_dir_all(root.join("from")).unwrap();
        let write = |path: &str, text: &str| fs::write(root.join(path), text).unwrap();
        let target = || fs::read_to_string(root.join("to/x")).unwrap();
        write("from/x", "12345678");
        let plain = Order::of_test(root);
        let update = Order { update: true, ..plain.clone() };
        assert_eq!(copy(root, &plain).unwrap(), Done::Copied { bytes: 8 });
        assert_eq!(target(), "12345678");
        // Whatever it is, without -update it stays.
        write("to/x", "1234");
        assert_eq!(copy(root, &plain).unwrap(), Done::Skipped);
        let append = Order { append: true, ..update.clone() };
        assert_eq!(copy(root, &append).unwrap(), Done::Appended { bytes: 4 });
        assert_eq!(target(), "12345678");
        write("to/x", "1x34");
        assert_eq!(copy(root, &append).unwrap(), Done::Copied { bytes: 8 });
        assert_eq!(copy(root, &update).unwrap(), Done::Skipped);
        let overwrite = Order { overwrite: true, ..plain.clone() };
        assert_eq!(copy(root, &overwrite).unwrap(), Done::Copied { bytes: 8 });
        let direct = Order { temporary: None, ..overwrite };
        assert_eq!(copy(root, &direct).unwrap(), Done::Copied { bytes: 8 });
        assert_eq!(fs::read_dir(root.join("to/.distcp.tmp.1")).unwrap().count(), 0);
    }

    #[test]
    fn what_an_attempt_left_half_written_in_place_is_no_copy() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        fs::create_dir_all(root.join("from")).unwrap();
        fs::create_dir_all(root.join("to")).unwrap();
        fs::write(root.join("from/x"), "12345678").unwrap();
        fs::write(root.join("to/x"), "1234").unwrap();
        let direct = Order { temporary: None, ..Order::of_test(root) };
        let places = Places::new(None, String::new(), Default::default(), Default::default());
        let source = Location::of_test(&root.join("from/x"));
        let status = places.files(&source.place).unwrap().status(&source.path).unwrap().unwrap();
        let run = |was_there| {
            let entry = Entry::new(source.clone(), "x".to_owned(), status.clone());
            let entry = Entry { was_there, ..entry };
            let mut copier = Copier::new(&direct, &places, "a".to_owned()).unwrap();
            (copier.copy(&entry, &mut Count(0)).unwrap(), fs::read(root.join("to/x")).unwrap())
        };
        assert_eq!(run(true), (Done::Skipped, b"1234".to_vec()));
        assert_eq!(run(false), (Done::Copied { bytes: 8 }, b"12345678".to_vec()));
    }

    #[test]
    fn a_file_is_not_emptied_to_be_copied_onto_itself() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        fs::create_dir_all(root.join("from")).unwrap();
        fs::write(root.join("from/x"), "12345678").unwrap();
        fs::create_dir_all(root.join("to")).unwrap();
        fs::hard_link(root.join("from/x"), root.join("to/x")).unwrap();
        let direct = Order { temporary: None, overwrite: true, ..Order::of_test(root) };
        let onto = Order { work: Location::of_test(&root.join("from")), ..direct.clone() };
        for order in [&onto, &direct] {
            let error = copy(root, order).unwrap_err();
            assert!(matches!(error, Error::OntoItself { .. }), "{error}");
            assert_eq!(fs::read(root.join("from/x")).unwrap(), b"12345678");
        }
    }

    /// Keeps how many bytes came at a time.
    #[derive(Clone, Default)]
    struct Pieces(Arc<Mutex<Vec<usize>>>);

    impl io::Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Writer for Pieces {
        fn undo(&self, _keep: bool) -> client::interrupt::Undo {
            Box::new(|| Ok(()))
        }

        fn finish(self: Box<Self>) -> std::result::Result<(), PlaceError> {
            Ok(())
        }
    }

    #[test]
    fn no_more_is_written_at_once_than_is_allowed_in_a_second() {
        let buffer_bytes = 8 << 20;
        let order = Order { bandwidth: Some(4.0), buffer_bytes, ..Order::of_test(Path::new("/")) };
        let places = Places::new(None, String::new(), Default::default(), Default::default());
        let mut copier = Copier::new(&order, &places, "a".to_owned()).unwrap();
        let source = Location::of_test(Path::new("/x"));
        let entry = Entry::new(source.clone(), String::new(), Status::default());
        let written = Pieces::default();
        // Long ago: there is no wait.
        copier.begun = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        let bytes = vec![0; 6 << 20];
        let (writer, rest) = (Box::new(written.clone()), Box::new(io::Cursor::new(bytes)));
        copier.pump(&entry, rest, (writer, &source), 6 << 20, &mut Count(0)).unwrap();
        assert_eq!(*written.0.lock().unwrap(), [4 << 20, 2 << 20]);
    }

    #[test]
    fn what_was_appended_is_compared_between_places() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        fs::create_dir_all(root.join("to")).unwrap();
        fs::write(root.join("x"), "12345678").unwrap();
        let order = Order::of_test(root);
        let places = Places::new(None, String::new(), Default::default(), Default::default());
        let mut copier = Copier::new(&order, &places, "a".to_owned()).unwrap();
        let place = Place::Web { authority: "h:1".to_owned(), is_encrypted: false };
        let source = Location { place, ..Location::of_test(&root.join("x")) };
        let status = Status { length: 8, ..Status::default() };
        let entry = Entry::new(source, "x".to_owned(), status);
        let mut append = |right: &str| {
            fs::write(root.join("to/x"), "1234").unwrap();
            let target = Location::of_test(&root.join("to/x"));
            let there = Status { length: 4, ..Status::default() };
            let parts: (&dyn Files, &dyn Files) =
                (&Double::with_checksum("1"), &Double::with_checksum(right));
            copier.append(parts, &entry, (&target, &there), &mut Count(0))
        };
        assert_eq!(append("1").unwrap(), 4);
        let error = append("2").unwrap_err();
        assert!(matches!(error, Error::Checksum { .. }), "{error}");
        let target = Location::of_test(&root.join("to/x"));
        fs::write(root.join("to/x"), "1").unwrap();
        let double = Double::default();
        let error = check((&double, &double), &entry, &target, true).unwrap_err();
        assert!(matches!(error, Error::Length { expected: 8, found: 1, .. }), "{error}");
    }

    #[test]
    fn a_source_without_an_end_is_left_at_its_length() {
        let order = Order::of_test(Path::new("/"));
        let places = Places::new(None, String::new(), Default::default(), Default::default());
        let mut copier = Copier::new(&order, &places, "a".to_owned()).unwrap();
        let source = Location::of_test(Path::new("/dev/zero"));
        let entry = Entry::new(source.clone(), String::new(), Status::default());
        let written = Pieces::default();
        let writer = Box::new(written.clone());
        let endless = Box::new(io::repeat(0));
        let error = copier.pump(&entry, endless, (writer, &source), 4, &mut Count(0)).unwrap_err();
        assert!(matches!(error, Error::Length { expected: 4, found: 5, .. }), "{error}");
        assert_eq!(*written.0.lock().unwrap(), [3, 2]);
    }

    #[test]
    fn attributes_are_kept() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        fs::create_dir_all(root.join("from")).unwrap();
        fs::write(root.join("from/x"), "1").unwrap();
        fs::set_permissions(root.join("from/x"), fs::Permissions::from_mode(0o640)).unwrap();
        let kept = Order { preserve: Attributes::parse("pt").unwrap(), ..Order::of_test(root) };
        Copier::new(
            &kept,
            &Places::new(None, String::new(), Default::default(), Default::default()),
            "a".to_owned(),
        )
        .unwrap();
        copy(root, &kept).unwrap();
        let [from, to] = ["from/x", "to/x"].map(|path| fs::metadata(root.join(path)).unwrap());
        assert_eq!(to.permissions().mode() & 0o777, 0o640);
        let ms = |time: std::time::SystemTime| {
            time.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()
        };
        assert_eq!(ms(from.modified().unwrap()), ms(to.modified().unwrap()));
    }

    #[test]
    fn nothing_is_written_in_place_of_a_link_or_behind_it() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        for directory in ["from", "to", "outside"] {
            fs::create_dir(root.join(directory)).unwrap();
        }
        fs::write(root.join("from/x"), "new").unwrap();
        fs::write(root.join("outside/x"), "old").unwrap();
        std::os::unix::fs::symlink("../outside/x", root.join("to/x")).unwrap();
        std::os::unix::fs::symlink("outside", root.join("link")).unwrap();
        let plain = Order::of_test(root);
        let direct = Order { temporary: None, overwrite: true, ..plain.clone() };
        let append = Order { update: true, append: true, ..plain.clone() };
        for order in [&plain, &direct, &append] {
            let error = copy(root, order).unwrap_err();
            assert!(matches!(error, Error::Special { kind: "a symbolic link", .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains(&format!("{}/to/x", root.display())), "{text}");
        }
        // In the middle of the target.
        let above = Order { work: Location::of_test(root), overwrite: true, ..plain.clone() };
        let places = Places::new(None, String::new(), Default::default(), Default::default());
        let source = Location::of_test(&root.join("from/x"));
        for (relative, directory) in [("link/x", false), ("link", true)] {
            let status = Status { length: 3, directory, ..Status::default() };
            let entry = Entry::new(source.clone(), relative.to_owned(), status);
            let mut copier = Copier::new(&above, &places, "a".to_owned()).unwrap();
            let error = copier.copy(&entry, &mut Count(0)).unwrap_err();
            assert!(matches!(error, Error::Special { .. }), "{relative}: {error}");
        }
        assert_eq!(fs::read(root.join("outside/x")).unwrap(), b"old");
        assert_eq!(fs::read_link(root.join("to/x")).unwrap(), Path::new("../outside/x"));
        // Who names a link to a directory means the directory.
        let named =
            Order { work: Location::of_test(&root.join("link")), temporary: None, ..direct };
        assert_eq!(copy(root, &named).unwrap(), Done::Copied { bytes: 3 });
        assert_eq!(fs::read(root.join("outside/x")).unwrap(), b"new");
    }

    #[test]
    fn of_a_directory_that_was_not_listed_nothing_is_made() {
        let scratch = tempfile::tempdir().unwrap();
        let order = Order { ignore_failures: true, ..Order::of_test(scratch.path()) };
        let places = Places::new(None, String::new(), Default::default(), Default::default());
        let status = Status { directory: true, ..Status::default() };
        let entry = Entry::new(Location::of_test(scratch.path()), "d".to_owned(), status);
        let entry = Entry { unread: Some("cannot list d: why".to_owned()), ..entry };
        let mut copier = Copier::new(&order, &places, "a".to_owned()).unwrap();
        let error = copier.copy(&entry, &mut Count(0)).unwrap_err();
        assert_eq!(error.to_string(), "cannot list d: why");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_is_told() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        let missing = copy(root, &Order::of_test(root)).unwrap_err();
        assert!(matches!(missing, Error::Read { .. }), "{missing}");
        fs::create_dir_all(root.join("from")).unwrap();
        fs::write(root.join("from/x"), "1").unwrap();
        fs::create_dir_all(root.join("to/x")).unwrap();
        let error = copy(root, &Order::of_test(root)).unwrap_err().to_string();
        assert!(error.ends_with("Target is dir, Source is file"), "{error}");
    }
}
