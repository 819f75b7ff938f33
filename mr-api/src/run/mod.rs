//! What a job program does once it has a plan: drive it on a cluster, run it here, or run tasks for a worker.

mod address;
mod args;
pub(crate) mod conf;
mod debugger;
mod dfs;
mod driver;
pub(crate) mod entry;
mod inputs;
pub(crate) mod local;
pub(crate) mod options;
mod printing;
mod program;
mod progress;
pub(crate) mod runner;
pub(crate) mod session;
mod shipped;
mod side_files;
mod unread;

#[cfg(test)]
pub(crate) use args::OPTIONS_HELP;
pub use args::{Args, usage_error};
pub(crate) use args::{once, wants_next};
pub use entry::main;
pub use local::LocalRunner;
pub use printing::{Stdout, stdout};
pub use program::{Cluster, Done, Program};
pub use progress::{Speaker, Voice};

pub(crate) use options::{MERGE_FACTOR_DEFAULT, Options};
pub(crate) use shipped::Shipped;
pub(crate) use side_files::FILES_PROPERTY;
