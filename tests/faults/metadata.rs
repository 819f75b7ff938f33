//! Damage to the metadata of a NameNode that was stopped: what the commands say is what the start does, a mirror makes up for all
//! of it, and nothing is given up without being told first.

use std::fs;
use std::path::{Path, PathBuf};

use super::{assert_content, options, put};
use crate::support::{Cluster, Options, Outcome, data};

fn segments(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    paths.sort();
    paths
}

/// Flips a bit in the payload of the record that made a directory.
fn flip_in_the_record_of(directory: &Path, name: &str) {
    for path in segments(directory) {
        let mut bytes = fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(name.len()).position(|part| part == name.as_bytes()) {
            bytes[at] ^= 1;
            return fs::write(&path, bytes).unwrap();
        }
    }
    panic!("{name} is in no log file of {}", directory.display());
}

fn metadata(cluster: &Cluster, words: &[&str]) -> Outcome {
    let directory = cluster.directory.join("namenode-1");
    let mut arguments = vec!["admin", "metadata", words[0], "--dir", directory.to_str().unwrap()];
    arguments.extend(&words[1..]);
    cluster.hanno(&arguments)
}

#[test]
fn a_damaged_log_is_told_by_verify_and_given_up_by_repair_only_when_it_is_asked_to() {
    let mut cluster = Cluster::start(options(2));
    for name in ["/before", "/damaged-one", "/after-it"] {
        cluster.dfs(&["-mkdir", name]).ok();
    }
    cluster.stop();
    let journal = cluster.directory.join("namenode-1/journal");
    flip_in_the_record_of(&journal.join("log"), "damaged-one");

    // The checkpoint has it all: the command says so, and that a bit has changed.
    let verified = metadata(&cluster, &["verify"]);
    assert!(verified.stdout_text().contains("the next start begins from"), "{verified:?}");
    assert!(verified.stdout_text().contains("are lost in the log"), "{verified:?}");
    cluster.restart();
    for name in ["/before", "/damaged-one", "/after-it"] {
        cluster.dfs(&["-test", "-d", name]).ok();
    }
    cluster.stop();

    // Without any checkpoint the log alone does not do.
    fs::remove_dir_all(journal.join("sled")).unwrap();
    fs::remove_dir_all(journal.join("image")).unwrap();
    let verified = metadata(&cluster, &["verify"]);
    assert_eq!(verified.code, 1);
    let text = verified.stdout_text();
    assert!(
        text.contains("the next start would refuse") && text.contains("metadata repair"),
        "{text}"
    );
    let before = segments(&journal.join("log"));
    let refused = metadata(&cluster, &["repair"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("nothing was changed"), "{refused:?}");
    let told = refused.stdout_text();
    assert!(told.contains("GIVES UP records") && told.contains("after-it"), "{told}");
    assert_eq!(segments(&journal.join("log")), before);

    metadata(&cluster, &["repair", "--yes"]).ok();
    let verified = metadata(&cluster, &["verify"]);
    assert!(verified.stdout_text().contains("the next start begins from"), "{verified:?}");
    cluster.restart();
    cluster.dfs(&["-test", "-d", "/before"]).ok();
    assert_eq!(cluster.dfs(&["-test", "-d", "/damaged-one"]).code, 1);
    assert_eq!(cluster.dfs(&["-test", "-d", "/after-it"]).code, 1);
}

#[test]
fn an_emptied_log_is_no_new_cluster() {
    let mut cluster = Cluster::start(options(2));
    cluster.dfs(&["-mkdir", "/before"]).ok();
    cluster.stop();
    let journal = cluster.directory.join("namenode-1/journal");
    for lost in ["sled", "image", "log"] {
        fs::rename(journal.join(lost), journal.join(format!("{lost}.away"))).unwrap();
    }
    let verified = metadata(&cluster, &["verify"]);
    assert_eq!(verified.code, 1, "{verified:?}");
    assert!(verified.stdout_text().contains("the next start would refuse"), "{verified:?}");
    for lost in ["sled", "image", "log"] {
        let _ = fs::remove_dir_all(journal.join(lost));
        fs::rename(journal.join(format!("{lost}.away")), journal.join(lost)).unwrap();
    }
    cluster.restart();
    cluster.dfs(&["-test", "-d", "/before"]).ok();
}

/// Both masters with everything on a second disk, too, and an image of each journal every now and then.
fn mirrored(mirror: &Path) -> Options {
    let place = format!("[{:?}]", mirror.to_str().unwrap());
    let mut options = Options { ..options(2) };
    options.variables.push(("HANNO_NAMENODE_LOG_DIRS", place.clone()));
    options.variables.push(("HANNO_JOBTRACKER_LOG_DIRS", place));
    options.variables.push(("HANNO_NAMENODE_IMAGE_INTERVAL_MS", "200".to_owned()));
    options.variables.push(("HANNO_JOBTRACKER_IMAGE_INTERVAL_MS", "200".to_owned()));
    options
}

/// Where the masters keep their journals, and the mirrors of these.
const JOURNALS: [(&str, &str); 2] =
    [("namenode-1/journal", "namenode-journal"), ("jobtracker-1", "jobtracker-journal")];

#[test]
fn a_log_on_a_second_disk_makes_up_for_the_loss_of_the_first_for_both_masters() {
    let mirror = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(mirrored(mirror.path()));
    let content = data::bytes(3, 100_000);
    put(&cluster, "/x", &content, (1 << 20, 2));
    put(&cluster, "/text", b"a b a", (1 << 20, 2));
    cluster.example("wordcount", &["--reducers", "1", "/text", "/out"]).ok();
    let jobs = cluster.hanno(&["job", "-list", "all"]).ok().stdout_text();
    cluster.stop();
    for (journal, kept) in JOURNALS {
        let journal = cluster.directory.join(journal);
        let (log, kept) = (journal.join("log"), mirror.path().join(kept).join("log"));
        assert_eq!(segments(&log).len(), segments(&kept).len());
        let _ = fs::remove_dir_all(journal.join("sled"));
        let _ = fs::remove_dir_all(journal.join("image"));
        segments(&log).iter().for_each(|path| fs::write(path, "rubbish").unwrap());
    }
    // It finds the mirror by itself, says what is wrong, and that a start will do.
    let verified = metadata(&cluster, &["verify"]);
    let text = verified.stdout_text();
    assert!(
        text.contains("is not as it was written") && text.contains("the next start begins"),
        "{text}"
    );
    cluster.restart();
    assert_content(&cluster, "/x", &content);
    assert_eq!(cluster.hanno(&["job", "-list", "all"]).ok().stdout_text(), jobs);
    cluster.stop();
    for (journal, kept) in JOURNALS {
        let log = cluster.directory.join(journal).join("log");
        let kept = mirror.path().join(kept).join("log");
        let names = |paths: Vec<PathBuf>| -> Vec<_> {
            paths.iter().map(|path| path.file_name().unwrap().to_owned()).collect()
        };
        let [ours, theirs] = [names(segments(&log)), names(segments(&kept))];
        assert!(ours.ends_with(&theirs) || theirs.ends_with(&ours), "{ours:?} {theirs:?}");
    }
}

/// The records at which the files in a directory begin, or of which they tell.
fn records(directory: &Path) -> Vec<u64> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<u64> =
        names.filter_map(|path| path.file_stem()?.to_str()?.parse().ok()).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_second_disk_makes_up_for_the_loss_of_the_first_for_both_masters() {
    let mirror = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(mirrored(mirror.path()));
    let content = data::bytes(4, 100_000);
    put(&cluster, "/text", b"a b a", (1 << 20, 2));
    let kept = JOURNALS.map(|(_, kept)| mirror.path().join(kept));
    let mut imaged = [0; 2];
    for round in 0..3 {
        put(&cluster, &format!("/x{round}"), &content, (1 << 20, 2));
        cluster.example("wordcount", &["--reducers", "1", "/text", &format!("/out{round}")]).ok();
        // Each stop writes a checkpoint, and images follow.
        cluster.stop();
        cluster.restart();
        for (kept, imaged) in kept.iter().zip(&mut imaged) {
            let newest = || records(&kept.join("image")).last().copied().unwrap_or(0);
            let what = format!("{} has a new image", kept.display());
            cluster.wait_until(&what, 60, |_| newest() > *imaged);
            *imaged = newest();
        }
    }
    // Files of the logs have been removed: what was in them is in images alone.
    for kept in &kept {
        let what = format!("{} is pruned", kept.display());
        cluster.wait_until(&what, 60, |_| records(&kept.join("log"))[0] > 1);
    }
    put(&cluster, "/after", &content, (1 << 20, 2));
    let listed = cluster.dfs(&["-ls", "-R", "/"]).ok().stdout_text();
    let jobs = cluster.hanno(&["job", "-list", "all"]).ok().stdout_text();
    cluster.stop();
    for master in ["namenode-1", "jobtracker-1"] {
        fs::remove_dir_all(cluster.directory.join(master)).unwrap();
    }
    for kept in &kept {
        let words = ["admin", "metadata", "verify", "--dir", kept.to_str().unwrap()];
        let text = cluster.hanno(&words).ok().stdout_text();
        assert!(text.contains("the next start begins from"), "{text}");
    }
    cluster.restart();
    assert_eq!(cluster.dfs(&["-ls", "-R", "/"]).ok().stdout_text(), listed);
    for name in ["/x0", "/x1", "/x2", "/after"] {
        assert_content(&cluster, name, &content);
    }
    assert_eq!(cluster.hanno(&["job", "-list", "all"]).ok().stdout_text(), jobs);
    cluster.example("wordcount", &["--reducers", "1", "/text", "/out-again"]).ok();
    cluster.stop();

    // And the other way: the first disk, filled again, makes up for the loss of the second.
    kept.iter().for_each(|kept| fs::remove_dir_all(kept).unwrap());
    cluster.restart();
    assert_content(&cluster, "/after", &content);
    cluster.dfs(&["-test", "-d", "/out-again"]).ok();
}

#[test]
fn the_metadata_of_a_stopped_namenode_is_shown_in_hadoops_formats() {
    let mut cluster = Cluster::start(options(2));
    cluster.dfs(&["-mkdir", "/d"]).ok();
    put(&cluster, "/d/f", b"abc", (1 << 20, 2));
    let directory = cluster.directory.join("namenode-1");
    let home = tempfile::tempdir().unwrap();
    let output = home.path().join("out");
    let (input, file) = (directory.to_str().unwrap(), output.to_str().unwrap());
    let busy = cluster.hanno(&["oiv", "-p", "Delimited", "-i", input, "-o", file]);
    assert!(busy.code == 255 && busy.stderr.contains("stop it first"), "{busy:?}");
    assert!(!output.try_exists().unwrap());
    cluster.stop();

    cluster.hanno(&["oiv", "-p", "Delimited", "-i", input, "-o", file]).ok();
    let lines = fs::read_to_string(&output).unwrap();
    let line = lines.lines().find(|line| line.starts_with("/d/f\t")).unwrap();
    let columns: Vec<&str> = line.split('\t').collect();
    assert_eq!((columns[1], columns[5], columns[6]), ("2", "1", "3"), "{line}");
    let image = cluster.hanno(&["oiv", "-p", "XML", "-i", input]).ok().stdout_text();
    assert!(
        image.contains("<type>FILE</type><name>f</name><replication>2</replication>"),
        "{image}"
    );

    // A file of the log that was copied away tells the same as the directory.
    let log = segments(&directory.join("journal/log")).pop().unwrap();
    let copy = home.path().join(log.file_name().unwrap());
    fs::copy(&log, &copy).unwrap();
    let edits = |input: &str| cluster.hanno(&["oev", "-i", input, "-o", "-"]).ok().stdout_text();
    let all = edits(input);
    let part = edits(copy.to_str().unwrap());
    assert!(all.contains("<OPCODE>OP_MKDIR</OPCODE>") && all.contains("<NAME>d</NAME>"), "{all}");
    let records: Vec<&str> = part.split("<RECORD>").skip(1).collect();
    assert!(
        !records.is_empty() && records.iter().all(|record| all.contains(record.trim())),
        "{part}"
    );
    cluster.hanno(&["oev", "-p", "stats", "-i", input, "-o", file]).ok();
    let stats = fs::read_to_string(&output).unwrap();
    let closed = stats.lines().find(|line| line.trim_start().starts_with("OP_CLOSE ")).unwrap();
    let count: u64 = closed.rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!(count as usize, all.matches("<OPCODE>OP_CLOSE</OPCODE>").count(), "{stats}");
    assert!(count > 0, "{stats}");

    // A directory without metadata stays as it is; one that lost the mark of its start still holds some.
    let empty = home.path().join("empty");
    fs::create_dir(&empty).unwrap();
    for tool in ["oiv", "oev"] {
        let told = cluster.hanno(&[tool, "-p", "XML", "-i", empty.to_str().unwrap(), "-o", file]);
        assert!(told.code == 255 && told.stderr.contains("holds no metadata"), "{tool}: {told:?}");
        assert_eq!(fs::read_dir(&empty).unwrap().count(), 0, "{tool} left something behind");
    }
    fs::remove_file(directory.join("journal/epoch")).unwrap();
    let told = cluster.hanno(&["oiv", "-p", "XML", "-i", input]);
    assert!(!told.stderr.contains("holds no metadata"), "{told:?}");
}
