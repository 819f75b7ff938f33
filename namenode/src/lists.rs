//! Reads the lists of DataNodes that an operator keeps in files.

use std::io;
use std::path::Path;

use crate::config::Config;
use crate::core::hosts::HostLists;
use crate::error::Error;

/// Reads both lists. A list that is configured and cannot be read is an error: taken as empty, it would let everybody in.
///
/// # Errors
/// [`Error::Directory`] names the file.
pub(crate) fn read(config: &Config) -> Result<HostLists, Error> {
    Ok(HostLists {
        include: config.hosts_file.as_deref().map(read_one).transpose()?.unwrap_or_default(),
        exclude: config
            .hosts_exclude_file
            .as_deref()
            .map(read_one)
            .transpose()?
            .unwrap_or_default(),
    })
}

fn read_one(path: &Path) -> Result<std::collections::BTreeSet<String>, Error> {
    let fail =
        |source: io::Error| Error::Directory { action: "read", path: path.to_owned(), source };
    Ok(HostLists::parse(&std::fs::read_to_string(path).map_err(fail)?))
}
