//! The state for people and clients: reports ([`report`]), and pictures of jobs and workers for pages ([`picture`], [`worker_picture`]).

mod picture;
mod reads;
mod report;
mod worker_picture;

pub(crate) use self::picture::{AttemptPicture, AttemptRow, Picture, TASK_GROUP};
#[cfg(test)]
pub(crate) use self::picture::{Gathered, InputSize, Metric, WorkerName};
pub(crate) use self::report::WorkerRow;
pub(crate) use self::worker_picture::{FailedAttempt, RunningAttempt, WorkerPicture};
