//! Attacks of a process against what is not its own (`attacks.c`): each succeeds without the walls, and is refused inside them; as root and as an ordinary
//! user.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

mod support;

use needs::{Need, lacks};
use support::copy_of_this_program;
use sys::beneath::Dir;
use sys::process::Limits;
use sys::sandbox::{Access, AllowedPath, User, Walls, confine};

/// Set for the copy of this program that runs as an ordinary user.
const AGAIN_VARIABLE: &str = "HANNO_TEST_ORDINARY_USER";
/// Set for the copy of this program that was started on a terminal, to the terminal's path.
const TERMINAL_VARIABLE: &str = "HANNO_TEST_TERMINAL";
/// What is in the file outside.
const OUTSIDE: &str = "outside";
/// A user without rights.
const ORDINARY_USER: u32 = 65_534;

/// The target of an attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Nothing,
    /// A Unix socket with a path outside the walls.
    Listener,
    Datagrams,
    /// An abstract one.
    Abstract,
    /// A process of the same user outside.
    Process,
    /// A file outside.
    File,
    /// A name in the task's own directory.
    OwnFile,
    /// A descriptor that whoever started the process left open.
    Leaked,
    /// A name in the memory that the machine's processes share.
    Memory,
}

/// Where an attack works without walls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Works {
    /// Everywhere.
    Always,
    /// For root.
    Root,
    /// Where the kernel was built that way; otherwise its refusal proves nothing.
    Perhaps,
    /// Nowhere: it would be a hole in the allowed calls.
    Never,
}

const ATTACKS: &[(&str, At, Works)] = &[
    ("unix_stream", At::Listener, Works::Always),
    ("unix_stream", At::Abstract, Works::Always),
    ("unix_high_bits", At::Nothing, Works::Always),
    ("unix_datagram_pair", At::Datagrams, Works::Always),
    ("unix_raw_pair", At::Nothing, Works::Always),
    ("unix_stream_pair", At::Listener, Works::Never),
    ("vsock", At::Nothing, Works::Perhaps),
    ("alg", At::Nothing, Works::Perhaps),
    ("netlink_other", At::Nothing, Works::Always),
    ("console_selection", At::Nothing, Works::Always),
    ("shared_memory", At::Nothing, Works::Always),
    ("semaphores", At::Nothing, Works::Always),
    ("messages", At::Nothing, Works::Always),
    ("message_queue", At::Nothing, Works::Perhaps),
    ("memory_left_behind", At::Memory, Works::Always),
    ("secret_memory", At::Nothing, Works::Perhaps),
    ("locked_memory", At::Nothing, Works::Root),
    ("watches", At::Nothing, Works::Always),
    ("fault_handler", At::Nothing, Works::Perhaps),
    ("ring", At::Nothing, Works::Perhaps),
    ("key", At::Nothing, Works::Perhaps),
    ("kernel_program", At::Nothing, Works::Root),
    ("performance", At::Nothing, Works::Perhaps),
    ("namespace_by_unshare", At::Nothing, Works::Perhaps),
    ("namespace_by_clone", At::Nothing, Works::Perhaps),
    ("namespace_by_clone3", At::Nothing, Works::Perhaps),
    ("other_numbering", At::Nothing, Works::Perhaps),
    ("signals", At::Process, Works::Always),
    ("signals_by_descriptor", At::Process, Works::Always),
    ("signals_by_ownership", At::Process, Works::Always),
    ("traces", At::Process, Works::Perhaps),
    ("reads_memory", At::Process, Works::Perhaps),
    ("takes_descriptor", At::Process, Works::Perhaps),
    ("opens_root", At::Process, Works::Always),
    ("opens_directory", At::Process, Works::Always),
    ("opens_descriptor", At::Process, Works::Always),
    ("opens_memory", At::Process, Works::Perhaps),
    ("opens_environment", At::Process, Works::Always),
    ("limits_others", At::Process, Works::Always),
    ("slows_user", At::Nothing, Works::Always),
    ("hides", At::Nothing, Works::Always),
    ("reads_file", At::File, Works::Always),
    ("writes_file", At::File, Works::Always),
    ("becomes_root", At::Nothing, Works::Root),
    ("becomes_other", At::Nothing, Works::Root),
    ("gives_away", At::OwnFile, Works::Root),
    ("makes_device", At::OwnFile, Works::Root),
    ("inherits", At::Leaked, Works::Always),
    ("dumps_core", At::Nothing, Works::Perhaps),
];

/// The attacks, compiled, and their targets.
struct Scene {
    _directory: tempfile::TempDir,
    program: PathBuf,
    own: PathBuf,
    file: PathBuf,
    listener: PathBuf,
    datagrams: PathBuf,
    abstract_name: String,
    leaked: fs::File,
    bystander: Child,
    _sockets: (UnixListener, UnixDatagram, UnixListener),
}

