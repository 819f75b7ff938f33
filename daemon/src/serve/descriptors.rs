//! How many descriptors this process may have.

use std::sync::OnceLock;

/// Descriptors that this process may have at once; at the first call, as many as the system lets it have.
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
