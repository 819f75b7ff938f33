//! Map outputs that rot on disk, and servers of map outputs that answer nonsense.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Stand, files_below, options, with};
use crate::support::cluster::{Ports, hanno_binary};
use crate::support::report::{assert_no_panics, flip_a_bit};

const LATE: [&str; 2] = ["-D", "mapreduce.job.reduce.slowstart.completedmaps=1"];

/// A bit in each finished map output flips before a reduce reads it: the maps run again.
#[test]
fn map_outputs_that_rot_are_made_again() {
    for shared in ["true", "false"] {
        let variables = [("HANNO_WORKER_SHARED_OUTPUTS", shared)];
        let stand = Stand::start(4, with(options(), &variables));
        let job = stand.begin("rot", &["mapped-3"], &LATE);
        let id = {
            stand.wait("the job is there", |_| stand.jobs().len() == 1);
            stand.jobs().remove(0)
        };
        stand.wait("three maps are done", |_| stand.attempts(&id, "MAP", "completed").len() == 3);
        let mut count = 0;
        for index in files_below(&stand.cluster.directory, ".index") {
            let data = index.with_extension("data");
            if data.is_file() {
                flip_a_bit(&data, fs::metadata(&data).unwrap().len() / 2);
                count += 1;
            }
        }
        assert_eq!(count, 3, "outputs to damage");
        job.open("mapped-3");
        stand.wait("the damaged maps run again", |_| job.at("map").len() == 7);
        job.succeed();
        assert_no_panics(&stand.cluster);
    }
}

/// A bit in a spill flips before the map merges its spills: the attempt fails and another one does it right.
#[test]
fn spills_that_rot_fail_their_attempt_and_no_more() {
    let stand = Stand::start(40, options());
    // Two maps of more than a buffer each.
    let small =
        ["mapreduce.task.io.sort.mb=1", "mapreduce.input.fileinputformat.split.minsize=1400000"];
    let job = stand.begin("spill", &["mapped"], &["-D", small[0], "-D", small[1]]);
    let (first, worker) = job.wait_at("mapped", 2)[0].clone();
    let id = stand.jobs().remove(0);
    let place = stand.cluster.directory.join(format!("worker-{worker}/jobs/{id}/{first}"));
    let spills = files_below(&place, "");
    let spills: Vec<_> =
        spills.iter().filter(|file| fs::metadata(file).unwrap().len() > 1000).collect();
    assert!(!spills.is_empty(), "{first} has spilled nothing");
    for spill in spills {
        flip_a_bit(spill, fs::metadata(spill).unwrap().len() / 2);
    }
    job.open("mapped");
    job.succeed();
    let failed = stand.attempts(&id, "MAP", "failed");
    assert_eq!(failed, [first], "the attempt with the damaged spill failed");
    assert_no_panics(&stand.cluster);
}

/// What the server between reduces and a worker does with a request for map outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Misdeed {
    Status500,
    CutOff,
    TooShort,
    AnotherAttempt,
    Noise,
    Hangup,
}

/// Jobs within which every misdeed must have been done: the reduces of one may all run beside its outputs.
const JOBS_MAX: usize = 10;

const MISDEEDS: [Misdeed; 6] = [
    Misdeed::Status500,
    Misdeed::CutOff,
    Misdeed::TooShort,
    Misdeed::AnotherAttempt,
    Misdeed::Noise,
    Misdeed::Hangup,
];

/// Passes requests on to a worker; does each misdeed once.
fn proxy(address: &str, worker: String) -> Arc<AtomicUsize> {
    let listener = TcpListener::bind(address).unwrap();
    let served = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&served);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (worker, served) = (worker.clone(), Arc::clone(&counting));
            // A connection that breaks is the other end's business.
            std::thread::spawn(move || drop(serve(client, &worker, &served)));
        }
    });
    served
}

