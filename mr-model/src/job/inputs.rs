//! What a job reads: files in a format, the output of other jobs of its plan, or numbers.

use mr_formats::{Format, Lines, Rows};

use crate::engine::InputPaths;
use crate::task::upstream::JobOutput;

/// An input: paths and their format. Made by [`text`] or [`previous`].
#[derive(Clone, Debug)]
pub struct Input<F> {
    pub(crate) paths: InputPaths,
    pub(crate) format: F,
}

/// The lines of text files. A directory stands for the files in it; names that begin with `_` or `.` are skipped.
pub fn text<P: Into<String>>(paths: impl IntoIterator<Item = P>) -> Input<Lines> {
    let paths = InputPaths::Paths(paths.into_iter().map(Into::into).collect());
    Input { paths, format: Lines }
}

/// Files in any [`Format`]; directories and hidden files as in [`text`].
///
/// ```
/// use mr_api::formats::FixedLength;
/// use mr_api::from_files;
///
/// let records = from_files(["/measurements"], FixedLength { bytes: 100 });
/// # let _ = records;
/// ```
pub fn from_files<F: Format, P: Into<String>>(
    paths: impl IntoIterator<Item = P>,
    format: F,
) -> Input<F> {
    Input { paths: InputPaths::Paths(paths.into_iter().map(Into::into).collect()), format }
}

/// The lines of the output of the job before this one in a [`Plan`](crate::Plan).
pub fn previous() -> Input<Lines> {
    Input { paths: InputPaths::Previous, format: Lines }
}

/// The outputs of jobs added earlier, in any [`Format`].
pub fn output_of<F: Format>(jobs: impl IntoIterator<Item = JobOutput>, format: F) -> Input<F> {
    Input { paths: InputPaths::Outputs(jobs.into_iter().collect()), format }
}

/// The output of the job before this one, in any [`Format`].
pub fn previous_as<F: Format>(format: F) -> Input<F> {
    Input { paths: InputPaths::Previous, format }
}

/// The numbers from 0 up to `rows`, in `maps` splits of about the same length.
///
/// ```
/// use mr_api::job::rows;
/// use mr_api::{Job, LocalRunner, text_out};
///
/// # let scratch = tempfile::tempdir()?;
/// # let path = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
/// let job = Job::new("squares")
///     .input(rows(5, 1))
///     .map_fn::<u64, u64, _>(|row, out| out.emit(row, row * row))
///     .output(text_out(path("out")));
/// LocalRunner::new().run(job)?;
/// assert_eq!(std::fs::read_to_string(path("out/part-m-00000"))?, "0\t0\n1\t1\n2\t4\n3\t9\n4\t16\n");
/// # Ok::<(), mr_api::BoxError>(())
/// ```
pub fn rows(rows: u64, maps: u32) -> Input<Rows> {
    Input { paths: InputPaths::Rows { rows, maps: maps.max(1) }, format: Rows }
}
