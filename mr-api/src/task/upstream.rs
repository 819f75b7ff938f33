//! Outputs of other jobs of a plan: how a job names them, and how its tasks hear where they lie.

/// Prefix of the properties that say so; the numbers of jobs follow.
const OUTPUT_PROPERTY: &str = "hanno.plan.output.";

/// The output of a job of a [`Plan`](crate::Plan), for jobs added later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobOutput(pub(crate) usize);

impl JobOutput {
    /// The property with the place of this output.
    pub(crate) fn property(self) -> String {
        format!("{OUTPUT_PROPERTY}{}", self.0)
    }
}
