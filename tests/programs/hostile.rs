//! A job whose tasks do not run what was submitted but speak to their worker themselves, and lie: about where a map output is, what it is, how much of
//! it there is, and whose it is. Its reduces take whatever they are given.
//!
//! ```text
//! hostile --attack NAME --target PATH IN OUT     driver; started by a worker: the task
//! hostile prepare NAME DIRECTORY TARGET          what its map leaves in a directory, told as it reports it, without any worker
//! hostile map-and-cut FILE                       reads a file that it has mapped and then cut off
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use mr_api::{Args, Emit, Job, Line, Lines, Mapper, Plan, Sink, Sum, text, text_out};
use protocol::AttemptId;
use protocol::frame::{self, BODY_BYTES_MAX};
use protocol::jobs::Counters;
use protocol::phase::Phase;
use protocol::runner::{COOKIE_VARIABLE, DESCRIPTORS_VARIABLE, FromRunner, ToRunner};
use protocol::shuffle::FetchRequest;
use protocol::tracker::{AttemptState, FetchFailure, MapOutput, Work};
use transport::rpc::PassHolder;
use transport::rpc::{RpcClient, runtime};

/// Reduces, so that both workers have some.
const REDUCES: u32 = 4;
/// Bytes of the first partition, where there is no target that is to be read as such.
const PARTITION_BYTES: u64 = 24;
/// Bytes of a partition without records.
const END_BYTES: u64 = 24;
/// Time in which a worker takes what a map reported, before it is changed.
const TAKEN_MAX: Duration = Duration::from_millis(300);
/// How long a lie about others is waited on: who is not ended by then has got away with it. A pass never needs it.
const ENDED_MAX: Duration = Duration::from_secs(40);
/// How long the same about itself is waited on, for which nobody is ended.
const TOLERATED_MAX: Duration = Duration::from_secs(2);
/// Stands in a report where bytes are put that are no text.
const PLACEHOLDER: &str = "/no/text/at/all";

fn main() -> ExitCode {
    if std::env::var_os(DESCRIPTORS_VARIABLE).is_some() {
        task();
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["prepare", attack, directory, target] => {
            let lie = Lie::new(attack, directory, target);
            let told = lie.prepare();
            lie.change();
            println!("{told}");
            ExitCode::SUCCESS
        }
        ["map-and-cut", file] => {
            let file = OpenOptions::new().read(true).write(true).open(file).expect("a file");
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            let map = sys::MappedFile::map(&file, length as usize).expect("it can be mapped");
            file.set_len(0).expect("it can be cut");
            println!("{}", map.iter().map(|byte| u64::from(*byte)).sum::<u64>());
            ExitCode::SUCCESS
        }
        _ => {
            mr_api::main("hostile --attack NAME --target PATH IN... OUT", |args| Ok(plan(args)?.1))
        }
    }
}

fn plan(args: &mut Args) -> mr_api::Result<((String, String), Plan)> {
    let attack: String = args.value("--attack")?.unwrap_or_default();
    let target: String = args.value("--target")?.unwrap_or_default();
    let (inputs, output) = args.inputs_and_output()?;
    let job = Job::new("hostile").input(text(inputs)).map(Words).combine(Sum).reduce(Sum);
    Ok(((attack, target), Plan::from(job.reducers(REDUCES).output(text_out(output)))))
}

/// What is submitted; no task ever runs it.
#[derive(Clone)]
struct Words;

impl Mapper for Words {
    type In = Lines;
    type Key = Vec<u8>;
    type Value = u64;

    fn map<S: Sink>(
        &mut self,
        line: Line<'_>,
        out: &mut Emit<Vec<u8>, u64, S>,
    ) -> mr_api::Result<()> {
        out.emit(&*line, 1u64)
    }
}

