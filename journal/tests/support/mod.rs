//! A journal of a map, as its owner would have it, and files about it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use journal::{Change, Journal, JournalError, Options, Recover, RecoverError, Recovered, Txid};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Map {
    pub(crate) rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Map {
    pub(crate) fn edit(&mut self, body: &[u8]) {
        self.rows.insert(body[..2].to_vec(), body[2..].to_vec());
    }
}

impl Recover for Map {
    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecoverError> {
        match self.rows.insert(key.to_vec(), value.to_vec()) {
            None => Ok(()),
            Some(_) => Err(RecoverError::new("a row came twice")),
        }
    }

    fn loaded(&mut self, _: Txid) -> Result<(), RecoverError> {
        Ok(())
    }

    fn replay(&mut self, _: Txid, body: &[u8]) -> Result<(), RecoverError> {
        self.edit(body);
        Ok(())
    }

    fn reset(&mut self) {
        self.rows.clear();
    }
}

pub(crate) fn body(txid: u64) -> Vec<u8> {
    let mut body = ((txid * 7919 % 700) as u16).to_be_bytes().to_vec();
    body.extend_from_slice(&vec![txid as u8; 10 + (txid % 200) as usize]);
    body
}

/// The state after `last` records.
pub(crate) fn model(last: u64) -> Map {
    let mut map = Map::default();
    (1..=last).for_each(|txid| map.edit(&body(txid)));
    map
}

pub(crate) fn open(options: &Options) -> Result<(Journal, Recovered, Map), JournalError> {
    let mut map = Map::default();
    let fatal = |error: &JournalError| panic!("stopped: {error}");
    let (journal, recovered) =
        Journal::open(options.clone(), &mut map, Box::new(|_| ()), Box::new(fatal))?;
    Ok((journal, recovered, map))
}

/// A journal with records 1 to 1500, checkpoints up to 1200, and images as of 600 and 1200.
pub(crate) fn filled(options: &Options) {
    let (journal, _, _) = open(options).unwrap();
    for round in 0..5 {
        let from = round * 300;
        let txid = journal.append((from + 1..=from + 300).map(body).collect());
        assert!(journal.wait_durable(txid));
        if round < 4 {
            let before = model(from).rows;
            let changes = model(from + 300)
                .rows
                .into_iter()
                .filter(|(key, value)| before.get(key) != Some(value))
                .map(|(key, value)| Change { key, value: Some(value) });
            journal.checkpoint(txid, changes.collect());
        }
        if round % 2 == 1 {
            let image = journal.export_image().unwrap();
            assert!(image.is_file());
        }
    }
    journal.close();
    assert_eq!(journal.applied(), Txid(1200));
}

pub(crate) fn options(dir: &Path) -> Options {
    Options { segment_bytes_max: 48 << 10, cache_bytes: 4 << 20, ..Options::new(dir) }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    paths
}
