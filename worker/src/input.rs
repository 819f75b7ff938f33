//! What the worker's loop waits for, whoever sends it.

use tokio::sync::{mpsc, oneshot};

use crate::core::{Attempts, Event, RunnerId};
use crate::runner::Order;

/// Inputs that can wait for the loop; beyond that, runners wait.
pub(crate) const INPUTS_MAX: usize = 4096;

/// An input of the loop.
pub(crate) enum Input {
    /// For the core.
    Event(Event),
    /// The process of a runner is over, once it was ready. Its last news follows when nothing is left of it.
    Over {
        /// The runner.
        runner: RunnerId,
        /// The orders that it has not taken.
        orders: mpsc::UnboundedReceiver<Order>,
    },
    /// A monitor asks for the figures of attempts.
    Figures(oneshot::Sender<Attempts>),
}
