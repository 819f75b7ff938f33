//! Tests of [`super`]: whatever others put below a directory, none of it leads outside.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use super::*;

struct Stand {
    root: tempfile::TempDir,
    dir: Dir,
}

/// A directory `box` beside a file `outside/secret`.
fn stand() -> Stand {
    let root = tempfile::tempdir().unwrap();
    for name in ["box", "box/inner", "outside"] {
        fs::create_dir(root.path().join(name)).unwrap();
    }
    fs::write(root.path().join("outside/secret"), "secret").unwrap();
    fs::write(root.path().join("box/inner/file"), "file").unwrap();
    let dir = Dir::open(&root.path().join("box")).unwrap();
    Stand { root, dir }
}

impl Stand {
    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }
}

#[test]
fn only_regular_files_beneath_are_opened_and_no_open_waits() {
    let stand = stand();
    symlink(stand.path("outside/secret"), stand.path("box/link")).unwrap();
    symlink(stand.path("outside"), stand.path("box/door")).unwrap();
    symlink("inner/file", stand.path("box/inner-link")).unwrap();
    symlink(format!("/proc/self/fd/{}", stand.dir.descriptor.as_raw_fd()), stand.path("box/magic"))
        .unwrap();
    symlink("/dev/zero", stand.path("box/device")).unwrap();
    let fifo = rustix::fs::mknodat(CWD, stand.path("box/fifo"), FileType::Fifo, OWNER, 0);
    fifo.unwrap();
    let _socket = UnixListener::bind(stand.path("box/socket")).unwrap();
    let mut text = String::new();
    stand.dir.file("inner/file").unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "file");
    let bad = [
        "",
        ".",
        "..",
        "../outside/secret",
        "inner/../inner/file",
        "/etc/passwd",
        "link",
        "door/secret",
        "inner-link",
        "magic/inner/file",
        "device",
        "fifo",
        "socket",
        "inner",
        "missing",
        "inner/file/x",
        "inner\0file",
        "./inner/./../../outside/secret",
    ];
    for below in bad {
        assert!(stand.dir.file(below).is_err(), "{below}");
    }
    for below in ["link", "door/secret", "inner-link", "magic/inner/file", "socket"] {
        assert!(stand.dir.walk(Path::new(below), OFlags::RDONLY).is_err(), "{below}");
    }
    for below in ["link", "door", "device", "fifo", "inner/file", "magic"] {
        assert!(stand.dir.dir(below).is_err(), "{below}");
        assert!(stand.dir.walk(Path::new(below), OFlags::DIRECTORY).is_err(), "{below}");
    }
    let long = "d/".repeat(1 << 14);
    assert!(stand.dir.file(long).is_err());
    let raw = OsStr::from_bytes(&[0xff, 0xfe]);
    fs::write(stand.path("box").join(raw), "raw").unwrap();
    stand.dir.file(raw).unwrap();
    stand.dir.walk(Path::new("inner/file"), OFlags::RDONLY).unwrap();
}

#[test]
fn a_held_directory_stays_the_one_that_was_opened() {
    let stand = stand();
    let inner = stand.dir.dir("inner").unwrap();
    fs::rename(stand.path("box/inner"), stand.path("box/aside")).unwrap();
    symlink(stand.path("outside"), stand.path("box/inner")).unwrap();
    inner.file("file").unwrap();
    assert!(inner.file("secret").is_err());
    assert!(stand.dir.dir("inner").is_err());
    stand.dir.fresh_dir("inner").unwrap();
    assert!(stand.path("outside/secret").is_file());
    assert!(fs::symlink_metadata(stand.path("box/inner")).unwrap().is_dir());
}

