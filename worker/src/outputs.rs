//! Map outputs held for reduces: the list of them. The positions of their segments are in their indexes alone, of which a reader gets the part that it
//! asks for: a map of a job with a million reduces would need 32 MB here.
//!
//! ```text
//! jobs/<job>/<attempt>/NAME.data, NAME.index     made by a task, which can change these names freely
//! outputs/<job>/<attempt>.data, <attempt>.index  taken when the attempt reports them: tasks can only read here
//! ```
//!
//! Invariants: an output is listed only after a check of its index against its data file and the number of partitions of the job. The
//! worker serves the checked file, whatever its names referred to before and since. The file had no other name when the worker took it, so
//! no task has one. This worker writes the index here, and owns both files; others can read them. Both are the files that were checked whenever one is
//! opened, or nothing is served. Attempts are found by their typed id, so
//! no text of a request or a report ever becomes part of a path here.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use protocol::error::chain;
use protocol::{AttemptId, JobId};
use shuffle::SegmentInfo;
use sys::beneath::{Dir, Identity};

use crate::core::data_name;
#[cfg(test)]
use crate::core::data_path;
use crate::scratch::OpenDir;

/// Extension of the index beside the data of an output.
const INDEX: &str = "index";
/// Access to an index: everybody who can reach it may read it.
const INDEX_MODE: u32 = 0o444;
/// Longest part of a reported path to repeat in diagnostics, characters.
const PATH_CHARS_MAX: usize = 200;

/// A map output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    data: Identity,
    index: Identity,
    partition_count: u32,
}

/// All map outputs held here. Cheap to clone; clones share.
#[derive(Clone, Debug)]
pub(crate) struct Outputs {
    /// The directory of all jobs' outputs.
    place: OpenDir,
    inner: Arc<RwLock<HashMap<AttemptId, Held>>>,
}

impl Outputs {
    /// Holds outputs in a directory that tasks cannot change.
    pub(crate) fn new(place: OpenDir) -> Self {
        Outputs { place, inner: Arc::default() }
    }

    /// The directory for the outputs of a job.
    pub(crate) fn of_job(&self, job: JobId) -> io::Result<OpenDir> {
        self.place.ensure(job.to_string())
    }

    /// Path of the outputs of a job, for those who may read them.
    pub(crate) fn job_path(&self, job: JobId) -> PathBuf {
        self.place.path.join(job.to_string())
    }

    /// Bytes that the outputs use on disk.
    pub(crate) fn used_bytes(&self) -> io::Result<u64> {
        self.place.dir.used_bytes()
    }

    /// Takes the output that a finished attempt left in its directory `made`; `reported` is the path that it named. Returns its segments.
    pub(crate) fn insert(
        &self,
        attempt: AttemptId,
        made: &OpenDir,
        reported: &str,
        partition_count: u32,
    ) -> Result<Vec<SegmentInfo>, String> {
        let inside = reported
            .strip_prefix(&*made.path.to_string_lossy())
            .and_then(|rest| rest.strip_prefix('/'))
            .filter(|name| !name.contains('/'));
        let shortened: String = reported.chars().take(PATH_CHARS_MAX).collect();
        let name = inside.ok_or_else(|| {
            format!("the map output {shortened} is not in the attempt's directory")
        })?;
        let (reported, name) = (shortened, OsStr::new(name));
        let unusable =
            |error: &io::Error| format!("cannot take the map output {reported}: {error}");
        let index = made.dir.file(Path::new(name).with_extension(INDEX));
        let index = index.map_err(|error| {
            format!("cannot read the index of the map output {reported}: {error}")
        })?;
        let index_path = Path::new(&reported).with_extension(INDEX);
        let segments =
            shuffle::read_open_index(index, &index_path).map_err(|error| chain(&error))?;
        if segments.len() != partition_count as usize {
            let count = segments.len();
            return Err(format!(
                "the map output {reported} has {count} partitions where the job has {partition_count}"
            ));
        }
        let data = made.dir.file(name).map_err(|error| unusable(&error))?;
        let length = data.metadata().map_err(|error| unusable(&error))?.len();
        let end = segments.last().map_or(0, |segment| segment.offset + segment.stored);
        if length != end {
            return Err(format!(
                "the map output {reported} has {length} bytes where its index names {end}"
            ));
        }
        let [data, index] =
            self.take(attempt, made, (name, &data), &segments).map_err(|error| unusable(&error))?;
        self.inner.write().insert(attempt, Held { data, index, partition_count });
        Ok(segments)
    }

