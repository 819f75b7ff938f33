//! Opens files of this machine for jobs.

use std::fs::File;
use std::path::Path;

use mr_model::Error;

/// Opens an input or a side file.
pub(crate) fn open(path: &Path) -> Result<File, Error> {
    sys::fs::open_input(path).map_err(Error::file("open", path))
}
