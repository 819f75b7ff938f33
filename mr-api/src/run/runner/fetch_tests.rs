//! A reduce that fetches from an unreliable worker.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock, Mutex};

use protocol::auth::{
    ANSWER_HEADER, AnswerSignature, BodyDigest, HELLO, Hello, Incarnation, Key, Role, Service,
    Signature, answer_key,
};
use protocol::pass::{Pass, PassName};
use protocol::runner::FromRunner;
use protocol::tracker::Program;
use protocol::{BinaryHash, DfsPath, JobId, TaskId, TaskKind, wire};
use shuffle::{Codec, MapOutputOptions, MapOutputWriter, ReduceInput, ReduceOptions, SegmentInfo};

use super::*;

const MEMORY_BYTES: usize = 1 << 20;
static SECRET: LazyLock<Key> = LazyLock::new(|| Key::new([1; 32]));

fn attempt(kind: TaskKind, index: u32, number: u32) -> AttemptId {
    let job = JobId { cluster_start: 202611201830, number: 1 };
    AttemptId { task: TaskId { job, kind, index }, number }
}

fn setup(boot_id: &str) -> Setup {
    let job = JobId { cluster_start: 1, number: 1 };
    let pass_name = PassName { job, user: "ada".into(), expires_ms: u64::MAX };
    let program = Program {
        user: "ada".into(),
        binary: BinaryHash([0; 32]),
        args: Vec::new(),
        stage: 0,
        fingerprint: 0,
        properties: Default::default(),
        partition_count: 1,
        sizes_wanted: false,
        map_count: 3,
        output: DfsPath::root(),
    };
    Setup {
        program,
        namenode: "http://127.0.0.1:1".into(),
        pass: Pass::issue(&SECRET, pass_name),
        host: "here".into(),
        boot_id: boot_id.into(),
        memory_bytes_max: 1 << 20,
        local_output: None,
    }
}

/// Writes a map output with one record; returns the path of its data.
fn write_output(directory: &Path, name: &str, key: &str) -> PathBuf {
    write_partitions(directory, name, &[&[key]])
}

/// Writes a map output with these keys in its partitions; returns the path of its data.
fn write_partitions(directory: &Path, name: &str, partitions: &[&[&str]]) -> PathBuf {
    let options = MapOutputOptions {
        partitions: partitions.len() as u32,
        dir: directory.to_owned(),
        name: name.into(),
        memory_bytes_max: 1 << 20,
        merge_factor: 10,
        codec: Codec::Lz4,
        partition_seed: 0,
        sync: false,
    };
    let mut writer = MapOutputWriter::new(options).unwrap();
    for (partition, keys) in (0..).zip(partitions) {
        for key in *keys {
            writer.emit(partition, key.as_bytes(), b"1").unwrap();
        }
    }
    writer.finish().unwrap().data
}

/// Serves one segment per map by its number. With `is_ill`, the first request to map 1 gets flipped bytes, map 2's first is `Lost`.
fn serve(data: Vec<PathBuf>, is_ill: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let tries = Arc::new(Mutex::new(vec![0; data.len()]));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).unwrap() == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap();
            let signature = head.lines().find_map(|line| line.strip_prefix("authorization: "));
            let signature = Signature::parse(signature.unwrap()).unwrap();
            assert_eq!(signature.role, Role::Task);
            let name = signature.pass.as_ref().unwrap();
            let answers = answer_key(&name.key(&SECRET)).ready();
            let target = head.split(' ').nth(1).unwrap();
            if target == HELLO {
                let (service, incarnation) = (Service::Worker, Incarnation([1; 16]));
                let hello = wire::encode(&Hello { service, incarnation });
                let digest = Some(BodyDigest::of(&hello));
                let seal = AnswerSignature::sign(&answers, signature.nonce, 200, digest);
                send(&mut stream, &seal, &hello);
                continue;
            }
            assert_eq!(signature.to, Incarnation([1; 16]));
            let request = FetchRequest::parse_query(target.split_once('?').unwrap().1).unwrap();
            let mut body = Vec::new();
            for map in request.maps {
                let index = map.task.index as usize;
                let attempt_count = &mut tries.lock().unwrap()[index];
                *attempt_count += 1;
                let is_ill = is_ill && *attempt_count == 1;
                if is_ill && index == 2 {
                    let diagnostics = "gone".to_owned();
                    body.extend(frame::encode(&SegmentAnswer::Lost { attempt: map, diagnostics }));
                    continue;
                }
                let file = fs::read(&data[index]).unwrap();
                let segments = shuffle::read_index(&data[index].with_extension("index")).unwrap();
                for reduce in request.partitions.clone() {
                    let SegmentInfo { offset, stored, raw, records } = segments[reduce as usize];
                    let mut bytes = file[offset as usize..(offset + stored) as usize].to_vec();
                    if is_ill && index == 1 && reduce == request.partitions.start {
                        bytes[30] ^= 1;
                    }
                    let header = SegmentHeader { attempt: map, reduce, stored, raw, records };
                    body.extend(frame::encode(&SegmentAnswer::Segment(header)));
                    body.extend(bytes);
                }
            }
            let seal = AnswerSignature::sign(&answers, signature.nonce, 200, None);
            send(&mut stream, &seal, &body);
        }
    });
    address
}

