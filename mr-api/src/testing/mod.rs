//! Helpers for the tests of job authors: one mapper, one reducer or a whole plan on given input, and the laws of keys and folds.

mod harness;

pub use crate::run::LocalRunner;
pub use harness::{JobDriver, MapDriver, MapRun, OutputRun, ReduceDriver};
pub use mr_model::testing::{assert_fold_laws, assert_order_preserving};
