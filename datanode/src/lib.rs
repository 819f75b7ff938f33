//! The DataNode: stores replicas of blocks, serves them, copies them on the NameNode's orders.

pub mod core;
pub mod error;
pub mod store;
pub mod transfer;

pub use error::Error;