fn send(stream: &mut TcpStream, seal: &AnswerSignature, body: &[u8]) {
    let (length, seal) = (body.len(), seal.to_header());
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n{ANSWER_HEADER}: {seal}\r\n\r\n"
    )
    .unwrap();
    stream.write_all(body).unwrap();
}

fn gather_all(setup: &Setup, outputs: Vec<MapOutput>, directory: &Path) -> (Vec<String>, Vec<u32>) {
    gather_range((setup, MEMORY_BYTES), 0..1, outputs, directory)
}

/// The keys of some partitions of all outputs, in their order, and the maps that failed.
fn gather_range(
    (setup, memory_bytes): (&Setup, usize),
    partitions: Range<u32>,
    outputs: Vec<MapOutput>,
    directory: &Path,
) -> (Vec<String>, Vec<u32>) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let channel = Channel::new(ours);
    let reduce = attempt(TaskKind::Reduce, 0, 0);
    let (sender, news) = mpsc::channel();
    let holder = PassHolder::new(setup.pass.clone());
    let work = (reduce, partitions);
    let fetcher = Fetcher::new((setup, &holder), work, directory, memory_bytes, sender);
    let mut gather = Gather::of(&outputs);
    let context = Context::new(reduce, Default::default());
    let inputs = fetcher.gather(&mut gather, &news, &channel, &context).unwrap();
    drop(channel);
    let mut failed = Vec::new();
    while let Ok(FromRunner::FetchFailed(failure)) = frame::read(&mut theirs, 1 << 20, "report") {
        assert_eq!(failure.reduce, reduce);
        failed.push(failure.map.task.index);
    }
    failed.sort_unstable();
    let options = ReduceOptions {
        dir: directory.to_owned(),
        name: "reduce".into(),
        memory_bytes_max: 1 << 20,
        merge_factor: 10,
        codec: Codec::Lz4,
        group_prefix: None,
    };
    let sources: Vec<_> = inputs.into_iter().flat_map(|input| input.sources).collect();
    let files: HashSet<_> = sources
        .iter()
        .filter_map(|source| match source {
            SegmentSource::File { file, .. } => Some(Arc::as_ptr(file)),
            _ => None,
        })
        .collect();
    assert!(files.len() <= OPEN_FILES_MAX);
    let mut input = ReduceInput::new(sources, options).unwrap();
    let mut keys = Vec::new();
    while input.next_group().unwrap() {
        keys.push(String::from_utf8(input.key().to_vec()).unwrap());
    }
    (keys, failed)
}

fn outputs(data: &[PathBuf], http_address: &str, boot_id: &str) -> Vec<MapOutput> {
    let output = |(index, path): (usize, &PathBuf)| MapOutput {
        attempt: attempt(TaskKind::Map, index as u32, 0),
        http_address: http_address.into(),
        boot_id: boot_id.into(),
        data_path: path.to_str().unwrap().into(),
    };
    data.iter().enumerate().map(output).collect()
}

#[test]
fn remote_outputs_are_fetched_verified_and_tried_again() {
    let scratch = tempfile::tempdir().unwrap();
    let data: Vec<PathBuf> = ["a", "b", "c"]
        .iter()
        .map(|key| write_output(scratch.path(), &format!("map-{key}"), key))
        .collect();
    let address = serve(data.clone(), true);
    let (keys, failed) =
        gather_all(&setup("here"), outputs(&data, &address, "elsewhere"), scratch.path());
    assert_eq!(keys, ["a", "b", "c"]);
    assert_eq!(failed, [1, 2], "each failure is reported");
}

#[test]
fn outputs_of_more_maps_than_files_may_be_open_are_read() {
    let scratch = tempfile::tempdir().unwrap();
    let data = vec![write_output(scratch.path(), "map", "only"); OPEN_FILES_MAX + 100];
    let (keys, failed) =
        gather_all(&setup("here"), outputs(&data, "127.0.0.1:1", "here"), scratch.path());
    assert_eq!((keys, failed), (vec!["only".to_owned()], Vec::new()));
}

#[test]
fn outputs_on_this_machine_are_opened() {
    let scratch = tempfile::tempdir().unwrap();
    let data = vec![write_output(scratch.path(), "map", "only")];
    let (keys, failed) =
        gather_all(&setup("here"), outputs(&data, "127.0.0.1:1", "here"), scratch.path());
    assert_eq!((keys, failed), (vec!["only".to_owned()], Vec::new()));
}

