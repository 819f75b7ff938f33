//! The time.

/// The time as the rim sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Monotonic, milliseconds: decides.
    pub mono_ms: u64,
    /// Since the epoch, milliseconds: is written down.
    pub wall_ms: u64,
}
