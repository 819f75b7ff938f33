//! A task process for the worker's tests: speaks the runner protocol and acts according to the name of its input file.
//!
//! The last element of the split's path: `ok` (writes its process id), `boom`, `exit`, `hang` (with a child of its own), `leave` (with a grandchild
//! that left), `fork`, `hog` and `hogs` (processes and memory without end), `forks` (memory shared by several processes), `fill` (files without end), `silent`, `flood`,
//! `endless` (eight children write without end, after the attempt has ended, too),
//! `map` (a real map output of two partitions), `escape` (reports a map output outside its directory), `rename` (ends another attempt).

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use protocol::frame::{self, BODY_BYTES_MAX};
use protocol::jobs::Counters;
use protocol::phase::Phase;
use protocol::runner::{COOKIE_VARIABLE, DESCRIPTORS_VARIABLE, FromRunner, ToRunner};
use protocol::tracker::{AttemptState, Work};
use protocol::{AttemptId, DfsPath};
use shuffle::{Codec, MapOutputOptions, MapOutputWriter};

fn main() {
    let variable = |name| std::env::var(name).expect("started by a worker");
    let numbers = variable(DESCRIPTORS_VARIABLE);
    let number = numbers.split(',').next().and_then(|number| number.parse().ok());
    let socket = sys::detach::inherited(number.expect("a number")).expect("it was left open");
    let mut socket = UnixStream::from(socket);
    let mut say = socket.try_clone().expect("descriptors are left");
    let mut say =
        move |message: FromRunner| frame::write(&mut say, &message).expect("the worker reads");
    say(FromRunner::Hello { cookie: variable(COOKIE_VARIABLE) });
    while let Ok(message) = frame::read(&mut socket, BODY_BYTES_MAX, "order") {
        match message {
            ToRunner::Setup(setup) if setup.program.stage == 13 => {
                say(FromRunner::Refused { diagnostics: "another fingerprint".to_owned() });
            }
            ToRunner::Setup(setup) => {
                prepare(setup.program.stage, &mut say);
                say(FromRunner::Ready);
            }
            ToRunner::Pass(_) => {}
            ToRunner::Launch { attempt, work, directory } => {
                let (attempt, state) = run(attempt, &work, Path::new(&directory));
                let mut counters = Counters::default();
                counters.add("test", "records", 3);
                let (progress, phase) = (0.5, Phase::Merge);
                say(FromRunner::Ended { attempt, state, counters, progress, phase });
            }
            ToRunner::MapOutputs { .. } => {}
            ToRunner::Exit => return,
        }
    }
}

