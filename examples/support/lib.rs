//! Code shared by the programs of the sort benchmark.

pub mod gensort;
pub mod record;