/// One connection, one request: answers say that it is closed.
fn serve(mut client: TcpStream, worker: &str, served: &AtomicUsize) -> io::Result<()> {
    let head = head(&mut client)?;
    let wants_outputs = head.starts_with("GET /mapOutput");
    let number = if wants_outputs { served.fetch_add(1, Ordering::Relaxed) } else { usize::MAX };
    let misdeed = MISDEEDS.get(number).copied();
    let mut answer = Vec::new();
    if misdeed != Some(Misdeed::Status500) {
        let mut upstream = TcpStream::connect(worker)?;
        upstream.write_all(head.replacen("\r\n", "\r\nconnection: close\r\n", 1).as_bytes())?;
        upstream.read_to_end(&mut answer)?;
    }
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
    match misdeed {
        None => {}
        Some(Misdeed::Status500) => {
            answer = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec();
        }
        Some(Misdeed::CutOff) => answer.truncate(body + (answer.len() - body) / 2),
        Some(Misdeed::TooShort) => {
            answer =
                b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc".to_vec();
        }
        Some(Misdeed::AnotherAttempt) => answer = another(),
        Some(Misdeed::Noise) => {
            for (at, byte) in answer[body..].iter_mut().enumerate() {
                *byte ^= (at * 131) as u8;
            }
        }
        Some(Misdeed::Hangup) => answer.clear(),
    }
    client.write_all(&answer)?;
    client.shutdown(Shutdown::Write)
}

/// A well-formed answer with a segment of an attempt that nobody asked for.
fn another() -> Vec<u8> {
    use protocol::shuffle::{SegmentAnswer, SegmentHeader};
    let attempt = "attempt_1_0001_m_000000_7".parse().unwrap();
    let header = SegmentHeader { attempt, reduce: 0, stored: 4, raw: 4, records: 1 };
    let mut body = protocol::frame::encode(&SegmentAnswer::Segment(header));
    body.extend_from_slice(b"nope");
    let mut answer =
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len())
            .into_bytes();
    answer.extend_from_slice(&body);
    answer
}

fn head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    String::from_utf8(head).map_err(io::Error::other)
}

/// A second worker, whose outputs others fetch through the proxy.
struct Beside(Child);

impl Beside {
    fn start(stand: &Stand, bind: &str, advertise: &str) -> Beside {
        let directory = stand.cluster.directory.join("beside");
        fs::create_dir(&directory).unwrap();
        let secret = stand.cluster.directory.join("secret");
        let text = format!(
            "data = {:?}\nbind = {bind:?}\nadvertise = {advertise:?}\nsecret_file = {secret:?}\n\
             namenode = {:?}\njobtracker = {:?}\nslot_count = 2\nshared_outputs = false\n",
            directory.join("data"),
            stand.cluster.namenode,
            stand.cluster.jobtracker,
        );
        fs::write(directory.join("worker.toml"), text).unwrap();
        let config = directory.join("worker.toml");
        let words = ["worker", "--config", config.to_str().unwrap()];
        let mut command = stand.cluster.command(&hanno_binary(), &words);
        let log = fs::File::create(directory.join("log")).unwrap();
        Beside(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_of_map_outputs_that_answers_nonsense_is_asked_again_and_the_maps_run_again() {
    let mut options = with(options(), &[("HANNO_WORKER_SHARED_OUTPUTS", "false")]);
    options.workers = 1;
    let stand = Stand::start(8, options);
    let ports = Ports::take();
    let [bind, advertise] = [0, 1].map(|offset| format!("127.0.0.1:{}", ports.base + offset));
    let served = proxy(&advertise, bind.clone());
    let _beside = Beside::start(&stand, &bind, &advertise);
    stand.wait("both workers are there", |_| stand.active_workers() == 2);
    let done = || served.load(Ordering::Relaxed);
    for number in 0..JOBS_MAX {
        stand.begin(&format!("nonsense-{number}"), &[], &["-numReduceTasks", "4"]).succeed();
        if done() > MISDEEDS.len() {
            break;
        }
    }
    assert!(done() > MISDEEDS.len(), "only {} requests: not every misdeed was done", done());
    assert_no_panics(&stand.cluster);
}
