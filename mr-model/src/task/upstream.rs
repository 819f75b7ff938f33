//! Outputs of other jobs of a plan: how a job names them, and how its tasks learn their paths.

/// Prefix of the properties with the paths; the numbers of jobs follow.
const OUTPUT_PROPERTY: &str = "hanno.plan.output.";

/// The output of a job of a [`Plan`](crate::Plan), for jobs added later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobOutput(pub(crate) usize);

/// The property with the path of the output of the job with this number in its plan.
pub fn output_property(job: usize) -> String {
    format!("{OUTPUT_PROPERTY}{job}")
}
