//! The time.

/// The time as the rim sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Monotonic, milliseconds: for decisions.
    pub mono_ms: u64,
    /// Since the epoch, milliseconds: for times that are recorded.
    pub wall_ms: u64,
}
