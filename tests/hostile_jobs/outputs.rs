//! Tasks that lie to their worker: about where a map output is, what it is, what it holds, and about attempts that are not theirs. The program that does
//! it is `tests/programs/hostile.rs`, by the names of these rows.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use super::scene::{Scene, map_and_cut};
use super::{Act, Attack, Control};

/// Time after which an open counts as one that waits.
const OPEN_MAX: Duration = Duration::from_millis(500);

const fn lie(
    name: &'static str,
    tries: &'static str,
    target: fn(&Scene) -> String,
    has_succeeded: fn(&Scene, &str) -> bool,
    outside: fn(&Path, &Path) -> bool,
) -> Attack {
    let control = Control::Outside(outside);
    Attack { name, tries, act: Act::Program(target), has_succeeded, control }
}

pub(super) const ATTACKS: &[Attack] = &[
    lie(
        "data-becomes-link",
        "have the worker serve the secret, by a link in the place of a reported output",
        |scene| scene.secret_file(),
        |scene, printed| printed.contains(&scene.secret()),
        reads_target,
    ),
    lie(
        "index-is-link",
        "take a map output of somebody else by links to its index and data",
        |scene| scene.loot(),
        |scene, printed| printed.contains(scene.loot_text()),
        reads_target,
    ),
    lie(
        "parent-becomes-link",
        "read and write in the owner's home, by a link in the place of the output's directory",
        |scene| scene.home_file(),
        |scene, printed| {
            printed.contains(scene.home_text().trim())
                || fs::read_to_string(scene.home_file()).unwrap() != scene.home_text()
        },
        reads_target,
    ),
    lie(
        "data-is-hard-link",
        "have a file with another name linked into the box",
        |scene| scene.marked_file(),
        accepted,
        |told, target| {
            let [told, target] = [told, target].map(|path| path.symlink_metadata().unwrap());
            told.is_file() && told.ino() == target.ino()
        },
    ),
    lie("index-is-fifo", "hold up the worker by a FIFO", nothing, accepted, |told, _| {
        waits(&told.with_extension("index"))
    }),
    lie("data-is-fifo", "hold up the worker by a FIFO", nothing, accepted, |told, _| waits(told)),
    lie("index-is-device", "read without end", nothing, accepted, |told, _| {
        fs::File::open(told.with_extension("index")).is_ok()
    }),
    lie("data-is-device", "read without end", nothing, accepted, opens),
    lie("index-is-directory", "break the read of an index", nothing, accepted, |told, _| {
        fs::File::open(told.with_extension("index")).is_ok()
    }),
    lie("data-is-directory", "break the read of an output", nothing, accepted, opens),
    lie("data-is-socket", "break the open of an output", nothing, accepted, |told, _| {
        told.try_exists().unwrap()
    }),
    lie(
        "index-counts-wrong",
        "have memory taken for 2^32 partitions",
        nothing,
        accepted,
        is_sealed,
    ),
    lie("index-offsets-wrong", "have bytes read from far away", nothing, accepted, is_sealed),
    lie("index-lengths-wrong", "have more bytes read than there are", nothing, accepted, is_sealed),
    lie("index-sums-wrong", "overflow the sum of the lengths", nothing, accepted, is_sealed),
    lie("index-sizes-wrong", "overflow the sum of the sizes", nothing, accepted, is_sealed),
    lie("index-names-more", "have more partitions than the job", nothing, accepted, is_sealed),
    lie("index-names-fewer", "have fewer partitions than the job", nothing, accepted, is_sealed),
    lie("cut-off-later", "end who reads an output by cutting it off", nothing, a_worker_died, {
        |told, _| map_and_cut(told)
    }),
    lie("path-parent", "report a path that climbs", nothing, accepted, opens),
    lie(
        "path-absolute",
        "report the output of another job",
        |scene| scene.loot(),
        |scene, printed| accepted(scene, printed) || printed.contains(scene.loot_text()),
        |told, target| told == target && opens(told, target),
    ),
    lie("path-directory", "report a directory", nothing, accepted, opens),
    lie("path-empty", "report no path", nothing, accepted, |told, _| {
        // Joined to the directory it is the directory.
        std::env::temp_dir().join(told).is_dir()
    }),
    lie("path-no-text", "report a path that is no text", nothing, accepted, |_, target| {
        // The kernel takes it.
        let name = std::os::unix::ffi::OsStrExt::from_bytes(&[0xff; 4]);
        let name: &std::ffi::OsStr = name;
        fs::write(target.with_file_name(name), "").is_ok()
    }),
    Attack {
        name: "speaks-for-another",
        tries: "tell the progress of another user's attempt",
        act: Act::Program(|scene| scene.victim_attempt().to_owned()),
        has_succeeded: accepted,
        control: Control::AboutItself,
    },
    Attack {
        name: "blames-another",
        tries: "have another user's map run again",
        act: Act::Program(|scene| scene.victim_attempt().to_owned()),
        has_succeeded: accepted,
        control: Control::AboutItself,
    },
];

fn nothing(_: &Scene) -> String {
    String::new()
}

/// A reduce was given it, or the task was let live; or nobody ended it at all.
fn accepted(_: &Scene, printed: &str) -> bool {
    printed.contains("ACCEPTED") || printed.contains(super::scene::HUNG)
}

fn a_worker_died(scene: &Scene, printed: &str) -> bool {
    scene.has_lost_a_worker() || printed.contains(super::scene::HUNG)
}

fn reads_target(told: &Path, target: &Path) -> bool {
    fs::read(told).unwrap() == fs::read(target).unwrap()
}

fn opens(told: &Path, _: &Path) -> bool {
    fs::File::open(told).is_ok()
}

/// True if an open waits for another.
fn waits(path: &Path) -> bool {
    let (sender, receiver) = mpsc::channel();
    let opened = path.to_owned();
    let opening = std::thread::spawn(move || {
        let opened = fs::File::open(opened);
        let _ = sender.send(());
        drop(opened);
    });
    let waits = receiver.recv_timeout(OPEN_MAX).is_err();
    // Lets it go.
    let _ = fs::File::options().write(true).open(path);
    opening.join().unwrap();
    waits
}

/// True if the checksums of the index, which has one group, fit what it says.
fn is_sealed(told: &Path, _: &Path) -> bool {
    let bytes = fs::read(told.with_extension("index")).unwrap();
    let fits = |crc: &[u8], parts: &[&[u8]]| crc32fast::hash(&parts.concat()).to_le_bytes() == crc;
    let (head, group) = bytes.split_at(20);
    let (entries, crc) = group.split_at(group.len() - 4);
    fits(&head[16..], &[&head[..16]]) && fits(crc, &[&head[..16], &0u32.to_le_bytes(), entries])
}