/// With many reduces an index is long: a reduce that read all of it would meet the damage.
#[test]
fn of_an_index_on_this_machine_only_what_is_needed_is_read() {
    let scratch = tempfile::tempdir().unwrap();
    let keys: Vec<String> = (0..100).map(|number| format!("k{number:02}")).collect();
    let partitions: Vec<[&str; 1]> = keys.iter().map(|key| [key.as_str()]).collect();
    let partitions: Vec<&[&str]> = partitions.iter().map(<[_; 1]>::as_slice).collect();
    let data = vec![write_partitions(scratch.path(), "map", &partitions)];
    let index = data[0].with_extension("index");
    let mut bytes = fs::read(&index).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&index, bytes).unwrap();
    let here = setup("here");
    // Who asks the worker gets other keys.
    let asked: Vec<&[&str]> = vec![&["asked"]; 100];
    let asked = write_partitions(scratch.path(), "asked", &asked);
    let near = outputs(&data, &serve(vec![asked], false), "here");
    for partition in [0, 99] {
        let range = partition..partition + 1;
        let found = gather_range((&here, MEMORY_BYTES), range, near.clone(), scratch.path());
        assert_eq!(found, (vec![keys[partition as usize].clone()], vec![]));
    }
    let found = gather_range((&here, MEMORY_BYTES), 0..100, near, scratch.path());
    assert_eq!(found, (vec!["asked".to_owned()], vec![]), "damage where it is needed");
}

#[test]
fn neighbouring_partitions_are_merged_in_the_order_of_keys() {
    let scratch = tempfile::tempdir().unwrap();
    let made: [&[&[&str]]; 3] = [
        &[&["x0"], &["b", "y"], &[], &["a", "d"], &["x4"]],
        &[&["x0"], &["c"], &["e"], &["d", "z"], &["x4"]],
        &[&["x0"], &[], &[], &[], &["x4"]],
    ];
    let data: Vec<PathBuf> = made
        .iter()
        .enumerate()
        .map(|(map, keys)| write_partitions(scratch.path(), &format!("map-{map}"), keys))
        .collect();
    let want = ["a", "b", "c", "d", "e", "y", "z"];
    let want = want.map(str::to_owned).to_vec();
    let near = outputs(&data, "127.0.0.1:1", "here");
    let setup = setup("here");
    let found = gather_range((&setup, MEMORY_BYTES), 1..4, near, scratch.path());
    assert_eq!(found, (want.clone(), vec![]), "on this machine");
    let far = outputs(&data, &serve(data.clone(), true), "elsewhere");
    let found = gather_range((&setup, MEMORY_BYTES), 1..4, far, scratch.path());
    assert_eq!(found, (want.clone(), vec![1, 2]), "over HTTP");
    let far = outputs(&data, &serve(data.clone(), false), "elsewhere");
    let found = gather_range((&setup, 0), 1..4, far, scratch.path());
    assert_eq!(found, (want, vec![]), "over HTTP, with no room in memory");
}

#[test]
fn a_waiting_reduce_is_never_silent_for_as_long_as_its_worker_allows() {
    let timeout = keys::TASK_TIMEOUT.name();
    let of = |given: &[(&str, &str)]| {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        wait_pause(&given.collect()).as_millis()
    };
    for (given, pause) in [
        (&[][..], 5_000),
        (&[(SILENCE_PROPERTY, "600000")], 5_000),
        (&[(SILENCE_PROPERTY, "0"), (timeout, "2000")], 5_000),
        (&[(SILENCE_PROPERTY, "2000")], 500),
        (&[(timeout, "2000")], 500),
        (&[(SILENCE_PROPERTY, "nonsense")], 5_000),
    ] {
        assert_eq!(of(given), pause, "{given:?}");
    }
    // No map is done: it waits until there is news.
    let mut setup = setup("here");
    setup.program.properties.insert(SILENCE_PROPERTY.to_owned(), "40".to_owned());
    let scratch = tempfile::tempdir().unwrap();
    let holder = PassHolder::new(setup.pass.clone());
    let (sender, news) = mpsc::channel();
    let (reduce, teller) = (attempt(TaskKind::Reduce, 0, 0), sender.clone());
    let fetcher =
        Fetcher::new((&setup, &holder), (reduce, 0..1), scratch.path(), MEMORY_BYTES, sender);
    let context = Context::new(reduce, Default::default());
    let (waiting, begin) = (context.clone(), Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let channel = Channel::new(UnixStream::pair().unwrap().0);
            let mut gather = Gather::new(0..1, Vec::new());
            assert_eq!(fetcher.gather(&mut gather, &news, &channel, &waiting).unwrap().len(), 1);
        });
        let signs = TaskState::of(&context).life_signs();
        while TaskState::of(&context).life_signs() < signs + 3 {
            assert!(begin.elapsed() < WAIT_PAUSE_MAX, "it is silent");
            std::thread::yield_now();
        }
        let data = vec![write_output(scratch.path(), "map", "only")];
        let available = outputs(&data, "127.0.0.1:1", "here");
        teller.send(News::Outputs { available, obsolete: Vec::new() }).unwrap();
    });
}
