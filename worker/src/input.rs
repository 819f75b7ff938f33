//! What the worker's loop waits for, whoever sends it.

use tokio::sync::oneshot;

use crate::core::{Attempts, Event};

/// Inputs that can wait for the loop; beyond that, runners wait.
pub(crate) const INPUTS_MAX: usize = 4096;

/// An input of the loop.
pub(crate) enum Input {
    /// For the core.
    Event(Event),
    /// A monitor asks for the figures of attempts.
    Figures(oneshot::Sender<Attempts>),
}
