//! What a task knows of itself and reports: ids, properties, counters, phases, the record that it is in.

pub(crate) mod context;
mod counters;
pub(crate) mod cursor;
pub(crate) mod output;
pub(crate) mod phases;
pub mod replay;
pub(crate) mod state;
pub(crate) mod upstream;

pub use context::Context;
pub use counters::{Counter, CounterGroup, Tally, counted};
pub use output::Output;
pub use state::{TaskCounts, TaskInput};

pub(crate) use cursor::{PartCursor, RecordCursor};
pub(crate) use output::{Naming, OutputOptions};
pub(crate) use state::{INPUT_COUNTERS, OpenFile, TASK_COUNTERS, TaskState};
