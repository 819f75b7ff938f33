//! A cluster on file-system images, and its power switch.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use needs::{Need, lacks};

use super::cluster::fresh_directory;
use super::switch;
use super::{Cluster, Options, wait};

/// Bytes of an image; XFS takes no less than 300 MB. They are sparse.
const IMAGE_BYTES: u64 = 512 << 20;
/// Where images lie if there is such a place: copies are quick there.
const MEMORY: &str = "/dev/shm";
/// Time for a disk that nobody uses any more to be let go: the kernel may still be at what the dead had under way.
const UNMOUNT_MAX: Duration = Duration::from_secs(30);
/// Tries at a copy during which the kernel wrote nothing.
const COPY_TRIES: usize = 100;

/// What an image holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FileSystem {
    Ext4,
    Xfs,
}

impl FileSystem {
    pub(crate) const ALL: [FileSystem; 2] = [FileSystem::Ext4, FileSystem::Xfs];

    pub(crate) fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
        }
    }

    /// How it is mounted: what is freed goes out of the image. Another mount namespace of the machine may still hold the image of which this is a copy: XFS would mind.
    fn options(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "loop,discard",
            FileSystem::Xfs => "loop,discard,nouuid",
        }
    }

    fn make(self, image: &Path) -> bool {
        let file = fs::File::create(image).unwrap();
        file.set_len(IMAGE_BYTES).unwrap();
        let program = format!("mkfs.{}", self.name());
        let mut command = Command::new(program);
        command.arg("-q").arg(image).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

fn mount(file_system: FileSystem, image: &Path, place: &Path) -> bool {
    let mut command = Command::new("mount");
    command.args(["-o", file_system.options()]).arg(image).arg(place);
    command.status().is_ok_and(|status| status.success())
}

fn unmount(place: &Path) -> bool {
    let mut command = Command::new("umount");
    command.arg(place).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// True if such an image can be made and mounted here. Where not, says so.
pub(crate) fn is_possible(file_system: FileSystem) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let (image, place) = (directory.path().join("image"), directory.path().join("place"));
    fs::create_dir(&place).unwrap();
    let possible =
        file_system.make(&image) && mount(file_system, &image, &place) && unmount(&place);
    if !possible {
        let name = file_system.name();
        lacks(Need::FileSystems, format_args!("no image of {name} can be made and mounted"));
    }
    possible
}

/// A running cluster and the images it is on.
pub(crate) struct Rig {
    /// Dropped before its disks are.
    cluster: Option<Cluster>,
    disks: Vec<Disk>,
    _images: tempfile::TempDir,
}

/// A mounted image.
struct Disk {
    file_system: FileSystem,
    image: PathBuf,
    place: PathBuf,
}

fn image_directory() -> tempfile::TempDir {
    let parent = Path::new(MEMORY);
    let parent = if parent.is_dir() { parent.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("hanno-power-").tempdir_in(parent).unwrap()
}

impl Disk {
    /// A new file system at `place`.
    fn make(file_system: FileSystem, image: PathBuf, place: PathBuf) -> Disk {
        let made = file_system.make(&image) && mount(file_system, &image, &place);
        assert!(made, "{} cannot be made", image.display());
        Disk { file_system, image, place }
    }

    /// What the kernel has sent to the device and what is on its way, by the device's own counts.
    fn written(&self) -> Option<(String, String)> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let place = self.place.to_str()?;
        let line = mounts.lines().find(|line| line.split(' ').nth(1) == Some(place))?;
        let device = line.split(' ').next()?.strip_prefix("/dev/")?;
        let counts = fs::read_to_string(format!("/sys/block/{device}/stat")).ok()?;
        let count = |at: usize| counts.split_whitespace().nth(at).map(str::to_owned);
        Some((count(6)?, count(8)?))
    }

    fn next(&self) -> PathBuf {
        self.image.with_extension("next")
    }

    /// Copies the image as it is at one moment: again if the kernel wrote meanwhile.
    fn copy(&self) {
        for _ in 0..COPY_TRIES {
            let before = self.written().expect("the image is mounted");
            let mut copy = Command::new("cp");
            copy.args(["--reflink=auto", "--sparse=always"]).arg(&self.image).arg(self.next());
            assert!(copy.status().unwrap().success());
            if before.1 == "0" && self.written().as_ref() == Some(&before) {
                return;
            }
        }
        panic!("{} is always being written to", self.image.display());
    }

    /// Mounts the copy in the place of the image.
    fn replace(&self) {
        let free = wait::until(UNMOUNT_MAX, || unmount(&self.place));
        assert!(free, "{} is in use", self.place.display());
        fs::rename(self.next(), &self.image).unwrap();
        let mounted = mount(self.file_system, &self.image, &self.place);
        assert!(mounted, "{} cannot be mounted", self.image.display());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if !wait::until(UNMOUNT_MAX, || unmount(&self.place)) {
            eprintln!("{} stays mounted", self.place.display());
        }
    }
}

impl Rig {
    /// A cluster with the data of each daemon on an image of its own.
    pub(crate) fn start(file_system: FileSystem, mut options: Options) -> Rig {
        let images = image_directory();
        let directory = fresh_directory();
        let disk = |daemon: String| {
            let place = directory.join(&daemon);
            fs::create_dir(&place).unwrap();
            Disk::make(file_system, images.path().join(daemon), place)
        };
        let disks = options.daemons().into_iter().map(disk).collect();
        options.variables.extend([
            ("HANNO_DATANODE_IO_TIMEOUT_MS", "2000".to_owned()),
            ("HANNO_DATANODE_TRASH_GRACE_MS", "0".to_owned()),
            ("HANNO_DATANODE_RESERVED_BYTES", "0".to_owned()),
            ("HANNO_NAMENODE_RECOVERY_RETRY_MS", "1000".to_owned()),
        ]);
        let cluster = Cluster::start_in(directory, options);
        Rig { cluster: Some(cluster), disks, _images: images }
    }

    /// A cluster with everything on one disk.
    pub(crate) fn start_on_one_disk(file_system: FileSystem, options: Options) -> Rig {
        let images = image_directory();
        let directory = fresh_directory();
        let disk = Disk::make(file_system, images.path().join("all"), directory.clone());
        let cluster = Cluster::start_in(directory, options);
        Rig { cluster: Some(cluster), disks: vec![disk], _images: images }
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().expect("there is one until the end")
    }

    pub(crate) fn namenode(&self) -> &str {
        &self.cluster().namenode
    }

    /// Cuts the power; `dead` runs when nothing does any more, before the cluster starts on what its disks had.
    pub(crate) fn cut(&mut self, dead: impl FnOnce()) {
        let disks = &self.disks;
        let copy = || disks.iter().for_each(Disk::copy);
        let replace = || {
            dead();
            disks.iter().for_each(Disk::replace);
        };
        let cluster = self.cluster.as_mut().expect("there is one until the end");
        switch::cut(cluster, copy, replace);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // It removes its directory, in which the places are, when they are free.
        let directory = self.cluster().directory.clone();
        self.cluster = None;
        self.disks.clear();
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(directory);
        }
    }
}