fn task() {
    let variable = |name| std::env::var(name).expect("started by a worker");
    let words: Vec<String> = std::env::args().skip(1).collect();
    let ((attack, target), _) =
        Args::from_words(words).and_then(|mut args| plan(&mut args)).expect("as submitted");
    let numbers = variable(DESCRIPTORS_VARIABLE);
    let number = numbers.split(',').next().and_then(|number| number.parse().ok());
    let socket = sys::detach::inherited(number.expect("a number")).expect("it was left open");
    let mut socket = UnixStream::from(socket);
    let mut say = socket.try_clone().expect("descriptors are left");
    let mut say = move |bytes: Vec<u8>| say.write_all(&bytes).expect("the worker reads");
    say(frame::encode(&FromRunner::Hello { cookie: variable(COOKIE_VARIABLE) }));
    let (mut pass, mut reduce, mut outputs) = (None, None, Vec::new());
    while let Ok(message) = frame::read(&mut socket, BODY_BYTES_MAX, "order") {
        match message {
            ToRunner::Setup(setup) => {
                pass = Some(PassHolder::new(setup.pass.clone()));
                say(frame::encode(&FromRunner::Ready));
            }
            ToRunner::Launch { attempt, work: Work::Map { .. }, directory } => {
                let lie = Lie::new(&attack, &directory, &target);
                lie.tell(attempt, &mut say);
            }
            ToRunner::Launch { attempt, work: Work::Reduce(work), .. } => {
                reduce = Some(attempt);
                outputs.extend(work.outputs.iter().cloned());
            }
            ToRunner::Launch { work: Work::Round(_), .. } => unreachable!("its job has no rounds"),
            ToRunner::MapOutputs { available, .. } => outputs.extend(available),
            ToRunner::Pass(_) => {}
            ToRunner::Exit => return,
        }
        if let Some(attempt) = reduce.filter(|_| !outputs.is_empty()) {
            println!("ACCEPTED");
            std::thread::sleep(2 * TAKEN_MAX);
            outputs.iter().for_each(|output| loot(output, pass.as_ref().expect("it was greeted")));
            let diagnostics = "it has what it wanted".to_owned();
            say(ended(attempt, AttemptState::Failed { diagnostics }));
            reduce = None;
        }
    }
}

fn ended(attempt: AttemptId, state: AttemptState) -> Vec<u8> {
    let counters = Counters::default();
    let (progress, phase) = (1.0, Phase::Merge);
    frame::encode(&FromRunner::Ended { attempt, state, counters, progress, phase })
}

/// Reads an output both ways, and writes to what it finds under its path and beside it.
fn loot(output: &MapOutput, pass: &PassHolder) {
    let path = Path::new(&output.data_path);
    println!("LOCAL {}", String::from_utf8_lossy(&fs::read(path).unwrap_or_default()));
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let beside = [path.parent(), Some(&home.join("near"))];
    let beside = beside.into_iter().flatten().flat_map(|directory| fs::read_dir(directory).ok());
    let beside = beside.flatten().flatten().map(|entry| entry.path());
    for path in beside.chain([path.to_owned()]).filter(|path| path.is_file()) {
        let append = || OpenOptions::new().append(true).open(&path)?.write_all(b"taken\n");
        println!("WROTE {} {:?}", path.display(), append());
    }
    for partition in 0..REDUCES {
        let maps = vec![output.attempt];
        let job = output.attempt.task.job;
        let request = FetchRequest { job, partitions: partition..partition + 1, maps };
        let worker = RpcClient::of_task(&format!("http://{}", output.http_address), pass);
        let got = runtime().block_on(async {
            let response = worker.ok()?.get(&request.to_target()).await.ok()?;
            response.whole().await.ok()
        });
        println!("FETCHED {}", String::from_utf8_lossy(&got.unwrap_or_default()));
    }
}

/// What a map tells its worker.
struct Lie {
    attack: String,
    directory: PathBuf,
    target: PathBuf,
}

impl Lie {
    fn new(attack: &str, directory: &str, target: &str) -> Lie {
        Lie { attack: attack.to_owned(), directory: directory.into(), target: target.into() }
    }

