//! What the simulated disks do and what they never do.

use super::*;
use crate::disk::{self, File};
use crate::fs::{LockError, LockFile, create_private_dir, write_atomic};

const SEEDS: u64 = 300;

fn content(path: &Path) -> Vec<u8> {
    let file = File::open(path).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Every outcome of a power cut after `work`, as far as these seeds show it.
fn outcomes<T: Ord>(work: impl Fn(&Machine, &Path), see: impl Fn(&Path) -> T) -> Vec<T> {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..SEEDS {
        let machine = Machine::new(seed);
        let root = machine.add_disk(1 << 20);
        work(&machine, &root);
        machine.cut_power();
        machine.start();
        seen.insert(see(&root));
    }
    seen.into_iter().collect()
}

#[test]
fn each_sector_since_the_last_sync_is_there_or_not() {
    let work = |_: &Machine, root: &Path| {
        let file = File::create_new(&root.join("a"), 0o600).unwrap();
        file.write_all_at(&[1; 1024], 0).unwrap();
        file.sync_data().unwrap();
        disk::sync_dir(root).unwrap();
        file.write_all_at(&[2; 1024], 0).unwrap();
    };
    let seen = outcomes(work, |root| {
        let bytes = content(&root.join("a"));
        assert!(bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        (bytes.len(), bytes[0], bytes[512])
    });
    assert_eq!(seen, [(1024, 1, 1), (1024, 1, 2), (1024, 2, 1), (1024, 2, 2)]);
}

#[test]
fn a_length_that_was_not_synced_is_any_since() {
    let work = |_: &Machine, root: &Path| {
        let file = File::create_new(&root.join("a"), 0o600).unwrap();
        file.write_all_at(&[1; 100], 0).unwrap();
        file.sync_data().unwrap();
        disk::sync_dir(root).unwrap();
        file.set_len(10).unwrap();
        file.set_len(700).unwrap();
    };
    let seen = outcomes(work, |root| content(&root.join("a")).len());
    assert_eq!(seen, [10, 100, 700]);
}

#[test]
fn what_a_failed_sync_left_is_read_and_never_written() {
    let work = |machine: &Machine, root: &Path| {
        let path = root.join("a");
        let file = File::create_new(&path, 0o600).unwrap();
        file.write_all_at(&[1; 512], 0).unwrap();
        file.sync_data().unwrap();
        disk::sync_dir(root).unwrap();
        file.write_all_at(&[2; 512], 0).unwrap();
        machine.plan(1, Fault::Io);
        assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(5));
        assert_eq!(content(&path), [2; 512]);
        file.sync_data().unwrap();
    };
    assert_eq!(outcomes(work, |root| content(&root.join("a"))[0]), [1, 2]);
    let again = |machine: &Machine, root: &Path| {
        work(machine, root);
        let file = File::open_writable(&root.join("a")).unwrap();
        file.write_all_at(&[3], 0).unwrap();
        file.sync_data().unwrap();
    };
    assert_eq!(outcomes(again, |root| content(&root.join("a"))[0]), [3], "it was written again");
}

#[test]
fn of_the_names_of_a_directory_a_prefix_has_changed() {
    let names = |root: &Path| {
        let there = |name: &str| u8::from(disk::try_exists(&root.join(name)).unwrap());
        ["a", "b", "c/a"].map(there)
    };
    let work = |_: &Machine, root: &Path| {
        disk::create_dir(&root.join("c"), 0o700).unwrap();
        File::create_new(&root.join("a"), 0o600).unwrap();
        disk::sync_dir(root).unwrap();
        File::create_new(&root.join("b"), 0o600).unwrap();
        disk::rename(&root.join("a"), &root.join("c/a")).unwrap();
    };
    // A rename from one directory to another never happens in only one of them.
    assert_eq!(outcomes(work, names), [[0, 1, 1], [1, 0, 0], [1, 1, 0]]);
    let synced = |machine: &Machine, root: &Path| {
        work(machine, root);
        disk::sync_dir(&root.join("c")).unwrap();
    };
    assert_eq!(outcomes(synced, names), [[0, 1, 1]]);
}

#[test]
fn a_file_is_replaced_whole_whenever_the_power_is_cut() {
    let mut seen = std::collections::BTreeSet::new();
    for at in 1..12 {
        for seed in 0..SEEDS {
            let machine = Machine::new(seed);
            let root = machine.add_disk(1 << 20);
            let path = root.join("new/directory/file");
            create_private_dir(path.parent().unwrap()).unwrap();
            write_atomic(&path, b"old", 0o600).unwrap();
            machine.plan(at, Fault::PowerCut);
            let written = write_atomic(&path, b"and new", 0o600);
            machine.cut_power();
            machine.start();
            let found = disk::read_to_string(&path).unwrap();
            assert!(found == "and new" || (written.is_err() && found == "old"), "{found}");
            seen.insert((found, written.is_ok()));
        }
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}

#[test]
fn the_same_seed_does_the_same_again() {
    let run = |seed| {
        let machine = Machine::new(seed);
        let root = machine.add_disk(1 << 20);
        for number in 0..20u8 {
            let file = File::open_or_create(&root.join(format!("{}", number % 7)), 0o600).unwrap();
            file.write_all_at(&[number; 3000], 0).unwrap();
        }
        machine.cut_power();
        machine.start();
        let files = machine.files(&root);
        files.iter().map(|path| (path.file_name().unwrap().to_owned(), content(path))).collect()
    };
    let results: Vec<Vec<_>> = (0..20).map(run).collect();
    assert!(results == (0..20).map(run).collect::<Vec<_>>());
    assert!(results.iter().any(|one| *one != results[0]));
}

#[test]
fn a_full_disk_takes_what_fits_and_removed_files_make_room() {
    let machine = Machine::new(1);
    let root = machine.add_disk(2048);
    let [a, b] = ["a", "b"].map(|name| root.join(name));
    let file = File::create_new(&a, 0o600).unwrap();
    let full = file.write_all_at(&[1; 3000], 0).unwrap_err();
    assert_eq!((full.kind(), file.length().unwrap()), (io::ErrorKind::StorageFull, 2048));
    assert_eq!(disk::space(&root).unwrap().available, 0);
    disk::remove_file(&a).unwrap();
    assert!(disk::write(&b, &[2]).is_err(), "it is still open");
    drop(file);
    disk::write(&b, &[2]).unwrap();
    assert_eq!(disk::space(&root).unwrap().available, 2048 - 512);
}

#[test]
fn a_full_disk_can_be_locked() {
    let machine = Machine::new(1);
    let root = machine.add_disk(2048);
    let file = File::create_new(&root.join("a"), 0o600).unwrap();
    assert!(file.write_all_at(&[1; 3000], 0).is_err());
    let lock = LockFile::acquire(&root.join("lock")).unwrap();
    assert!(matches!(LockFile::acquire(&root.join("lock")), Err(LockError::Held { .. })));
    drop((lock, file));
}

#[test]
fn locks_and_files_end_with_their_process() {
    let machine = Machine::new(1);
    let root = machine.add_disk(1 << 20);
    let file = File::create_new(&root.join("a"), 0o600).unwrap();
    file.write_all_at(b"not synced", 0).unwrap();
    let lock = LockFile::acquire(&root.join("lock")).unwrap();
    assert!(matches!(LockFile::acquire(&root.join("lock")), Err(LockError::Held { .. })));
    machine.kill();
    assert!(disk::length(&root.join("a")).is_err());
    drop(lock);
    machine.start();
    LockFile::acquire(&root.join("lock")).unwrap();
    assert_eq!(content(&root.join("a")), b"not synced", "only the process has ended");
    assert!(file.write_all_at(b"x", 0).is_err());
    assert!(file.real().is_err());
    drop(file);
    assert!(sim_is_gone_with(machine, &root));
}

/// Whether the system has the path again once nothing refers to the machine.
fn sim_is_gone_with(machine: Machine, root: &Path) -> bool {
    drop(machine);
    !is_simulated(&root.join("lock"))
}
