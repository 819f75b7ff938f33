//! Waiting for what others do: sockets, pipes, threads, signals.

pub mod pipe;
pub mod poll;
pub mod signals;
pub mod wake;