    fn tell(&self, attempt: AttemptId, say: &mut impl FnMut(Vec<u8>)) {
        let data_path = self.prepare();
        let open = || OpenOptions::new().write(true).open(self.data()).expect("it was written");
        let held = (self.attack == "cut-off-later").then(open);
        if let Some(lie) = self.about_another(attempt) {
            say(lie);
            let is_about_itself = self.another().is_none();
            std::thread::sleep(if is_about_itself { TOLERATED_MAX } else { ENDED_MAX });
            println!("ACCEPTED");
        }
        let state = AttemptState::MapDone { data_path, partition_bytes: Vec::new() };
        match self.attack.as_str() {
            "path-no-text" => say(without_text(ended(attempt, state))),
            _ => say(ended(attempt, state)),
        }
        std::thread::sleep(match self.attack.as_str() {
            // Between its own worker's look and that of the other worker, which links it.
            "parent-becomes-link" => TAKEN_MAX / 30,
            _ => TAKEN_MAX,
        });
        if let Some(file) = held {
            file.set_len(0).expect("it is a file");
        }
        self.change();
    }

    /// A message about an attempt that does not run here; or about its own, if the target is none.
    fn about_another(&self, own: AttemptId) -> Option<Vec<u8>> {
        let another = || self.another().unwrap_or(own);
        match self.attack.as_str() {
            "speaks-for-another" => Some(frame::encode(&FromRunner::Progress {
                attempt: another(),
                progress: 0.77,
                phase: Phase::Map,
                counters: Counters::default(),
            })),
            "blames-another" => Some(frame::encode(&FromRunner::FetchFailed(FetchFailure {
                reduce: another(),
                map: another(),
                diagnostics: "it cannot be read".to_owned(),
            }))),
            _ => None,
        }
    }

    fn another(&self) -> Option<AttemptId> {
        self.target.to_string_lossy().parse().ok()
    }

    fn data(&self) -> PathBuf {
        self.directory.join("output.data")
    }

    fn index(&self) -> PathBuf {
        self.directory.join("output.index")
    }

    /// Lays out what is there when it is reported; the path that is told.
    fn prepare(&self) -> String {
        let length = self.target.metadata().map_or(PARTITION_BYTES, |metadata| metadata.len());
        let empty =
            |partition: u32| [length + u64::from(partition - 1) * END_BYTES, END_BYTES, 0, 0];
        let mut whole = vec![[0, length, length, 1]];
        whole.extend((1..REDUCES).map(empty));
        let end = |segments: &[[u64; 4]]| {
            vec![b'x'; (segments[segments.len() - 1][0] + END_BYTES) as usize]
        };
        self.write(&self.data(), &end(&whole));
        self.write(&self.index(), &index(REDUCES, &whole));
        let inside = |name: &str| self.directory.join(name).to_string_lossy().into_owned();
        match self.attack.as_str() {
            "index-is-link" => {
                self.link(&self.index(), &self.target.with_extension("index"));
            }
            "parent-becomes-link" => {
                let name = self.target.file_name().expect("a file").to_string_lossy();
                fs::create_dir(inside("d")).expect("the directory is ours");
                fs::copy(self.data(), inside(&format!("d/{name}"))).expect("it was written");
                let beside = Path::new(&inside(&format!("d/{name}"))).with_extension("index");
                fs::copy(self.index(), beside).expect("it was written");
                return inside(&format!("d/{name}"));
            }
            "data-is-hard-link" => {
                fs::remove_file(self.data()).expect("it was written");
                fs::hard_link(&self.target, self.data()).expect("the target may be written");
            }
            "index-is-fifo" => fifo(&self.index()),
            "data-is-fifo" => fifo(&self.data()),
            "index-is-device" => self.link(&self.index(), Path::new("/dev/zero")),
            "data-is-device" => self.link(&self.data(), Path::new("/dev/zero")),
            "index-is-directory" => directory(&self.index()),
            "data-is-directory" => directory(&self.data()),
            "data-is-socket" => {
                fs::remove_file(self.data()).expect("it was written");
                UnixListener::bind(self.data()).expect("the path is short");
            }
            "index-counts-wrong" => self.write(&self.index(), &index(u32::MAX, &whole)),
            "index-offsets-wrong" => self.numbers(&whole, [u64::MAX, 1, 1, 1]),
            "index-lengths-wrong" => self.numbers(&whole, [length, u64::MAX / 2, 1, 1]),
            "index-sums-wrong" => self.numbers(&whole, [length, u64::MAX, 1, 1]),
            "index-sizes-wrong" => {
                self.numbers(&whole, [length, END_BYTES, u64::MAX / 2, u64::MAX / 2]);
            }
            "index-names-more" => {
                let more = [&whole[..], &[empty(REDUCES)]].concat();
                self.write(&self.data(), &end(&more));
                self.write(&self.index(), &index(REDUCES + 1, &more));
            }
            "index-names-fewer" => {
                self.write(&self.data(), &end(&whole[..REDUCES as usize - 1]));
                self.write(&self.index(), &index(REDUCES - 1, &whole[..REDUCES as usize - 1]));
            }
            "path-parent" => {
                let name = self.directory.file_name().expect("it has a name").to_string_lossy();
                return inside(&format!("../{name}/output.data"));
            }
            "path-absolute" => return self.target.to_string_lossy().into_owned(),
            "path-empty" => return String::new(),
            "path-nul" => return inside("output\0.data"),
            "path-long" => return inside(&"d/".repeat(1 << 16)),
            "path-directory" => return self.directory.to_string_lossy().into_owned(),
            "path-no-text" => return PLACEHOLDER.to_owned(),
            _ => {}
        }
        self.data().to_string_lossy().into_owned()
    }