/// Takes long before it is ready: stage 14 shows life meanwhile, stage 15 does not.
fn prepare(stage: u32, say: &mut impl FnMut(FromRunner)) {
    for number in 0..20 {
        match stage {
            14 => say(FromRunner::Preparing { step: format!("fetching file {number}") }),
            15 if number == 0 => {
                say(FromRunner::Preparing { step: "fetching the last file".to_owned() });
            }
            15 => {}
            _ => return,
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

fn run(attempt: AttemptId, work: &Work, directory: &Path) -> (AttemptId, AttemptState) {
    let Work::Map { split, .. } = work else { panic!("the tests only launch maps") };
    let output = DfsPath::parse(&format!("/out/_temporary/{attempt}")).expect("a path");
    let done = AttemptState::OutputDone { directory: output, hot_keys: Vec::new() };
    let state = match split.path.name().expect("not the root") {
        "ok" => {
            println!("pid {}", std::process::id());
            println!("{}", std::env::vars().map(|(name, _)| name).collect::<Vec<_>>().join(" "));
            done
        }
        "boom" => panic!("poison record at byte {}", split.offset),
        "exit" => std::process::exit(0),
        "hang" => {
            let mut child = Command::new("sleep").arg("1000").spawn().expect("sleep is there");
            println!("pid {} child {}", std::process::id(), child.id());
            let status = child.wait();
            panic!("the child ended before this process: {status:?}");
        }
        "leave" => leave(),
        "fork" => {
            let sleep = || Command::new("sleep").arg("1000").spawn().expect("sleep is there");
            let children: Vec<_> = (0..40).map(|_| sleep()).collect();
            std::thread::sleep(Duration::from_secs(1000));
            panic!("{} children were let live", children.len());
        }
        "hog" => {
            let mut held = Vec::new();
            loop {
                held.push(vec![1u8; 1 << 20]);
            }
        }
        "hogs" => {
            // Each process by itself is within the limit, and so is their number while they start.
            let hog = "x=$(head -c 20000000 /dev/zero | tr '\\0' x); sleep 1000; echo $x";
            let hog = || Command::new("sh").args(["-c", hog]).spawn().expect("sh is there");
            let children: Vec<_> = (0..4).map(|_| hog()).collect();
            std::thread::sleep(Duration::from_secs(1000));
            panic!("{} children were let live", children.len());
        }
        "forks" => {
            // Like a script that loads a model and then forks its helpers; it lasts longer than a few checks.
            let script = "x=$(head -c 20000000 /dev/zero | tr '\\0' x); \
                          for i in 1 2 3 4 5 6 7; do (sleep 2; :) & done; wait; test -n \"$x\"";
            let status = Command::new("sh").args(["-c", script]).status().expect("sh is there");
            assert!(status.success(), "{status}");
            done
        }
        "fill" => {
            fill([directory.to_owned(), std::env::temp_dir()]);
            panic!("the files were let be");
        }
        "silent" => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        "flood" => {
            let line = [b'x'; 1000];
            (0..50_000).for_each(|_| std::io::stdout().write_all(&line).expect("the worker reads"));
            done
        }
        "endless" => {
            endless();
            done
        }
        "map" => map_done(map(directory)),
        "escape" => map_done("/etc/passwd".to_owned()),
        "rename" => {
            return (AttemptId { number: attempt.number + 1, ..attempt }, done);
        }
        other => panic!("unknown task {other}"),
    };
    (attempt, state)
}

/// Starts a grandchild in a session of its own, whose parent is gone.
fn leave() -> ! {
    let leave = "setsid sh -c 'echo left $$; exec sleep 1000' & wait $!";
    let left = Command::new("sh").args(["-c", leave]).spawn();
    left.expect("sh is there").wait().expect("it was started");
    panic!("the sleep ended before this process");
}

/// Leaves eight processes behind that write without end.
fn endless() {
    let flood = "for i in 1 2 3 4 5 6 7 8; do cat /dev/zero & done";
    Command::new("sh").args(["-c", flood]).status().expect("sh is there");
    std::thread::sleep(Duration::from_millis(200));
}

fn map_done(data_path: String) -> AttemptState {
    AttemptState::MapDone { data_path, partition_bytes: Vec::new() }
}

/// Writes many files in each place, from child processes.
fn fill(places: [std::path::PathBuf; 2]) {
    let script = "for i in $(seq 1000); do head -c 1000000 /dev/zero | tr '\\0' x >$0/$i; done";
    let fill = |place| Command::new("sh").args(["-c", script]).arg(place).spawn();
    for child in places.map(fill) {
        child.expect("sh is there").wait().expect("it was started");
    }
}

/// Writes a map output with 1,000 records in each of two partitions.
fn map(directory: &Path) -> String {
    let options = MapOutputOptions {
        partitions: 2,
        dir: directory.to_owned(),
        name: "output".to_owned(),
        memory_bytes_max: 4 << 20,
        merge_factor: 10,
        codec: Codec::Lz4,
        partition_seed: 7,
        sync: false,
    };
    let mut writer = MapOutputWriter::new(options).expect("the directory is there");
    for number in 0..2_000u32 {
        let key = format!("key {number:06}");
        writer.emit(number % 2, key.as_bytes(), b"value").expect("the disk has room");
    }
    let output = writer.finish().expect("the disk has room");
    output.data.to_str().expect("the test's paths are text").to_owned()
}
