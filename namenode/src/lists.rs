//! Reads the lists of DataNodes that an operator keeps in files.

use std::io;
use std::path::Path;

use crate::config::Config;
use crate::core::nodes::HostLists;
use crate::error::Error;

/// Reads the lists. One that is configured and cannot be read is an error: taken as empty, it would let everybody in.
///
/// # Errors
/// [`Error::Directory`] and [`Error::Hosts`] name the file.
pub(crate) fn read(config: &Config) -> Result<HostLists, Error> {
    let mut lists = match config.hosts_file.as_deref() {
        Some(path) => HostLists::parse_hosts(&read_one(path)?)
            .map_err(|problem| Error::Hosts { path: path.to_owned(), problem })?,
        None => HostLists::default(),
    };
    if let Some(path) = config.hosts_exclude_file.as_deref() {
        lists.exclude.append(&mut HostLists::parse(&read_one(path)?));
    }
    Ok(lists)
}

fn read_one(path: &Path) -> Result<String, Error> {
    let fail =
        |source: io::Error| Error::Directory { action: "read", path: path.to_owned(), source };
    std::fs::read_to_string(path).map_err(fail)
}