    /// What happens to it behind the worker's back.
    fn change(&self) {
        // Where the worker has taken the directory away, it is made again.
        let again = |directory: &Path| fs::create_dir_all(directory).expect("the job's is ours");
        match self.attack.as_str() {
            "data-becomes-link" | "index-is-link" => {
                again(&self.directory);
                self.link(&self.data(), &self.target);
            }
            "parent-becomes-link" => {
                again(&self.directory);
                let aside = self.directory.join("d");
                // Gone with the directory, where the worker took that.
                let _ = fs::rename(&aside, self.directory.join("aside"));
                symlink(self.target.parent().expect("a file"), aside).expect("it is ours");
            }
            _ => {}
        }
    }

    /// An index whose second segment is this.
    fn numbers(&self, whole: &[[u64; 4]], second: [u64; 4]) {
        let mut lies = whole.to_vec();
        lies[1] = second;
        self.write(&self.index(), &index(REDUCES, &lies));
    }

    fn link(&self, path: &Path, target: &Path) {
        // There may be nothing to take the place of.
        let _ = fs::remove_file(path);
        symlink(target, path).expect("the directory is ours");
    }

    fn write(&self, path: &Path, bytes: &[u8]) {
        File::create(path).and_then(|mut file| file.write_all(bytes)).expect("it is ours");
    }
}

/// An index file with right checksums over whatever it says.
fn index(count: u32, segments: &[[u64; 4]]) -> Vec<u8> {
    let mut bytes = b"HNNOMIDX".to_vec();
    bytes.extend(2u32.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    let head = bytes.clone();
    bytes.extend(crc32fast::hash(&head).to_le_bytes());
    for (number, group) in (0u32..).zip(segments.chunks(32)) {
        let words = group.iter().flatten().flat_map(|word| word.to_le_bytes());
        let entries: Vec<u8> = words.collect();
        let crc = crc32fast::hash(&[head.as_slice(), &number.to_le_bytes(), &entries].concat());
        bytes.extend(entries);
        bytes.extend(crc.to_le_bytes());
    }
    bytes
}

fn fifo(path: &Path) {
    fs::remove_file(path).expect("it was written");
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo is there");
}

fn directory(path: &Path) {
    fs::remove_file(path).expect("it was written");
    fs::create_dir(path).expect("the directory is ours");
}

/// The frame with bytes in the place of the path that are no text.
fn without_text(mut frame: Vec<u8>) -> Vec<u8> {
    let at = frame.windows(PLACEHOLDER.len()).position(|part| part == PLACEHOLDER.as_bytes());
    let at = at.expect("it is in there");
    frame[at..at + PLACEHOLDER.len()].fill(0xff);
    let crc = crc32fast::hash(&frame[frame::HEADER_BYTES..]);
    frame[4..frame::HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    frame
}
