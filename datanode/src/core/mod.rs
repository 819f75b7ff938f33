//! Decisions of a DataNode without effects: no clock, no file, no socket.

pub mod copy;
pub mod deletions;
pub mod losses;
pub mod member;
pub mod recovery;
pub mod replica;
pub mod report;
pub mod scrub;
pub mod session;
pub mod throttle;
pub mod volumes;
