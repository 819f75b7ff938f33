//! Processes that, once their parents are gone, have left behind everything that identifies them: found as children of the process that adopts them. It is
//! alone in this file, as that is a property of the whole process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sys::orphans::{adopt, end_all, ended, start};
use sys::sandbox::{Access, AllowedPath, Walls, confine};

const PROC: &str = "/proc";
const ROUND_PAUSE: Duration = Duration::from_millis(5);

/// Processes that sleep for so long; not those that are about to become one.
fn sleeps(seconds: &str) -> usize {
    let wanted = format!("sleep\0{seconds}\0");
    let is_one = |entry: &fs::DirEntry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|words| words == wanted.as_bytes())
    };
    fs::read_dir(PROC).unwrap().filter_map(Result::ok).filter(is_one).count()
}

#[test]
fn what_left_its_parents_and_all_marks_behind_is_ended_and_other_children_are_not() {
    const SECONDS: &str = "87651";
    adopt().unwrap();
    let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
    let places =
        ["/usr", "/bin", "/lib", "/lib64"].map(|path| AllowedPath::new(path, Access::Read));
    let mut places: Vec<AllowedPath> = places.into();
    places.push(AllowedPath::new("/dev/null", Access::Use));
    let walls = Walls { places, user: None, temporary: None };
    let script = format!(
        "(setsid -f env -i sleep {SECONDS}); (env -i setsid setsid -f sleep {SECONDS} &); :"
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdout(Stdio::null()).stderr(Stdio::null());
    confine(&mut command, &walls).unwrap();
    let mut child = start(|| command.spawn().map(|child| (child.id(), child))).unwrap();
    child.wait().unwrap();
    ended(child.id());
    let deadline = Instant::now() + Duration::from_secs(20);
    while sleeps(SECONDS) < 2 {
        assert!(Instant::now() < deadline, "they never began");
        std::thread::sleep(ROUND_PAUSE);
    }
    assert!(end_all(|_, _| true).unwrap());
    assert_eq!(sleeps(SECONDS), 2, "they were somebody's");
    assert!(end_all(|_, _| false).unwrap());
    while sleeps(SECONDS) > 0 {
        assert!(Instant::now() < deadline, "they were left");
        std::thread::sleep(ROUND_PAUSE);
    }
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
}
