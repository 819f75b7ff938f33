//! DataNodes: who is registered and alive, what the operator's lists say of each, and the progress of those that leave service.

mod datanodes;
mod drains;
mod failures;
mod hosts;
mod room;

pub use self::datanodes::{Datanodes, Node, NodeIndex, NotRegistered};
pub use self::drains::Drains;
pub use self::failures::Failures;
pub use self::hosts::HostLists;

pub(in crate::core) use self::drains::{Intent, Sweep};

#[cfg(test)]
pub(crate) use self::datanodes::tests::{beat, info};
