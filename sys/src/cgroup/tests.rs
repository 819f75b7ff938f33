//! Tests with real groups of this machine's kernel, of both versions as far as it has them. Tests about the group of the process itself run in copies of this
//! program, each in a group made for it.

use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, ExitStatus, Output, Stdio};
use std::time::Instant;

#[path = "../../tests/support/mod.rs"]
mod support;

use needs::{Need, lacks};
use support::copy_of_this_program;

use super::files::{members_of, words};
use super::*;
use crate::sandbox::try_user;

/// Set for copies of this program, to the directory of the group that they were put into.
const BASE_VARIABLE: &str = "HANNO_TEST_BASE";
/// The controller that a copy hands down.
const CONTROLLER_VARIABLE: &str = "HANNO_TEST_CONTROLLER";
/// A user id that nobody has.
const USER: u32 = 54_321;
const DEADLINE: Duration = Duration::from_secs(60);
/// A script that leaves its session, its parents and its environment again and again, under a new id each time.
const HOPS: &str = "h='setsid -f env -i PATH=\"$PATH\" h=\"$h\" sh -c \"$h\"'; export h; eval \"$h\"; eval \"$h\"; sleep 1000 & wait";

/// The groups of each version available here, under a name; for each other version it reports the reason.
fn of_each_version(name: &str) -> Vec<Groups> {
    let name = format!("hanno-test-{name}-{}", std::process::id());
    let opened = [Groups::open_first(&name, None), Groups::open_second(&name, None)];
    let opened = opened
        .into_iter()
        .filter_map(|groups| groups.inspect_err(|error| lacks(Need::Cgroups, error)).ok());
    opened.inspect(|groups| println!("with {:?}", groups.support())).collect()
}

fn start(group: &Group, script: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null());
    group.enter(&mut command).unwrap();
    command.spawn().unwrap()
}

/// Calls `end` while another thread waits for the process.
fn end(child: Child, end: impl FnOnce() -> bool + Send) {
    assert!(!status_after(child, end).success(), "it was ended before it was done");
}

fn status_after(mut child: Child, end: impl FnOnce() -> bool + Send) -> ExitStatus {
    std::thread::scope(|scope| {
        let ending = scope.spawn(end);
        let status = child.wait().unwrap();
        assert!(ending.join().unwrap(), "something was left");
        status
    })
}

fn until(what: &str, is_done: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_done() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(ROUND_PAUSE);
    }
}

#[test]
fn a_task_that_forks_for_ever_meets_the_bound_and_is_ended_whole() {
    const LIMIT: u64 = 60;
    for groups in of_each_version("forks") {
        if let Err(reason) = &groups.support.forks {
            lacks(Need::Cgroups, format_args!("{:?}: {reason}", groups.support.version));
            groups.clear().unwrap();
            continue;
        }
        let bounds = Bounds { threads: Some(LIMIT), memory_bytes: None };
        let group = groups.group("task", &bounds).unwrap();
        let script = "b() { b & b & }; (exec 2>/dev/null; while :; do setsid -f env -i sleep 1000; b; done) & wait";
        let child = start(&group, script);
        until("it meets its bound", || {
            assert!(group.read("pids.current").trim().parse::<u64>().unwrap() <= LIMIT);
            group.count("pids.events", "max").unwrap() > 0
        });
        // A shell that cannot fork any more may have given up by itself.
        status_after(child, || group.end().unwrap());
        assert_eq!(group.members().unwrap(), BTreeSet::new());
        drop(group);
        groups.clear().unwrap();
        assert!(!groups.directory.is_dir());
    }
}

/// The last way is for kernels before 5.14.
#[test]
fn processes_that_leave_everything_behind_and_change_their_ids_are_ended() {
    for groups in of_each_version("hops") {
        let frozen = |group: &Group| {
            group.freeze(true).unwrap();
            group.end_by_rounds().unwrap()
        };
        let plain: fn(&Group) -> bool = |group| group.end().unwrap();
        let ways: &[fn(&Group) -> bool] = match groups.support.version {
            Version::First => &[plain],
            Version::Second => &[plain, frozen],
        };
        for way in ways {
            let group = groups.group("task", &Bounds::default()).unwrap();
            let child = start(&group, HOPS);
            let first = group.members().unwrap();
            until("they have changed their ids", || {
                let now = group.members().unwrap();
                now.len() > 2 && now.difference(&first).count() > 1
            });
            end(child, || way(&group));
            assert_eq!(group.members().unwrap(), BTreeSet::new());
            drop(group);
            assert!(!groups.directory.join("task").is_dir(), "nothing was left that held it");
        }
        groups.clear().unwrap();
    }
}