impl Scene {
    /// `None`, with a message, if there is no C compiler.
    fn new() -> Option<Scene> {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let at = |name: &str| directory.path().join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attacks.c");
        let built = Command::new("cc").args(["-O1", "-o"]).args([&at("attacks"), &source]).output();
        match built {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(error) => {
                lacks(Need::Compiler, error);
                return None;
            }
        }
        fs::create_dir(at("own")).unwrap();
        fs::write(at("file"), OUTSIDE).unwrap();
        let unique = directory.path().file_name().unwrap().display().to_string();
        let abstract_name = format!("hanno-test-hostile-{unique}");
        let leaked = fs::File::open(at("file")).unwrap();
        rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
        let sockets = (
            UnixListener::bind(at("listener")).unwrap(),
            UnixDatagram::bind(at("datagrams")).unwrap(),
            sys::socket::listen(&abstract_name).unwrap(),
        );
        Some(Scene {
            program: at("attacks"),
            own: at("own"),
            file: at("file"),
            listener: at("listener"),
            datagrams: at("datagrams"),
            abstract_name,
            leaked,
            bystander: Command::new("sleep")
                .arg("1000")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
            _sockets: sockets,
            _directory: directory,
        })
    }

    fn argument(&self, at: At, run: usize) -> String {
        match at {
            At::Nothing => String::new(),
            At::Listener => self.listener.display().to_string(),
            At::Datagrams => self.datagrams.display().to_string(),
            At::Abstract => format!("@{}", self.abstract_name),
            At::Process => self.bystander.id().to_string(),
            At::File => self.file.display().to_string(),
            At::OwnFile => self.own.join(format!("new-{run}")).display().to_string(),
            At::Leaked => self.leaked.as_raw_fd().to_string(),
            At::Memory => format!("/dev/shm/{}-{run}", self.abstract_name),
        }
    }

    fn attack(&self, name: &str, argument: &str, walls: Option<&Walls>) -> Output {
        let mut command = Command::new(&self.program);
        command.args([name, argument]);
        if let Some(walls) = walls {
            sys::detach::detach(&mut command, Vec::new(), &Limits::default(), None).unwrap();
            confine(&mut command, walls).unwrap();
        }
        command.output().unwrap()
    }

    fn walls(&self, user: Option<User>) -> Walls {
        let system = ["/usr", "/bin", "/lib", "/lib64", "/etc", "/proc"];
        let mut places: Vec<AllowedPath> =
            system.map(|path| AllowedPath::new(path, Access::Read)).into();
        places.push(AllowedPath::new("/dev/null", Access::Use));
        places.push(AllowedPath::new(&self.program, Access::Read));
        places.push(AllowedPath::new(&self.own, Access::Change));
        Walls { places, user, temporary: None }
    }

    /// The same, with temporary directories of its own.
    fn walls_and_temporary(&self, user: Option<User>) -> Walls {
        let home = Dir::open(&self.own).unwrap().ensure_dir("temporary").unwrap();
        user.iter().for_each(|user| home.give_to(*user).unwrap());
        Walls { temporary: Some(self.own.join("temporary")), ..self.walls(user) }
    }

    fn try_all(&self, user: Option<User>) {
        let is_root = is_root();
        let mut shown = 0;
        for (run, (name, at, works)) in ATTACKS.iter().enumerate() {
            let bare = self.attack(name, &self.argument(*at, 2 * run), None);
            let must = *works == Works::Always || (*works == Works::Root && is_root);
            assert!(bare.status.success() || !must, "{name} without walls: {bare:?}");
            assert!(!bare.status.success() || *works != Works::Never, "{name}: {bare:?}");
            shown += usize::from(bare.status.success());
            if *at == At::Memory {
                fs::remove_file(self.argument(*at, 2 * run)).unwrap();
            }
            fs::write(&self.file, OUTSIDE).unwrap();
            let argument = self.argument(*at, 2 * run + 1);
            let held = self.attack(name, &argument, Some(&self.walls(user)));
            assert_eq!(held.status.code(), Some(1), "{name} at {at:?} inside: {held:?}");
            let held = self.attack(name, &argument, Some(&self.walls_and_temporary(user)));
            // Shared memory, and what it makes below a temporary directory, are its own.
            let is_own = *at == At::Memory || *name == "writes_file";
            let code = held.status.code();
            assert!(code == Some(1) || is_own && code == Some(0), "{name} at {at:?}: {held:?}");
            assert_eq!(fs::read_to_string(&self.file).unwrap(), OUTSIDE, "{name}");
            assert!(*at != At::Memory || !Path::new(&argument).try_exists().unwrap(), "{argument}");
        }
        println!("{shown} of {} attacks succeeded without walls, none inside", ATTACKS.len());
        assert!(shown >= 25, "only {shown} attacks could be shown");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.bystander.kill();
        let _ = self.bystander.wait();
    }
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    line.split_whitespace().next() == Some("0")
}

#[test]
fn attacks_that_succeed_without_walls_are_refused_inside() {
    let Some(scene) = Scene::new() else { return };
    scene.try_all(None);
}

#[test]
fn as_another_user_too() {
    let Some(scene) = Scene::new() else { return };
    if is_root() {
        fs::set_permissions(&scene.own, fs::Permissions::from_mode(0o777)).unwrap();
        scene.try_all(Some(User::new(1_900_000_000).unwrap()));
    }
}

