//! Jobs as their authors write them, run in this process. One program, so that the engine is linked once.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod combiner;
mod derive;
mod enough;
mod formats;
mod inputs;
mod jobs;
mod properties;
mod rounds;
mod sequence;
mod small_files;
mod total_order;
