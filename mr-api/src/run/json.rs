//! What `--json` prints.

use mr_model::runner::print;
use mr_model::{Error, Result};
use serde::Serialize;

/// Prints one line on standard output.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    Ok(print(&format!("{}\n", serde_json::to_string(value)?)).map_err(Error::Unprinted)?)
}
