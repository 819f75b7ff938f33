//! What a signal undoes of a run in this process: scripts end, and what the run made goes.
//!
//! Invariants: whatever must not outlive the run has an [`Unfinished`] from before it is there until it is over; the newest goes first, so scripts end
//! before their directories go. Threads of the run are still at work meanwhile: a directory gets another name before it is emptied, and nobody makes one of
//! that name again.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Once;

use client::interrupt::{self, Undone, Unfinished};
use mr_model::runner::say;
use mr_model::{Error, Result};

/// From now on a signal undoes what is unfinished and ends this process.
pub(crate) fn watch() -> Result<(), Error> {
    static WATCHED: Once = Once::new();
    let mut watched = Ok(());
    WATCHED.call_once(|| watched = interrupt::watch(|text| say(format_args!("{text}\n"))));
    watched.map_err(|source| Error::Signals { source })
}

/// Makes an output directory and those above it. It goes if a signal comes while the result lives.
pub(super) fn output(path: &Path) -> Result<Unfinished> {
    let unfinished = Unfinished::beginning(format!("the making of {}", path.display()));
    fs::create_dir_all(path).map_err(Error::file("create directory", path))?;
    let own = path.to_owned();
    unfinished.begun(Box::new(move || remove(&own)));
    Ok(unfinished)
}

/// A directory that is there goes if a signal comes while the result lives.
pub(crate) fn directory(path: &Path) -> Unfinished {
    let own = path.to_owned();
    let what = format!("the use of {}", path.display());
    Unfinished::new(what, Box::new(move || remove(&own)))
}

/// Starts a script in a process group of its own, which ends if a signal comes while the second result lives.
pub(crate) fn script(command: &mut Command) -> io::Result<(Child, Unfinished)> {
    use std::os::unix::process::CommandExt;
    let name = command.get_program().to_string_lossy().into_owned();
    let unfinished = Unfinished::beginning(format!("the script {name}"));
    let child = command.process_group(0).spawn()?;
    let group = child.id();
    unfinished.begun(Box::new(move || Ok(sys::process::kill_group(group)?)));
    Ok((child, unfinished))
}

/// Makes a directory, whose parent is there, unless it is there.
pub(crate) fn make(path: &Path) -> Result<(), Error> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(Error::file("create directory", path)),
    }
}

fn remove(path: &Path) -> Undone {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!(".{name}.undone-{}", std::process::id()));
    let gone = match fs::rename(path, &aside) {
        Ok(()) => fs::remove_dir_all(&aside).map_err(|error| (aside, error)),
        // Perhaps its parent cannot be changed: then it is emptied where it is.
        Err(_) => fs::remove_dir_all(path).map_err(|error| (PathBuf::from(path), error)),
    };
    match gone {
        Err((path, error)) if error.kind() != ErrorKind::NotFound => {
            Err(Error::file("remove", &path)(error).into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Threads of the run go on, and can make nothing there any more.
    #[test]
    fn a_directory_goes_under_the_hands_of_those_who_use_it() {
        let root = tempfile::tempdir().unwrap();
        let output = root.path().join("out");
        let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
        fs::create_dir_all(output.join("_temporary")).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0.. {
                    let attempt = output.join("_temporary").join(number.to_string());
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    if make(&attempt).is_ok() {
                        let _ = fs::write(attempt.join("part"), "x");
                    }
                    begun.store(number > 100, Ordering::Relaxed);
                }
            });
            while !begun.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            remove(&output).unwrap();
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        remove(&output).unwrap();
    }

    #[test]
    fn a_script_has_a_group_of_its_own() {
        let mut command = Command::new("sh");
        command.args(["-c", "cat & wait"]).stdin(Stdio::piped());
        let (mut child, _unfinished) = script(&mut command).unwrap();
        sys::process::kill_group(child.id()).unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
