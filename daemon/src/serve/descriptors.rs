//! How many descriptors this process may have.

use std::sync::OnceLock;

/// Most descriptors that this process may have at once; the first call raises the limit as far as the system permits.
pub fn max() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| {
        let raised = sys::process::raise_open_files();
        if let Err(error) = &raised.raised {
            tracing::warn!(%error, limit = raised.limit, "cannot raise the limit of open files");
        }
        usize::try_from(raised.limit).unwrap_or(usize::MAX)
    })
}
