//! What a job's function reads besides its arguments, and how that reaches the workers, where the function runs again.
//!
//! ```text
//! driver   function ─► variables it reads are noted, files it asks for become side files, values it makes are kept
//!            └─ all of it as words before the job's arguments: --shipped-env, --shipped-file, --shipped-value
//! task     words ─► the same answers for the function
//! ```
//!
//! Invariant: in a task, a variable, file or value that the driver did not ship is an error, or is the worker's own.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::path::{Path, PathBuf};

use mr_model::runner::SideFile;
use mr_model::{Error, Result};
use sys::environment::Answers;

use super::side_files;

const ENV: &str = "--shipped-env";
const FILE: &str = "--shipped-file";
const VALUE: &str = "--shipped-value";

/// Variables that describe the machine or the process and not the job: the worker's values apply.
const OF_MACHINE: [&str; 3] = ["PATH", "TMPDIR", "PWD"];
/// Prefixes of more variables of that kind.
const OF_MACHINE_PREFIXES: [&str; 3] = ["HANNO_", "RUST_", "LD_"];
/// Longest value that is sent, bytes: less than the kernel's limit for one argument of a process.
const VALUE_BYTES_MAX: usize = 100 << 10;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shipped {
    /// True in a task: a value that is missing here was not shipped.
    is_task: bool,
    /// True in the driver of a program with steps, which run with their parameters alone.
    is_of_program: bool,
    variables: BTreeMap<String, Option<String>>,
    /// Paths of files, as the function names them.
    files: BTreeSet<String>,
    values: BTreeMap<String, String>,
}

impl Shipped {
    /// Takes the shipped values off the front of a command line.
    pub(crate) fn take(words: &[String]) -> (Self, &[String]) {
        let (mut shipped, mut rest) = (Shipped::default(), words);
        while let [option, text, more @ ..] = rest {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (text.clone(), None),
            };
            match (option.as_str(), value) {
                (ENV, value) => drop(shipped.variables.insert(name, value)),
                (FILE, _) => drop(shipped.files.replace(text.clone())),
                (VALUE, Some(value)) => drop(shipped.values.insert(name, value)),
                _ => break,
            }
            rest = more;
        }
        shipped.is_task = super::runner::is_task();
        (shipped, rest)
    }

    /// Of a driver that is a program: its arguments are read in this process alone.
    pub(crate) fn of_program() -> Self {
        Shipped { is_of_program: true, ..Shipped::default() }
    }

    /// Runs the job's function: in a driver this records the variables it reads, in a task they have the recorded values.
    pub(crate) fn around<T>(&mut self, function: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.is_task {
            let answers = self.answers()?;
            return sys::environment::answer(answers, || function(self));
        }
        let (result, names) = sys::environment::note(|| function(self));
        let result = result?;
        self.keep(names)?;
        Ok(result)
    }

    fn answers(&self) -> Result<Answers> {
        let mut answers = Answers::new();
        for (name, value) in &self.variables {
            let value = value.as_ref().map(|value| CString::new(value.as_str())).transpose()?;
            answers.insert(name.clone().into_bytes(), value);
        }
        Ok(answers)
    }

    fn keep(&mut self, names: BTreeSet<Vec<u8>>) -> Result<()> {
        for name in names {
            let name = String::from_utf8_lossy(&name).into_owned();
            let of_machine = OF_MACHINE.contains(&name.as_str())
                || OF_MACHINE_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            if of_machine {
                continue;
            }
            let value = match std::env::var(&name) {
                Ok(value) => Some(value),
                Err(std::env::VarError::NotPresent) => None,
                Err(std::env::VarError::NotUnicode(_)) => {
                    let text = format!(
                        "the job reads the environment variable {name}, which is not UTF-8 and cannot be sent to workers"
                    );
                    return Err(Error::usage(text).into());
                }
            };
            check_length(&name, value.as_deref().unwrap_or_default())?;
            self.variables.insert(name, value);
        }
        Ok(())
    }

    /// The command-line words that hold the shipped values.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (name, value) in &self.variables {
            let text =
                value.as_ref().map_or_else(|| name.clone(), |value| format!("{name}={value}"));
            words.extend([ENV.to_owned(), text]);
        }
        for path in &self.files {
            words.extend([FILE.to_owned(), path.clone()]);
        }
        for (name, value) in &self.values {
            words.extend([VALUE.to_owned(), format!("{name}={value}")]);
        }
        words
    }

    /// The path of a file of the driver's machine: here, or where the worker has put it.
    pub(crate) fn file(&mut self, path: &str) -> Result<PathBuf> {
        let name = name_of(path);
        if self.is_task {
            if !self.files.contains(path) {
                return Err(not_shipped("file", path).into());
            }
            return Ok(side_files::place(&std::env::current_dir()?, &name));
        }
        if self.is_of_program {
            let text = format!(
                "the file {path} would not be sent: a step gets what it needs as parameters, and its tasks get the files of Job::side_file"
            );
            return Err(Error::usage(text).into());
        }
        let here = Path::new(path);
        if !std::fs::metadata(here).map_err(Error::file("read", here))?.is_file() {
            return Err(Error::usage(format!("{path} is not a file")).into());
        }
        let other = self.files.iter().find(|other| name_of(other) == name && *other != path);
        if let Some(other) = other {
            let text =
                format!("the files {other} and {path} have the same name: tasks find them by it");
            return Err(Error::usage(text).into());
        }
        self.files.insert(path.to_owned());
        Ok(here.to_owned())
    }

    /// The files as side files of the job.
    pub(crate) fn side_files(&self) -> Result<Vec<SideFile>, Error> {
        self.files.iter().map(|path| SideFile::of_machine(path, &name_of(path))).collect()
    }

    /// A value that only the driver makes.
    pub(crate) fn value(
        &mut self,
        name: &str,
        make: impl FnOnce() -> Result<String>,
    ) -> Result<String> {
        if let Some(value) = self.values.get(name) {
            return Ok(value.clone());
        }
        if self.is_task {
            return Err(not_shipped("value", name).into());
        }
        if name.is_empty() || name.contains('=') {
            return Err(Error::usage(format!("`{name}` cannot be the name of a value")).into());
        }
        let value = make()?;
        check_length(name, &value)?;
        self.values.insert(name.to_owned(), value.clone());
        Ok(value)
    }
}

