//! Stands in for a place in tests: files of this machine, which have checksums, and after so many operations nothing works any more.

use std::io::Read;
use std::sync::{Mutex, PoisonError};

use protocol::acl::AclEntry;
use protocol::namenode::DiffEntry;
use protocol::xattr::Xattr;

use super::files::{Checksum, Files, NewFile, Outcome, Status, Writer};
use super::machine::Machine;
use crate::error::PlaceError;

/// See the module.
#[derive(Default)]
pub(crate) struct Double {
    /// Of every file.
    checksum: Option<Checksum>,
    /// Operations that work; `None` for all.
    works: Option<usize>,
    calls: Mutex<Vec<&'static str>>,
}

impl Double {
    /// One with files of this checksum.
    pub(crate) fn with_checksum(hex: &str) -> Self {
        let checksum = Checksum { algorithm: "CRC".to_owned(), hex: hex.to_owned() };
        Double { checksum: Some(checksum), ..Double::default() }
    }

    /// One of which so many operations work.
    pub(crate) fn that_works(count: usize) -> Self {
        Double { works: Some(count), ..Double::default() }
    }

    /// Operations so far.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn call(&self, name: &'static str) -> Outcome<Machine> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(name);
        match self.works {
            Some(works) if calls.len() > works => Err(PlaceError::Answer),
            _ => Ok(Machine::default()),
        }
    }
}

impl Files for Double {
    fn status(&self, path: &str) -> Outcome<Option<Status>> {
        self.call("status")?.status(path)
    }

    fn list(&self, path: &str) -> Outcome<Vec<Status>> {
        self.call("list")?.list(path)
    }

    fn special(&self, path: &str) -> Outcome<Option<&'static str>> {
        self.call("special")?.special(path)
    }

    fn real(&self, path: &str) -> Outcome<String> {
        self.call("real")?.real(path)
    }

    fn open(&self, path: &str, offset: u64) -> Outcome<Box<dyn Read>> {
        self.call("open")?.open(path, offset)
    }

    fn create(&self, path: &str, new: NewFile) -> Outcome<Box<dyn Writer>> {
        self.call("create")?.create(path, new)
    }

    fn append(&self, path: &str) -> Outcome<Box<dyn Writer>> {
        self.call("append")?.append(path)
    }

    fn make_directories(&self, path: &str) -> Outcome<()> {
        self.call("make_directories")?.make_directories(path)
    }

    fn rename(&self, from: &str, to: &str) -> Outcome<()> {
        self.call("rename")?.rename(from, to)
    }

    fn delete(&self, path: &str) -> Outcome<bool> {
        self.call("delete")?.delete(path)
    }

    fn checksum(&self, _: &str) -> Outcome<Option<Checksum>> {
        self.call("checksum").map(|_| self.checksum.clone())
    }

    fn set_mode(&self, _: &str, _: u16) -> Outcome<()> {
        self.call("set_mode").map(drop)
    }

    fn set_owner(&self, _: &str, _: &str, _: &str) -> Outcome<()> {
        self.call("set_owner").map(drop)
    }

    fn set_times(&self, _: &str, _: u64, _: u64) -> Outcome<()> {
        self.call("set_times").map(drop)
    }

    fn set_replication(&self, _: &str, _: u16) -> Outcome<()> {
        self.call("set_replication").map(drop)
    }

    fn acl(&self, _: &str) -> Outcome<Vec<AclEntry>> {
        self.call("acl").map(|_| Vec::new())
    }

    fn set_acl(&self, _: &str, _: &[AclEntry]) -> Outcome<()> {
        self.call("set_acl").map(drop)
    }

    fn xattrs(&self, _: &str) -> Outcome<Vec<Xattr>> {
        let xattr = Xattr { name: "user.a".to_owned(), value: Vec::new() };
        self.call("xattrs").map(|_| vec![xattr])
    }

    fn set_xattr(&self, _: &str, _: &Xattr) -> Outcome<()> {
        self.call("set_xattr").map(drop)
    }

    fn changes(&self, _: &str, _: &str, _: &str) -> Outcome<Vec<DiffEntry>> {
        self.call("changes").map(|_| Vec::new())
    }
}