    /// Moves the data out of reach of tasks and writes an index beside it.
    fn take(
        &self,
        attempt: AttemptId,
        made: &OpenDir,
        (name, data): (&OsStr, &File),
        segments: &[SegmentInfo],
    ) -> io::Result<[Identity; 2]> {
        let OpenDir { dir, .. } = self.of_job(attempt.task.job)?;
        let identity = Identity::of(data)?;
        let [to, index] = names(attempt);
        dir.take(&made.dir, name, &to)?;
        let kept = || {
            if dir.identity(&to)? != identity {
                return Err(io::Error::other("it was swapped for another"));
            }
            if data.metadata()?.nlink() != 1 {
                return Err(io::Error::other("it has another name elsewhere"));
            }
            // From here on, no job's user owns the files: an owner could write to them where no other walls exist.
            sys::beneath::seal(data)?;
            let mut index = dir.create(&index, INDEX_MODE)?;
            sys::beneath::seal(&index)?;
            index.write_all(&shuffle::encode_index(segments))?;
            Ok([identity, Identity::of(&index)?])
        };
        kept().inspect_err(|_| {
            // The moved file is useless; the rest is deleted with the job.
            let _ = dir.remove(&to);
        })
    }

    /// Links an output that another worker on this machine holds: another name of the same files. Returns the new path. The old path comes
    /// from that worker, which keeps the file where no task can change it.
    pub(crate) fn bring(&self, attempt: AttemptId, data: &Path) -> io::Result<PathBuf> {
        let [to, index] = names(attempt);
        let below = Path::new(&attempt.task.job.to_string()).join(&to);
        if !data.ends_with(below) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no worker keeps outputs there",
            ));
        }
        let job = self.of_job(attempt.task.job)?;
        for (from, to) in [(data.to_owned(), &to), (data.with_extension(INDEX), &index)] {
            link(&sys::beneath::file_without_links(&from)?, &job.dir, to)?;
        }
        Ok(job.path.join(to))
    }

    /// The output of an attempt.
    pub(crate) fn held(&self, attempt: AttemptId) -> Option<Held> {
        self.inner.read().get(&attempt).copied()
    }

    /// The data of an output.
    pub(crate) fn open(&self, attempt: AttemptId, held: &Held) -> io::Result<File> {
        let [name, _] = names(attempt);
        self.open_own(attempt, name, held.data)
    }

    /// Neighbouring segments of an output, as its index has them.
    pub(crate) fn segments(
        &self,
        attempt: AttemptId,
        held: &Held,
        partitions: Range<u32>,
    ) -> Result<Vec<SegmentInfo>, String> {
        if partitions.start > partitions.end || partitions.end > held.partition_count {
            return Err(format!("it has only {} partitions", held.partition_count));
        }
        let [_, name] = names(attempt);
        let path = Path::new(&name).to_owned();
        let index = self
            .open_own(attempt, name, held.index)
            .map_err(|error| format!("cannot open its index: {error}"))?;
        shuffle::read_partitions(&index, &path, partitions).map_err(|error| chain(&error))
    }

    /// A file of an output, which has to be the one that was checked.
    fn open_own(&self, attempt: AttemptId, name: OsString, identity: Identity) -> io::Result<File> {
        let file = self.place.dir.file(Path::new(&attempt.task.job.to_string()).join(name))?;
        match Identity::of(&file)? == identity {
            true => Ok(file),
            false => Err(io::Error::other("it was swapped for another")),
        }
    }

    /// No task needs an output any more: removes it from the list, and its files.
    pub(crate) fn drop_output(&self, attempt: AttemptId) -> io::Result<()> {
        self.inner.write().remove(&attempt);
        let OpenDir { dir, .. } = self.of_job(attempt.task.job)?;
        names(attempt).iter().try_for_each(|name| dir.remove(name))
    }

    /// The job is over: removes its outputs from the list.
    pub(crate) fn forget_job(&self, job: JobId) {
        self.inner.write().retain(|attempt, _| attempt.task.job != job);
    }

    /// Removes the files of a job that is over, and what was listed of it since it was forgotten.
    pub(crate) fn remove_job(&self, job: JobId) -> io::Result<()> {
        self.forget_job(job);
        self.place.dir.remove(job.to_string())
    }
}