#[test]
fn memory_of_every_kind_is_bounded_and_the_task_ends_as_a_whole() {
    const LIMIT: u64 = 48 << 20;
    let unique = std::process::id();
    for groups in of_each_version("memory") {
        if let Err(reason) = &groups.support.memory {
            lacks(Need::Cgroups, format_args!("{:?}: {reason}", groups.support.version));
            groups.clear().unwrap();
            continue;
        }
        let bounds = Bounds { threads: Some(100), memory_bytes: Some(LIMIT) };
        let modest = groups.group("modest", &bounds).unwrap();
        assert!(
            start(&modest, "head -c 8m /dev/zero | tail -c 8m | cat").wait().unwrap().success()
        );
        assert!(!modest.was_ended_for_memory().unwrap());
        drop(modest);
        for script in [
            "head -c 100m /dev/zero | tail -c 100m".to_owned(),
            format!("head -c 100m /dev/zero >/dev/shm/hanno-test-{unique}"),
        ] {
            let group = groups.group("task", &bounds).unwrap();
            let child =
                start(&group, &format!("setsid -f env -i sleep 1000; {script}; sleep 1000"));
            end(child, || {
                until("the kernel ends it", || group.was_ended_for_memory().unwrap());
                until("all of it", || group.members().unwrap().is_empty());
                true
            });
            // Nobody uses it any more.
            let _ = fs::remove_file(format!("/dev/shm/hanno-test-{unique}"));
            group.end().unwrap();
        }
        groups.clear().unwrap();
    }
}

#[test]
fn a_group_that_could_not_be_removed_is_taken_again() {
    for groups in of_each_version("again") {
        let bound = |threads| Bounds { threads: Some(threads), memory_bytes: None };
        let group = groups.group("task", &bound(10)).unwrap();
        let child = start(&group, "sleep 1000; exit 1");
        drop(group);
        let again = groups.group("task", &bound(7)).unwrap();
        if groups.support.forks.is_ok() {
            assert_eq!(again.read("pids.max"), "7\n");
        }
        assert!(again.members().unwrap().contains(&child.id()));
        end(child, || again.end().unwrap());
        drop(again);
        // What was ended does not hinder the next start.
        let next = groups.group("task", &bound(7)).unwrap();
        assert!(start(&next, "exit 0").wait().unwrap().success());
        drop(next);
        groups.clear().unwrap();
    }
}

#[test]
fn what_an_earlier_daemon_left_is_ended() {
    for groups in of_each_version("left") {
        let name = groups.directory.file_name().unwrap().to_str().unwrap();
        let child = start(&groups.group("task", &Bounds::default()).unwrap(), HOPS);
        end(child, || {
            let again = match groups.support.version {
                Version::First => Groups::open_first(name, None),
                Version::Second => Groups::open_second(name, None),
            };
            again.unwrap() == groups
        });
        groups.clear().unwrap();
    }
}

/// This works by the rights of whoever opened the way in, not by its own.
#[test]
fn a_process_of_another_user_is_in_its_group_from_the_start_and_cannot_leave() {
    let user = User::new(1_900_000_200).unwrap();
    if let Err(error) = try_user(user, &[]) {
        lacks(Need::Users, error);
        return;
    }
    let name = format!("hanno-test-user-{}", std::process::id());
    for opened in [Groups::open_first(&name, Some(user)), Groups::open_second(&name, Some(user))] {
        let Ok(groups) = opened.inspect_err(|error| lacks(Need::Cgroups, error)) else { continue };
        let group = groups.group("task", &Bounds::default()).unwrap();
        let above = groups.directory.parent().unwrap().join("cgroup.procs");
        let script = format!("cat /proc/self/cgroup; echo 0 >{} && echo LEFT", above.display());
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        group.enter(&mut command).unwrap();
        let output = user.act(|| command.output()).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("/{name}/task\n")) && !text.contains("LEFT"), "{text}");
        drop(group);
        groups.clear().unwrap();
    }
}

/// The surroundings of a copy.
#[derive(Clone, Copy, Default)]
struct Around {
    /// The copy runs as an ordinary user that owns the group.
    is_given_to_user: bool,
    /// The copy runs as an ordinary user that does not own the group.
    is_kept_from_user: bool,
    /// A process of somebody else is in the group too.
    has_stranger: bool,
    /// The group is marked as systemd marks one that it has delegated.
    is_marked: bool,
}

/// Runs [`a_copy_hands_down`] in a group of its own. Returns its output, and whether the stranger is where it was.
fn copy(around: Around) -> Option<(String, bool)> {
    let top = place::own(Version::Second)
        .and_then(|own| Ok((words(&own.directory.join("cgroup.controllers"))?, own)));
    let top = top.inspect_err(|error| lacks(Need::Cgroups, error)).ok();
    let (controllers, top) = top.filter(|_| rustix::process::geteuid().is_root())?;
    let mut handed = controllers.iter().filter(|name| share::hands_down(&top.directory, name));
    // Prefer a threaded controller: the kernel hands those down past processes, to no effect.
    let Some(controller) = handed.clone().find(|name| *name == FORKS).or_else(|| handed.next())
    else {
        lacks(Need::Cgroups, "groups here hand down no controllers");
        return None;
    };
    let unique =
        format!("hanno-test-base-{:?}-{}", std::thread::current().id(), std::process::id());
    let base = top.directory.join(unique.replace(['(', ')'], ""));
    fs::create_dir(&base).unwrap();
    let is_user = around.is_given_to_user || around.is_kept_from_user;
    for name in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
        if around.is_given_to_user {
            chown(base.join(name), Some(USER), Some(USER)).unwrap();
        }
    }
    if around.is_marked {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&base, "trusted.delegate", b"1", flags).unwrap();
    }
    let mut stranger = around.has_stranger.then(|| {
        let group = Group { directory: base.clone(), version: Version::Second };
        let child = start(&group, "exec sleep 1000");
        std::mem::forget(group);
        child
    });
    let output = run_copy(&base, controller, is_user);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    let own = members_of(&base).unwrap();
    let is_in_place = stranger.as_ref().is_some_and(|stranger| own.contains(&stranger.id()));
    if let Some(stranger) = &mut stranger {
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
    until("the groups are empty", || {
        let _ = fs::remove_dir(base.join(share::LEAF));
        fs::remove_dir(&base).is_ok()
    });
    Some((text, is_in_place))
}

