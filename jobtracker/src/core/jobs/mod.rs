//! Jobs and their tasks, as tables of [`super::Core`]; each job is independent of the others.
//!
//! | table | file |
//! |---|---|
//! | a job, its maps and reduces, their attempts | [`job`], [`task_set`], [`task`] |
//! | tasks that wait, by place | [`pending`] |
//! | what a job's properties set for the scheduler | [`settings`] |
//! | counters of winners | [`counters`] |
//! | what running attempts report | [`live`] |
//! | how many ended since this start | [`ends`] |
//! | which partitions are reduced together | [`reduce_plan`] |
//! | the rounds of a job, if it has any | [`rounds`], [`in_rounds`] |
//! | records that maps skip | [`skipping`] |

mod counters;
mod ends;
mod in_rounds;
mod job;
mod live;
mod pending;
mod reduce_plan;
mod rounds;
mod settings;
mod skipping;
mod task;
mod task_set;

pub(crate) use self::ends::Ends;
pub(crate) use self::job::{Job, Launched, Patience, Phase, SPLITS_KEPT_MAX, TEMPORARY};
pub(crate) use self::rounds::TooLong;
pub(crate) use self::settings::Settings;
pub(crate) use self::task::{Attempt, AttemptState, Standing, StopReason, Task, TaskOutput};
pub(crate) use self::task_set::TaskSet;
