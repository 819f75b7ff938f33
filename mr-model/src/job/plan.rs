//! A program's jobs, each run as soon as the jobs it reads are done, and an action on the result.

use std::collections::BTreeSet;
use std::io::Read;

use protocol::jobs::Counters;

use super::builder::CompleteJob;
use super::graph::Graph;
use crate::engine::InputPaths;
use crate::error::Result;
use crate::task::upstream::JobOutput;
use crate::task::{CounterGroup, counted};

/// What the driver does with the output.
pub(crate) type AfterFn = dyn FnOnce(&mut Finished<'_>) -> Result<()>;
/// Opens a part file.
pub type OpenFn<'a> = dyn FnOnce() -> Result<Box<dyn Read + 'a>> + 'a;

/// Jobs that belong together. In a chain, each reads the output of the one before it ([`crate::previous`]). In a graph, each can read the
/// output of any job before it ([`output_of`](crate::job::output_of)), and jobs that do not need each other run at once.
///
/// ```
/// use mr_api::job::output_of;
/// use mr_api::{Job, Lines, Plan, Sum, intermediate, text, text_out};
///
/// let words = |name: &str, path: &str| {
///     Job::new(name)
///         .input(text([path]))
///         .map_fn::<Vec<u8>, u64, _>(|line, out| line.words().try_for_each(|word| out.emit(word, 1u64)))
///         .reduce(Sum)
///         .output(intermediate())
/// };
/// let mut plan = Plan::new();
/// let (old, new) = (plan.add(words("old", "/old")), plan.add(words("new", "/new")));
/// let all = Job::new("all")
///     .input(output_of([old, new], Lines))
///     .map_fn::<Vec<u8>, u64, _>(|line, out| out.emit(line.bytes, 1u64))
///     .reduce(Sum)
///     .output(text_out("/all"));
/// plan.add(all);
/// ```
#[derive(Default)]
pub struct Plan(Planned);

/// A plan as its runner sees it.
#[derive(Default)]
pub struct Planned {
    /// The jobs.
    pub graph: Graph,
    /// What is done with the output of the last one.
    pub after: Option<Box<AfterFn>>,
}

impl From<Plan> for Planned {
    fn from(plan: Plan) -> Self {
        plan.0
    }
}

impl From<CompleteJob> for Plan {
    fn from(job: CompleteJob) -> Self {
        Plan::new().then(job)
    }
}

impl Plan {
    /// No jobs yet.
    pub fn new() -> Self {
        Plan::default()
    }

    /// Adds a job that runs when all jobs before it have succeeded.
    pub fn then(mut self, job: CompleteJob) -> Self {
        self.0.graph.needs.push((0..self.0.graph.stages.len()).collect());
        self.0.graph.stages.push(job.stage);
        self
    }

    /// Adds a job that runs as soon as the jobs whose output it reads have succeeded: at once if it reads none. Returns a handle to its
    /// output.
    pub fn add(&mut self, job: CompleteJob) -> JobOutput {
        let index = self.0.graph.stages.len();
        let mut needs = BTreeSet::new();
        for input in &job.stage.settings().inputs {
            match &input.paths {
                InputPaths::Outputs(jobs) => needs.extend(jobs.iter().map(|job| job.0)),
                InputPaths::Previous => needs.extend(index.checked_sub(1)),
                InputPaths::Paths(_) | InputPaths::Rows { .. } => {}
            }
        }
        self.0.graph.needs.push(needs);
        self.0.graph.stages.push(job.stage);
        JobOutput(index)
    }

    /// Adds a job that also waits until `others` have succeeded, because it reads their output by name or as a side file.
    pub fn add_after(
        &mut self,
        job: CompleteJob,
        others: impl IntoIterator<Item = JobOutput>,
    ) -> JobOutput {
        let added = self.add(job);
        self.0.graph.needs[added.0].extend(others.into_iter().map(|job| job.0));
        added
    }

    /// What the driver does with the output when all jobs have succeeded.
    pub fn after(mut self, action: impl FnOnce(&mut Finished<'_>) -> Result<()> + 'static) -> Self {
        self.0.after = Some(Box::new(action));
        self
    }
}

/// A succeeded plan, whose last output can be read.
pub struct Finished<'a> {
    /// The sums over all jobs.
    counters: Counters,
    /// Opens the part files of the last output in order.
    parts: Vec<Box<OpenFn<'a>>>,
}

impl<'a> Finished<'a> {
    /// With the sums of the counters of all jobs, and what opens the part files of the last output, in order.
    pub fn new(counters: Counters, parts: Vec<Box<OpenFn<'a>>>) -> Self {
        Finished { counters, parts }
    }

    /// The counters of all jobs together.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A typed counter of all jobs together.
    pub fn counted<G: CounterGroup>(&self, counter: G) -> u64 {
        counted(&self.counters, counter)
    }

    /// Hands each line of the output, without its newline, to `each`. Compressed files are decompressed.
    ///
    /// # Errors
    /// Errors of the file system or of `each`.
    pub fn for_each_line(&mut self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        let mut carry = Vec::new();
        for open in self.parts.drain(..) {
            let mut part = open()?;
            loop {
                let count = part.read(&mut buffer)?;
                if count == 0 {
                    break;
                }
                let mut rest = &buffer[..count];
                while let Some(end) = memchr::memchr(b'\n', rest) {
                    if carry.is_empty() {
                        each(&rest[..end])?;
                    } else {
                        carry.extend_from_slice(&rest[..end]);
                        each(&carry)?;
                        carry.clear();
                    }
                    rest = &rest[end + 1..];
                }
                carry.extend_from_slice(rest);
            }
            if !carry.is_empty() {
                each(&carry)?;
                carry.clear();
            }
        }
        Ok(())
    }
}

/// Read at once from an output file.
const READ_BYTES: usize = 256 << 10;

/// Job property that holds the description of the plan, so that workers can name a difference.
pub const DESCRIPTION_PROPERTY: &str = "hanno.plan.description";

/// FNV-1a hash, 64 bits, of a description: the fingerprint that driver and task runner compare.
pub fn fingerprint(description: &str) -> u64 {
    description.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The first line in which two descriptions differ, for people.
pub fn difference(submitted: &str, rebuilt: &str) -> String {
    let (mut submitted, mut rebuilt) = (submitted.lines(), rebuilt.lines());
    loop {
        match (submitted.next(), rebuilt.next()) {
            (None, None) => return "nothing that is described".to_owned(),
            (a, b) if a == b => {}
            (a, b) => {
                let (a, b) = (a.unwrap_or("nothing"), b.unwrap_or("nothing"));
                return format!("submitted was `{a}`, here it is `{b}`");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        assert_eq!(
            difference("job a\nkey u64\n", "job a\nkey String\n"),
            "submitted was `key u64`, here it is `key String`"
        );
        assert_ne!(fingerprint("a"), fingerprint("b"));
        assert_eq!(fingerprint("a"), 0xaf63_dc4c_8601_ec8c, "FNV-1a's published value");
    }
}
