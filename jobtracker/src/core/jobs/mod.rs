//! Jobs and their tasks, as tables that [`super::Core`] keeps: each job by itself.
//!
//! | table | file |
//! |---|---|
//! | a job, its maps and reduces, their attempts | [`job`], [`task_set`], [`task`] |
//! | tasks that wait, by place | [`pending`] |
//! | what a job asks of the scheduler | [`settings`] |
//! | what winners counted | [`counters`] |
//! | which partitions are reduced together | [`reduce_plan`] |
//! | records that maps leave out | [`skipping`] |

mod counters;
mod job;
mod pending;
mod reduce_plan;
mod settings;
mod skipping;
mod task;
mod task_set;

pub(crate) use self::counters::Excess;
pub(crate) use self::job::{Job, Launched, Patience, Phase, SPLITS_KEPT_MAX, TEMPORARY};
pub(crate) use self::settings::Settings;
pub(crate) use self::task::{Attempt, AttemptState, Standing, StopReason, Task, TaskOutput};
pub(crate) use self::task_set::TaskSet;