#[cfg(test)]
impl Outputs {
    /// All outputs.
    pub(crate) fn all(&self) -> Vec<AttemptId> {
        let mut all: Vec<AttemptId> = self.inner.read().keys().copied().collect();
        all.sort();
        all
    }

    /// The path that messages name.
    pub(crate) fn data_path(&self, attempt: AttemptId) -> PathBuf {
        data_path(&self.place.path, attempt)
    }
}

/// File names of the data and the index of an output.
fn names(attempt: AttemptId) -> [OsString; 2] {
    [data_name(attempt).into(), format!("{attempt}.{INDEX}").into()]
}

fn link(file: &File, dir: &Dir, name: &OsString) -> io::Result<()> {
    match dir.link(file, name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use protocol::{TaskId, TaskKind};

    use super::*;

    const SEGMENTS: [SegmentInfo; 2] = [
        SegmentInfo { offset: 0, stored: 30, raw: 0, records: 0 },
        SegmentInfo { offset: 30, stored: 34, raw: 0, records: 0 },
    ];

    struct Stand {
        root: tempfile::TempDir,
        made: OpenDir,
        outputs: Outputs,
    }

    fn attempt(index: u32) -> AttemptId {
        let job = JobId { cluster_start: 1, number: 1 };
        AttemptId { task: TaskId { job, kind: TaskKind::Map, index }, number: 0 }
    }

    /// Makes an attempt's directory with a complete output in it.
    fn stand() -> Stand {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        for name in ["attempt", "outputs", "outside"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        fs::write(path.join("outside/secret.data"), [9; 64]).unwrap();
        fs::write(path.join("attempt/output.data"), [7; 64]).unwrap();
        fs::write(path.join("attempt/output.index"), shuffle::encode_index(&SEGMENTS)).unwrap();
        let [made, kept] =
            ["attempt", "outputs"].map(|name| OpenDir::open(&path.join(name)).unwrap());
        Stand { root, made, outputs: Outputs::new(kept) }
    }

    impl Stand {
        fn told(&self, name: &str) -> String {
            self.made.path.join(name).to_str().unwrap().to_owned()
        }

        fn insert(&self) -> Result<Held, String> {
            let told = self.told("output.data");
            assert_eq!(self.outputs.insert(attempt(0), &self.made, &told, 2)?, SEGMENTS);
            Ok(self.outputs.held(attempt(0)).unwrap())
        }
    }

    #[test]
    fn an_output_is_taken_out_of_reach_and_served_from_there() {
        let stand = stand();
        let held = stand.insert().unwrap();
        let segments = |range| stand.outputs.segments(attempt(0), &held, range);
        assert_eq!(segments(0..2).unwrap(), SEGMENTS);
        assert_eq!(segments(1..2).unwrap(), SEGMENTS[1..]);
        for range in [0..3, 2..3, Range { start: 2, end: 1 }] {
            assert_eq!(segments(range).unwrap_err(), "it has only 2 partitions");
        }
        assert!(!stand.made.path.join("output.data").try_exists().unwrap());
        symlink(stand.root.path().join("outside/secret.data"), stand.made.path.join("output.data"))
            .unwrap();
        let mut bytes = Vec::new();
        let mut file = stand.outputs.open(attempt(0), &held).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, [7; 64]);
        let path = stand.outputs.data_path(attempt(0));
        assert_eq!(stand.outputs.all(), [attempt(0)]);
        assert_eq!(shuffle::read_index(&path.with_extension(INDEX)).unwrap(), SEGMENTS);
        // Without walls a process can still get there: the worker detects it.
        let index = path.with_extension(INDEX);
        fs::write(stand.root.path().join("outside/index"), fs::read(&index).unwrap()).unwrap();
        fs::rename(stand.root.path().join("outside/index"), &index).unwrap();
        assert!(segments(0..2).unwrap_err().contains("it was swapped for another"));
        fs::rename(stand.root.path().join("outside/secret.data"), &path).unwrap();
        assert!(stand.outputs.open(attempt(0), &held).is_err());
        stand.outputs.remove_job(attempt(0).task.job).unwrap();
        assert!(stand.outputs.open(attempt(0), &held).is_err());
    }

    /// A job may have a million partitions, and a worker thousands of maps of it.
    #[test]
    fn the_room_of_an_output_does_not_grow_with_its_partitions() {
        const HELD_BYTES_MAX: usize = 64;
        assert!(!std::mem::needs_drop::<Held>(), "it owns nothing elsewhere");
        assert!(size_of::<Held>() <= HELD_BYTES_MAX);
    }

    #[test]
    fn a_damaged_index_is_noticed_when_it_is_read() {
        let stand = stand();
        let held = stand.insert().unwrap();
        let index = stand.outputs.data_path(attempt(0)).with_extension(INDEX);
        let mut bytes = fs::read(&index).unwrap();
        bytes[30] ^= 1;
        fs::set_permissions(&index, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(&index, &bytes).unwrap();
        let refused = stand.outputs.segments(attempt(0), &held, 0..1).unwrap_err();
        assert!(refused.contains("is corrupt at byte"), "{refused}");
    }

    #[test]
    fn an_output_that_nobody_needs_goes_alone_and_a_link_leaves_the_original() {
        let stand = stand();
        let held = stand.insert().unwrap();
        // As another worker on this machine has it.
        let elsewhere = stand.root.path().canonicalize().unwrap().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let other = Outputs::new(OpenDir::open(&elsewhere).unwrap());
        let path = stand.outputs.data_path(attempt(0));
        let link = other.bring(attempt(0), &path).unwrap();
        for _ in 0..2 {
            other.drop_output(attempt(0)).unwrap();
            assert!(!link.try_exists().unwrap() && path.try_exists().unwrap());
        }
        assert!(stand.outputs.open(attempt(0), &held).is_ok());
        for _ in 0..2 {
            stand.outputs.drop_output(attempt(0)).unwrap();
            assert!(stand.outputs.held(attempt(0)).is_none());
            let index = path.with_extension(INDEX);
            assert!(!path.try_exists().unwrap() && !index.try_exists().unwrap());
        }
    }

    #[test]
    fn paths_that_are_not_one_name_in_the_directory_are_refused() {
        let stand = stand();
        fs::create_dir(stand.made.path.join("d")).unwrap();
        for name in ["output.data", "output.index"] {
            fs::copy(stand.made.path.join(name), stand.made.path.join("d").join(name)).unwrap();
        }
        let paths = [
            "d/output.data",
            "./output.data",
            "../attempt/output.data",
            "",
            ".",
            "..",
            "d",
            "d/",
            "output.data/",
            "output.data/.",
            "out\0put.data",
            "output.data\0",
        ];
        let long = "d/".repeat(1 << 16);
        let mut told: Vec<String> =
            paths.iter().chain([&&*long]).map(|path| stand.told(path)).collect();
        told.extend(["", "/", "output.data", "/etc/passwd", "\0"].map(str::to_owned));
        told.push(stand.root.path().join("outside/secret.data").to_str().unwrap().to_owned());
        for told in told {
            let refused = stand.outputs.insert(attempt(0), &stand.made, &told, 2).unwrap_err();
            assert!(refused.len() < 1000, "{refused}");
        }
        stand.insert().unwrap();
    }

    #[test]
    fn indexes_that_do_not_fit_the_file_or_the_job_are_refused() {
        let check = |segments: &[SegmentInfo], data: usize, reason: &str| {
            let stand = stand();
            fs::write(stand.made.path.join("output.index"), shuffle::encode_index(segments))
                .unwrap();
            fs::write(stand.made.path.join("output.data"), vec![7; data]).unwrap();
            let refused = stand.insert().unwrap_err();
            assert!(refused.contains(reason), "{refused}");
            assert!(stand.outputs.all().is_empty());
        };
        check(&SEGMENTS, 63, "has 63 bytes where its index names 64");
        check(&SEGMENTS, 65, "has 65 bytes where its index names 64");
        check(&SEGMENTS[..1], 30, "has 1 partitions where the job has 2");
        check(&[], 0, "has 0 partitions where the job has 2");
        let [first, second] = SEGMENTS;
        check(&[first, second, SegmentInfo { offset: 64, ..first }], 94, "has 3 partitions");
        check(&[first, SegmentInfo { stored: u64::MAX, ..second }], 64, "corrupt at byte 52");
        check(&[first, SegmentInfo { raw: u64::MAX, ..second }], 64, "corrupt at byte 52");
    }

    #[test]
    fn a_file_with_another_name_and_what_is_no_file_are_refused() {
        for name in ["output.data", "output.index"] {
            let spoil: [fn(&Path, &Path); 4] = [
                |path, _| fs::create_dir(path).unwrap(),
                |path, other| symlink(other, path).unwrap(),
                |path, _| drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
                |path, _| {
                    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
                    assert!(made.success());
                },
            ];
            for spoil in spoil {
                let stand = stand();
                let path = stand.made.path.join(name);
                let other = stand.root.path().join("outside").join(name);
                fs::rename(&path, &other).unwrap();
                spoil(&path, &other);
                assert!(stand.insert().is_err());
            }
        }
        let stand = stand();
        let path = stand.made.path.join("output.data");
        fs::hard_link(&path, stand.root.path().join("outside/twin")).unwrap();
        let refused = stand.insert().unwrap_err();
        assert!(refused.contains("another name"), "{refused}");
        let outputs = stand.outputs.of_job(attempt(0).task.job).unwrap();
        assert!(outputs.dir.names().unwrap().is_empty());
    }

    #[test]
    fn outputs_of_other_workers_are_brought_from_where_workers_keep_them_alone() {
        let (there, here) = (stand(), stand());
        there.insert().unwrap();
        let path = there.outputs.data_path(attempt(0));
        let brought = here.outputs.bring(attempt(0), &path).unwrap();
        assert_eq!(brought, here.outputs.data_path(attempt(0)));
        assert_eq!(here.outputs.bring(attempt(0), &path).unwrap(), brought, "once is enough");
        // It no longer matters what its worker does to the files.
        there.outputs.remove_job(attempt(0).task.job).unwrap();
        assert_eq!(fs::read(&brought).unwrap(), [7; 64]);
        assert_eq!(shuffle::read_index(&brought.with_extension(INDEX)).unwrap(), SEGMENTS);

        let job = there.root.path().join("outside").join(attempt(1).task.job.to_string());
        fs::create_dir(&job).unwrap();
        let [data, index] = names(attempt(1)).map(|name| job.join(name));
        let secret = there.root.path().join("outside/secret.data");
        symlink(&secret, &data).unwrap();
        fs::write(index, "").unwrap();
        for path in [&data, &secret, &there.root.path().join("missing")] {
            assert!(here.outputs.bring(attempt(1), path).is_err(), "{}", path.display());
        }
    }
}