#[test]
fn files_are_made_linked_and_taken_by_descriptor() {
    let stand = stand();
    symlink(stand.path("outside/secret"), stand.path("box/link")).unwrap();
    for name in ["link", "inner"] {
        assert!(stand.dir.create(name, 0o600).is_err(), "{name}");
        assert!(stand.dir.append(name, 0o600).is_err(), "{name}");
    }
    assert!(stand.dir.create("a/b", 0o600).is_err());
    stand.dir.create("new", 0o600).unwrap().write_all(b"new").unwrap();
    stand.dir.append("new", 0o600).unwrap().write_all(b" and more").unwrap();
    assert_eq!(fs::read_to_string(stand.path("box/new")).unwrap(), "new and more");
    // The opened file is linked, whatever has its name now.
    let inner = stand.dir.dir("inner").unwrap();
    let file = inner.file("file").unwrap();
    fs::remove_file(stand.path("box/inner/file")).unwrap();
    fs::write(stand.path("box/inner/kept"), "kept").unwrap();
    let kept = inner.file("kept").unwrap();
    fs::rename(stand.path("box/inner/kept"), stand.path("box/inner/gone")).unwrap();
    symlink(stand.path("outside/secret"), stand.path("box/inner/kept")).unwrap();
    stand.dir.link(&kept, "linked").unwrap();
    assert_eq!(stand.dir.identity("linked").unwrap(), Identity::of(&kept).unwrap());
    assert!(stand.dir.link(&file, "no-name-left").is_err());
    // The taken entry can be anything; its identity shows which.
    stand.dir.take(&inner, "kept", "taken").unwrap();
    assert_ne!(stand.dir.identity("taken").unwrap(), Identity::of(&kept).unwrap());
    assert!(stand.dir.file("taken").is_err());
    assert!(stand.dir.take(&inner, "../inner/gone", "x").is_err());
}

#[test]
fn removal_takes_trees_of_any_depth_and_rights_and_nothing_outside() {
    let stand = stand();
    // Deeper than the longest path, the number of descriptors, and the stack allow.
    let mut here = stand.dir.make_dir("deep").unwrap();
    for _ in 0..3_000 {
        here.create("file", 0o600).unwrap();
        here = here.make_dir("a directory with a long name").unwrap();
    }
    fs::create_dir_all(stand.path("box/deep/moved-up-1/full")).unwrap();
    stand.dir.remove("deep").unwrap();
    assert!(!stand.path("box/deep").try_exists().unwrap());

    let locked = stand.path("box/locked");
    fs::create_dir_all(locked.join("a/b")).unwrap();
    fs::write(locked.join("a/b/file"), "file").unwrap();
    symlink(stand.path("outside"), locked.join("a/door")).unwrap();
    for (path, mode) in [("a/b", 0o000), ("a", 0o400), ("", 0o000)] {
        fs::set_permissions(locked.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    stand.dir.remove("locked").unwrap();
    assert_eq!(stand.dir.names().unwrap(), ["inner"]);
    stand.dir.remove("missing").unwrap();
    assert!(stand.dir.remove("../outside").is_err());
    assert_eq!(fs::read_to_string(stand.path("outside/secret")).unwrap(), "secret");
}

#[test]
fn used_bytes_are_those_of_all_files_below_and_nowhere_else() {
    let stand = stand();
    fs::write(stand.path("outside/large"), vec![7; 1 << 20]).unwrap();
    fs::create_dir_all(stand.path("box/a/b/c")).unwrap();
    let before = stand.dir.used_bytes().unwrap();
    symlink(stand.path("outside"), stand.path("box/a/b/c/door")).unwrap();
    fs::write(stand.path("box/a/b/c/file"), vec![7; 300_000]).unwrap();
    File::create(stand.path("box/a/holes")).unwrap().set_len(1 << 30).unwrap();
    let used = stand.dir.used_bytes().unwrap() - before;
    assert!((300_000..400_000).contains(&used), "{used}");
}

#[test]
fn a_tree_that_is_longer_than_a_path_is_measured_and_a_bottomless_one_refused() {
    let stand = stand();
    let mut here = stand.dir.make_dir("deep").unwrap();
    for level in 0..MEASURED_DEPTH_MAX + 10 {
        if level == 200 {
            here.create("file", 0o600).unwrap().write_all(&vec![7; 300_000]).unwrap();
            assert!(stand.dir.used_bytes().unwrap() >= 300_000);
        }
        here = here.make_dir("a directory with a long name").unwrap();
    }
    let error = stand.dir.used_bytes().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
}

#[test]
fn a_file_by_its_path_has_no_link_in_it() {
    let stand = stand();
    symlink(stand.path("outside"), stand.path("box/door")).unwrap();
    let root = stand.root.path().canonicalize().unwrap();
    file_without_links(&root.join("outside/secret")).unwrap();
    assert!(file_without_links(&root.join("box/door/secret")).is_err());
    assert!(file_without_links(Path::new("outside/secret")).is_err());
}
