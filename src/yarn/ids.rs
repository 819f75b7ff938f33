//! Ids as people type them: of YARN, or of jobs and attempts.

use std::fmt;

use protocol::{AttemptId, JobId};

use super::words::Wrong;

/// The number of the one attempt that an application has.
const ATTEMPT: &str = "000001";

/// A job under its name in YARN.
pub(super) struct Application(pub(super) JobId);

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "application_{}", rest(self.0))
    }
}

/// The one attempt at an application.
pub(super) struct ApplicationAttempt(pub(super) JobId);

impl fmt::Display for ApplicationAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "appattempt_{}_{ATTEMPT}", rest(self.0))
    }
}

/// A job's id without its first word.
fn rest(job: JobId) -> String {
    job.to_string().trim_start_matches("job_").to_owned()
}

/// The job that `application_…` or `job_…` names.
pub(super) fn job(text: &str) -> Result<JobId, Wrong> {
    let named = text.strip_prefix("application_").map(|rest| format!("job_{rest}"));
    let job = named.as_deref().unwrap_or(text).parse();
    job.map_err(|_| Wrong::new(format!("Invalid ApplicationId: {text}")))
}

/// The job that `appattempt_…_000001`, `application_…` or `job_…` names.
pub(super) fn job_of_attempt(text: &str) -> Result<JobId, Wrong> {
    let Some(rest) = text.strip_prefix("appattempt_") else { return job(text) };
    let wrong = || Wrong::new(format!("Invalid AppAttemptId: {text}"));
    let (id, number) = rest.rsplit_once('_').ok_or_else(wrong)?;
    if number != ATTEMPT {
        return Err(Wrong::new(format!("{text}: an application has one attempt here, _{ATTEMPT}")));
    }
    format!("job_{id}").parse().map_err(|_| wrong())
}

/// The attempt that a container is.
pub(super) fn container(text: &str) -> Result<AttemptId, Wrong> {
    let wrong = "a container is an attempt here, as `yarn container -list` shows them: attempt_202611201830_0001_m_000005_0";
    text.parse().map_err(|_| Wrong::new(format!("Invalid ContainerId: {text}: {wrong}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_have_the_ids_of_both() {
        let expected = JobId { cluster_start: 202_611_201_830, number: 7 };
        for text in ["application_202611201830_0007", "job_202611201830_0007"] {
            assert_eq!(job(text), Ok(expected));
            assert_eq!(job_of_attempt(text), Ok(expected));
        }
        assert_eq!(Application(expected).to_string(), "application_202611201830_0007");
        let attempt = ApplicationAttempt(expected).to_string();
        assert_eq!(attempt, "appattempt_202611201830_0007_000001");
        assert_eq!(job_of_attempt(&attempt), Ok(expected));
        for text in ["", "application_1", "application_x_1", "job_1", "appattempt_1_2_000001"] {
            assert!(job(text).is_err(), "{text}");
        }
        for text in ["appattempt_202611201830_0007_000002", "appattempt_202611201830", "x"] {
            assert!(job_of_attempt(text).is_err(), "{text}");
        }
        assert!(container("attempt_202611201830_0001_m_000005_0").is_ok());
        assert!(container("container_1_2_01_000001").is_err());
    }
}
