//! What the programs of the sort benchmark share.

pub mod gensort;
pub mod record;