fn run_copy(base: &Path, controller: &str, is_user: bool) -> Output {
    let (_directory, program) = copy_of_this_program();
    let become_user = format!(
        "setpriv --reuid={USER} --regid={USER} --clear-groups --bounding-set=-all --inh-caps=-all"
    );
    let script = format!(
        "echo 0 >\"$0/cgroup.procs\" && exec {} \"$@\"",
        if is_user { &become_user } else { "" }
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(base).arg(&program);
    command.args(["--exact", "cgroup::tests::a_copy_hands_down", "--nocapture"]);
    command.env(BASE_VARIABLE, base).env(CONTROLLER_VARIABLE, controller);
    command.current_dir("/").output().unwrap()
}

/// Runs in a group made for it, and does what a daemon does there.
#[test]
fn a_copy_hands_down() {
    let (Ok(base), Ok(controller)) =
        (std::env::var(BASE_VARIABLE), std::env::var(CONTROLLER_VARIABLE))
    else {
        return;
    };
    let own = || share::base(place::own(Version::Second).unwrap());
    assert_eq!(own().directory, Path::new(&base));
    let groups = match Groups::open_second("hanno-test-place", None) {
        Ok(groups) => groups,
        Err(error) => return println!("CLOSED {:?}", error.kind()),
    };
    match share::hand_down(&own(), &groups.directory, &controller) {
        Ok(()) => println!("HANDED"),
        Err(error) => println!("KEPT {error}"),
    }
    // Wherever this process is now, its place is the same.
    assert_eq!(own().directory, Path::new(&base));
    share::hand_down(&own(), &groups.directory, &controller).ok();
    let group = groups.group("task", &Bounds::default()).unwrap();
    let child = start(&group, HOPS);
    end(child, || group.end().unwrap());
    drop(group);
    let again = Groups::open_second("hanno-test-place", None).unwrap();
    assert_eq!(again.directory, groups.directory);
    again.clear().unwrap();
}

#[test]
fn a_process_makes_room_for_the_groups_of_its_tasks() {
    for around in [Around::default(), Around { is_given_to_user: true, ..Around::default() }] {
        let Some((told, _)) = copy(around) else { return };
        assert!(told.contains("HANDED"), "{told}");
    }
}

#[test]
fn processes_of_others_stay_where_they_are_unless_the_group_was_given_away() {
    let stranger = Around { has_stranger: true, ..Around::default() };
    let Some((told, is_in_place)) = copy(stranger) else { return };
    assert!(told.contains("KEPT") && told.contains("the process ") && is_in_place, "{told}");
    let (told, is_in_place) = copy(Around { is_marked: true, ..stranger }).unwrap();
    assert!(told.contains("HANDED") && !is_in_place, "{told}");
}

#[test]
fn a_group_that_belongs_to_somebody_else_is_left_alone() {
    let Some((told, _)) = copy(Around { is_kept_from_user: true, ..Around::default() }) else {
        return;
    };
    assert!(told.contains("CLOSED PermissionDenied"), "{told}");
}

/// Otherwise every write would succeed and limit nothing.
#[test]
fn a_place_that_lies_under_another_file_system_is_none() {
    if std::env::var_os(BASE_VARIABLE).is_some() {
        for version in [Version::First, Version::Second] {
            let hidden = place::own(version).unwrap_err().to_string();
            assert!(hidden.contains("hidden by something else"), "{hidden}");
        }
        return println!("SEEN");
    }
    let [first, second] = [Version::First, Version::Second].map(place::own);
    let (Ok(first), Ok(second)) = (first, second) else {
        return lacks(Need::Cgroups, "one of the two versions is not here");
    };
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c"]);
    command.arg("mount -t tmpfs none \"$0\" && mount -t tmpfs none \"$1\" && shift && exec \"$@\"");
    command.args([first.directory, second.directory]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "cgroup::tests::a_place_that_lies_under_another_file_system_is_none"]);
    let output = command.arg("--nocapture").env(BASE_VARIABLE, "1").output().unwrap();
    if !output.status.success() && output.stdout.is_empty() {
        return lacks(Need::Mounts, String::from_utf8_lossy(&output.stderr));
    }
    assert!(String::from_utf8_lossy(&output.stdout).contains("SEEN"), "{output:?}");
}

impl Group {
    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.directory.join(file)).unwrap()
    }
}
