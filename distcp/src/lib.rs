//! `distcp`: copies of trees within a cluster, to and from this machine, and between clusters, as a MapReduce job.
//!
//! ```text
//! driver    sources, patterns ─► list ─► bundles of about the same bytes ─► job
//! map       a bundle: file by file under a temporary name, checked, attributes, renamed
//! reduce    one, after all maps: the log, what killed attempts left, deletions, directories, publication
//! ```
//!
//! | module | |
//! |---|---|
//! | `options`, `attributes` | the command line |
//! | `places` | the file systems |
//! | `listing`, `difference`, `bundles` | what to copy, and which map does |
//! | `shift` | what `-diff` moves in the target |
//! | `spared` | what no copy deletes in the target |
//! | `order`, `job`, `copy`, `keep`, `commit`, `throttle` | the job and its tasks |
//! | `run` | the driver |
//!
//! Invariant: lists and tokens are in a directory that only the user may read; the last step deletes them, and the driver the directory.

mod attributes;
mod bundles;
mod commit;
mod copy;
mod difference;
mod error;
mod job;
mod keep;
mod listing;
mod options;
mod order;
mod places;
mod run;
mod shift;
mod spared;
mod throttle;

pub use error::{Error, PlaceError};
pub use run::{Outcome, Site, USAGE, run, run_tasks};
