//! What a task knows of itself and reports: ids, properties, counters, phases, the record that it is in.

mod context;
mod counters;
pub(crate) mod cursor;
mod output;
pub(crate) mod phases;
pub mod replay;
pub(crate) mod upstream;

pub use context::{Context, TaskCounts, TaskInput};
pub use counters::{Counter, CounterGroup, Tally, counted};
pub use output::Output;

pub(crate) use context::{INPUT_COUNTERS, OpenFile, TASK_COUNTERS};
pub(crate) use cursor::{PartCursor, RecordCursor, Skipped};
pub(crate) use output::{LocalFiles, Naming, OutputFile, OutputFiles, OutputOptions};
