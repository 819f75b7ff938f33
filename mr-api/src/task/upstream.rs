//! Outputs of other jobs of a plan: how a job names them, and how its tasks learn their paths.

/// Prefix of the properties with the paths; the numbers of jobs follow.
const OUTPUT_PROPERTY: &str = "hanno.plan.output.";

/// The output of a job of a [`Plan`](crate::Plan), for jobs added later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobOutput(pub(crate) usize);

impl JobOutput {
    /// The property with the path of this output.
    pub(crate) fn property(self) -> String {
        format!("{OUTPUT_PROPERTY}{}", self.0)
    }
}
