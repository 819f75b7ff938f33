//! What a driver needs of a cluster, and what it leaves of a plan.

use std::path::PathBuf;

use client::dfs::DfsClient;
use client::job::JobClient;
use protocol::DfsPath;
use protocol::jobs::{Counters, JobReport};

/// The clients of a cluster.
#[derive(Clone)]
pub(crate) struct Connected {
    pub(crate) dfs: DfsClient,
    pub(crate) jobs: JobClient,
}

/// A plan that has run.
pub(crate) struct Ran {
    /// The sums over its jobs.
    pub(crate) counters: Counters,
    /// Of the last job.
    pub(crate) report: Option<JobReport>,
    /// The output of the last job.
    pub(crate) output: Output,
}

/// Where an output is.
pub(crate) enum Output {
    /// On this machine.
    Machine(PathBuf),
    /// On the cluster.
    Cluster(DfsPath),
}
