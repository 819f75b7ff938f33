//! Whole local jobs over every input format and codec.

use std::fs;
use std::path::Path;

use mr_api::codec::FileCodec;
use mr_api::formats::{CombinedLines, FixedLength, Format, KeyValueLines, NLines, WholeFiles};
use mr_api::job::Input;
use mr_api::sequence::SequenceFiles;
use mr_api::sequence::{Compression, SequenceWriter};
use mr_api::{Job, LocalRunner, Sum, from_files, text, text_out};
use protocol::jobs::Counters;

/// Runs a map-only job that writes each record as text; returns its lines, sorted, and its counters.
fn records<F: Format>(
    runner: &LocalRunner,
    input: Input<F>,
    output: &Path,
    render: impl Fn(F::Record<'_>) -> String + Clone + Send + Sync + 'static,
) -> (Vec<String>, Counters) {
    let job = Job::new("records")
        .input(input)
        .map_fn::<String, (), _>(move |record, out| out.emit(render(record), ()))
        .output(text_out(output.to_string_lossy()));
    let counters = runner.run(job).unwrap().remove(0);
    let mut lines = Vec::new();
    for entry in fs::read_dir(output).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        lines.extend(text.lines().map(str::to_owned));
    }
    lines.sort();
    fs::remove_dir_all(output).unwrap();
    (lines, counters)
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_codec_is_recognised_by_its_extension() {
    let directory = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..5000).map(|n| format!("line {n:05}")).collect();
    let raw = lines.join("\n");
    let output = directory.path().join("out");
    for extension in ["gz", "deflate", "bz2", "zst", "lz4", "snappy"] {
        let path = directory.path().join(format!("in.{extension}"));
        let codec = FileCodec::of_path(path.to_str().unwrap()).unwrap();
        let stored = codec.compress(raw.as_bytes()).unwrap();
        fs::write(&path, &stored).unwrap();
        // However small the splits: a compressed file is one split, except in bzip2, which has one block here.
        let runner = LocalRunner::new().split_bytes(100);
        let input = text([path.to_str().unwrap()]);
        let (found, _) = records(&runner, input, &output, |line| utf8(&line));
        assert_eq!(found, lines, "{extension}");

        fs::write(&path, &stored[..stored.len() - 3]).unwrap();
        let job = Job::new("cut off")
            .input(text([path.to_str().unwrap()]))
            .map_fn::<String, (), _>(|_, _| Ok(()))
            .output(text_out(output.to_str().unwrap()));
        let error = runner.run(job).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        assert!(!output.try_exists().unwrap(), "{extension}");
    }
}

#[test]
fn formats_give_their_records() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (output, runner) = (directory.path().join("out"), LocalRunner::new());
    fs::write(path("pairs"), "a=1\nb\n=c=d\n").unwrap();
    let input = from_files([path("pairs")], KeyValueLines { separator: b'=' });
    let (found, _) = records(&runner, input, &output, |(k, v)| format!("{} {}", utf8(k), utf8(v)));
    assert_eq!(found, [" c=d", "a 1", "b "]);

    let input = from_files([path("pairs")], NLines { count: 2 });
    let (found, _) = records(&runner, input, &output, |line| utf8(&line));
    assert_eq!(found, ["=c=d", "a=1", "b"]);

    let input = from_files([path("pairs")], WholeFiles);
    let (found, _) = records(&runner, input, &output, |file| file.len().to_string());
    assert_eq!(found, ["11"]);

    fs::write(path("fixed"), "aaabbbccc").unwrap();
    let input = from_files([path("fixed")], FixedLength { bytes: 3 });
    let (found, _) = records(&runner.clone().split_bytes(2), input, &output, utf8);
    assert_eq!(found, ["aaa", "bbb", "ccc"]);
}

#[test]
fn sequence_files_are_cut_into_splits() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    for compression in [
        Compression::None,
        Compression::Record(FileCodec::Deflate),
        Compression::Block(FileCodec::Gzip),
    ] {
        let class = "org.apache.hadoop.io.BytesWritable";
        let mut writer =
            SequenceWriter::new(Vec::new(), class, class, compression, [7; 16]).unwrap();
        let mut expected = Vec::new();
        for n in 0..2000 {
            writer.push(format!("{n:04}").as_bytes(), b"value").unwrap();
            expected.push(format!("{n:04} value"));
        }
        let path = directory.path().join("in.seq");
        fs::write(&path, writer.end().unwrap()).unwrap();
        let input = from_files([path.to_str().unwrap()], SequenceFiles);
        let runner = LocalRunner::new().split_bytes(3000);
        let (found, _) =
            records(&runner, input, &output, |(k, v)| format!("{} {}", utf8(k), utf8(v)));
        assert_eq!(found, expected, "{compression:?}");
    }
}

#[test]
fn tiny_files_become_few_tasks() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("in");
    fs::create_dir(&folder).unwrap();
    for n in 0..10_000 {
        fs::write(folder.join(format!("{n:05}")), "one two\n").unwrap();
    }
    let output = directory.path().join("out");
    let job = Job::new("tiny")
        .input(from_files([folder.to_str().unwrap()], CombinedLines { split_bytes: 20_000 }))
        .map_fn::<Vec<u8>, u64, _>(|line, out| {
            line.words().try_for_each(|word| out.emit(word, 1u64))
        })
        .reduce(Sum)
        .reducers(1)
        .output(text_out(output.to_str().unwrap()).compressed(FileCodec::Gzip));
    let counters = LocalRunner::new().run(job).unwrap().remove(0);
    assert_eq!(counters.value("org.apache.hadoop.mapreduce.TaskCounter", "SHUFFLED_MAPS"), 4);
    let stored = fs::read(output.join("part-r-00000.gz")).unwrap();
    let mut text = Vec::new();
    FileCodec::Gzip.decompress(&stored, 1000, &mut text).unwrap();
    assert_eq!(utf8(&text), "one\t10000\ntwo\t10000\n");
}
