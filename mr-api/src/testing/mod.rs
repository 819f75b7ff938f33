//! Helpers for the tests of job authors: one mapper, one reducer or a whole plan on given input, and the laws of keys and folds.

mod harness;
mod laws;

pub use crate::run::LocalRunner;
pub use harness::{JobDriver, MapDriver, MapRun, OutputRun, ReduceDriver};
pub use laws::{assert_fold_laws, assert_order_preserving};
