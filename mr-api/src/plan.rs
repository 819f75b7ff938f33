//! What a program runs: one job after the other, then something with the result.

use std::io::Read;

use crate::Result;
use crate::job::CompleteJob;
use crate::stage::Stage;

/// What the driver does with the output.
pub(crate) type AfterFn = dyn FnOnce(&mut Finished<'_>) -> Result<()>;
/// Opens a part file.
pub(crate) type OpenFn<'a> = dyn FnOnce() -> Result<Box<dyn Read + 'a>> + 'a;

/// Jobs in order; each may read the output of the one before it ([`crate::previous`]).
pub struct Plan {
    pub(crate) stages: Vec<Box<dyn Stage>>,
    pub(crate) after: Option<Box<AfterFn>>,
}

impl From<CompleteJob> for Plan {
    fn from(job: CompleteJob) -> Self {
        Plan { stages: vec![job.stage], after: None }
    }
}

impl Plan {
    /// Adds a job that runs when the ones before it succeeded.
    pub fn then(mut self, job: CompleteJob) -> Self {
        self.stages.push(job.stage);
        self
    }

    /// What the driver does with the output when all jobs succeeded.
    pub fn after(mut self, action: impl FnOnce(&mut Finished<'_>) -> Result<()> + 'static) -> Self {
        self.after = Some(Box::new(action));
        self
    }

    /// All that must be the same in driver and task runner of stage `index`.
    pub(crate) fn description(&self, index: usize) -> String {
        let stage = self.stages.get(index).map(|stage| stage.description()).unwrap_or_default();
        format!("stage {index} of {}\n{stage}", self.stages.len())
    }
}

/// A succeeded plan, whose last output can be read.
pub struct Finished<'a> {
    /// Opens the part files of the last output in order.
    pub(crate) parts: Vec<Box<OpenFn<'a>>>,
}

impl Finished<'_> {
    /// Hands each line of the output, without its newline, to `each`.
    ///
    /// # Errors
    /// What the file system or `each` says.
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

/// FNV-1a, 64 bits, of a description: the fingerprint that driver and task runner compare.
pub(crate) fn fingerprint(description: &str) -> u64 {
    description.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The first line in which two descriptions differ, for people.
pub(crate) fn difference(submitted: &str, rebuilt: &str) -> String {
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