/// Tests only the wall between the users of two jobs: as on a kernel that has nothing else.
#[test]
fn a_user_reaches_nothing_of_another_users() {
    let Some(mut scene) = Scene::new() else { return };
    let [user, other] = [1_900_000_100, 1_900_000_101].map(|number| User::new(number).unwrap());
    if let Err(error) = sys::sandbox::try_user(user, &[&scene.own]) {
        lacks(Need::Users, error);
        return;
    }
    scene.bystander.kill().unwrap();
    scene.bystander.wait().unwrap();
    let start = || Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn();
    scene.bystander = user.act(start).unwrap();
    std::os::unix::fs::chown(&scene.file, Some(user.number()), Some(user.number())).unwrap();
    fs::set_permissions(&scene.file, fs::Permissions::from_mode(0o600)).unwrap();
    let attack = |name: &str, at, user: User| {
        let argument = scene.argument(at, 0);
        user.act(|| Command::new(&scene.program).args([name, &argument]).output()).unwrap()
    };
    // Attacks on another process or on its files.
    let between = ATTACKS.iter().filter(|(_, at, _)| matches!(at, At::Process | At::File));
    for (name, at, works) in between {
        let own = attack(name, *at, user);
        assert!(own.status.success() || *works == Works::Perhaps, "{name} by its user: {own:?}");
        let refused = attack(name, *at, other);
        assert_eq!(refused.status.code(), Some(1), "{name} by another: {refused:?}");
    }
}

/// What the kernel answers to `slows_user` depends on who else runs: it must not be taken for the walls' answer.
#[test]
fn a_nicer_process_of_the_user_hides_nothing() {
    let Some(mut scene) = Scene::new() else { return };
    let user = User::new(1_900_000_200).unwrap();
    if let Err(error) = sys::sandbox::try_user(user, &[&scene.own]) {
        lacks(Need::Users, error);
        return;
    }
    scene.bystander.kill().unwrap();
    scene.bystander.wait().unwrap();
    let mut nicer = Command::new("nice");
    nicer.args(["-n", "1", "sh", "-c", "echo; exec sleep 1000"]).stdout(Stdio::piped());
    scene.bystander = user.act(|| nicer.spawn()).unwrap();
    let mut line = [0];
    scene.bystander.stdout.take().unwrap().read_exact(&mut line).unwrap();
    let bare = || Command::new(&scene.program).arg("slows_user").output();
    let bare = user.act(bare).unwrap();
    assert!(bare.status.success(), "without walls: {bare:?}");
    let held = scene.attack("slows_user", "", Some(&scene.walls(Some(user))));
    assert_eq!(held.status.code(), Some(1), "inside: {held:?}");
}

#[test]
fn an_ordinary_user_has_the_same_walls() {
    if !is_root() || std::env::var_os(AGAIN_VARIABLE).is_some() {
        return;
    }
    let (_directory, program) = copy_of_this_program();
    let mut command = Command::new(&program);
    command.args([
        "--exact",
        "attacks_that_succeed_without_walls_are_refused_inside",
        "--nocapture",
    ]);
    command.env(AGAIN_VARIABLE, "1").env_remove("TMPDIR").uid(ORDINARY_USER).gid(ORDINARY_USER);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The operator's terminal: a shell on it starts the worker, in the background.
#[test]
fn nothing_is_typed_into_the_terminal_that_a_worker_was_started_on() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    if let Ok(terminal) = std::env::var(TERMINAL_VARIABLE) {
        return type_into(&terminal);
    }
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let terminal = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = fs::File::options().read(true).write(true).open(&terminal).unwrap();
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture"]);
    command.arg("nothing_is_typed_into_the_terminal_that_a_worker_was_started_on");
    let output = command.env(TERMINAL_VARIABLE, &terminal).stdin(theirs).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn type_into(terminal: &str) {
    let Some(scene) = Scene::new() else { return };
    // This holds even if the terminal itself can be opened.
    let mut walls = scene.walls(None);
    walls.places.extend(["/dev/tty", terminal].map(|path| AllowedPath::new(path, Access::Use)));
    let mut shown = 0;
    for name in ["types", "types_high_bits", "controls_terminal"] {
        for at in ["", terminal] {
            let bare = scene.attack(name, at, None);
            shown += usize::from(bare.status.success());
            let held = scene.attack(name, at, Some(&walls));
            assert_eq!(held.status.code(), Some(1), "{name} at {at:?}: {held:?}");
            // A process that is in the session nevertheless meets the wall too.
            let mut command = Command::new(&scene.program);
            command.args([name, at]);
            confine(&mut command, &walls).unwrap();
            let expected = if name == "controls_terminal" { 0 } else { 1 };
            assert_eq!(command.status().unwrap().code(), Some(expected), "{name} at {at:?}");
        }
    }
    // Kernels may refuse typing by themselves (`dev.tty.legacy_tiocsti`), but not opening the terminal.
    assert!(shown >= 2, "only {shown} attacks could be shown");
    println!("{shown} of 6 attacks on the terminal succeeded without walls");
}
