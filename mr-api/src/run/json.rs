//! What `--json` prints.

use mr_model::Result;
use mr_model::runner::print;
use serde::Serialize;

/// Prints one line on standard output. If the reader has left, nobody misses the line.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    print(&format!("{}\n", serde_json::to_string(value)?));
    Ok(())
}