/// The name under which workers store a file.
fn name_of(path: &str) -> String {
    Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn check_length(name: &str, value: &str) -> Result<()> {
    if value.len() <= VALUE_BYTES_MAX && !value.contains('\0') {
        return Ok(());
    }
    let text = format!(
        "{name} has {} bytes, more than {VALUE_BYTES_MAX}, or a zero byte: send a file",
        value.len()
    );
    Err(Error::usage(text).into())
}

fn not_shipped(what: &'static str, name: &str) -> Error {
    Error::NotShipped { what, name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_comes_back_in_a_task() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a:b=c #1.txt").to_string_lossy().into_owned();
        std::fs::write(&path, "x").unwrap();
        let mut driver = Shipped::default();
        let read = |shipped: &mut Shipped| {
            let user = std::env::var("CARGO_PKG_NAME").ok();
            let missing = std::env::var("NOT_SET_ANYWHERE").ok();
            let _ = std::env::var("PATH");
            shipped.file(&path)?;
            let seed = shipped.value("seed", || Ok("7=8".to_owned()))?;
            Ok((user, missing, seed))
        };
        let here = driver.around(read).unwrap();
        let words = [driver.words(), vec!["--top".into(), "3".into()]].concat();
        let (mut task, rest) = Shipped::take(&words);
        assert_eq!(rest, ["--top", "3"]);
        let sent: Vec<String> =
            driver.side_files().unwrap().into_iter().map(|file| file.name).collect();
        assert_eq!(sent, ["a:b=c #1.txt"]);
        assert_eq!(
            (&task.variables, &task.files, &task.values),
            (&driver.variables, &driver.files, &driver.values)
        );
        assert!(!task.variables.contains_key("PATH"), "the worker's holds");
        task.is_task = true;
        let there = task.around(|task| {
            assert!(task.file(&path).unwrap().ends_with("side-files/a:b=c #1.txt"));
            assert!(task.file("/elsewhere").unwrap_err().to_string().contains("/elsewhere"));
            assert!(task.value("time", || panic!("only the driver makes it")).is_err());
            read(task)
        });
        assert_eq!(there.unwrap(), here);
    }
}
