//! Files of the distributed file system: names, writing, reading.

pub mod transfer;
