//! SequenceFiles from job to job.

use mr_api::codec::FileCodec;
use mr_api::job::sequence_out;
use mr_api::sequence::SequencePairs;
use mr_api::{Error, Job, Lines, LocalRunner, Sum, from_files, map_fn, reduce_fn, text, text_out};

/// Counts words into a SequenceFile and reads that with another job.
#[test]
fn one_job_writes_what_another_reads() {
    for (codec, blocks) in
        [(None, false), (Some(FileCodec::Deflate), false), (Some(FileCodec::Zstd), true)]
    {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        std::fs::write(path("in"), "b a b\nc b a\n".repeat(500)).unwrap();
        let output = sequence_out::<String, i64>(path("counts"));
        let output = match (codec, blocks) {
            (None, _) => output,
            (Some(codec), false) => output.compressed(codec),
            (Some(codec), true) => output.block_compressed(codec),
        };
        let words = map_fn::<Lines, String, u64, _>(|line, out| {
            let text = line.to_str_lossy();
            text.split_whitespace().try_for_each(|word| out.emit(word, 1u64))
        });
        let count = Job::new("count")
            .input(text([path("in")]))
            .map(words)
            .combine(Sum)
            .reduce(reduce_fn::<String, u64, _>(|word, values, out| {
                let sum = values.fold(&Sum)?.unwrap_or_default();
                out.append(word, i64::try_from(sum)?)
            }))
            .reducers(2)
            .output(output);
        LocalRunner::new().run(count).unwrap();
        let read = Job::new("read")
            .input(from_files([path("counts")], SequencePairs::<String, i64>::new()))
            .map_fn::<i64, String, _>(|(word, count), out| out.emit(count, word))
            .reduce(reduce_fn::<i64, String, _>(|count, values, out| {
                while let Some(word) = values.next_value()? {
                    out.write(word, count)?;
                }
                Ok(())
            }))
            .reducers(1)
            .output(text_out(path("out")));
        LocalRunner::new().run(read).unwrap();
        let text = std::fs::read_to_string(path("out/part-r-00000")).unwrap();
        assert_eq!(text, "c\t500\na\t1000\nb\t1500\n", "{codec:?} {blocks}");
    }
}

#[test]
fn other_classes_than_the_job_names_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("in"), "not a sequence file\n").unwrap();
    let job = Job::new("wrong")
        .input(text([path("in")]))
        .map_fn::<String, u64, _>(|_, out| out.emit("x", 1u64))
        .reduce(reduce_fn::<String, u64, _>(|word, _, out| out.append(word, 1i32)))
        .reducers(1)
        .output(sequence_out::<String, i64>(path("out")));
    let class = "org.apache.hadoop.io.IntWritable".to_owned();
    let refused = mr_formats::Error::OutputClass { class }.to_string();
    match *LocalRunner::new().run(job).unwrap_err().downcast().unwrap() {
        Error::Reduce { message, .. } => assert_eq!(message, refused),
        other => panic!("{other:?}"),
    }
    let job = Job::new("reads-wrong")
        .input(from_files([path("in")], SequencePairs::<String, i64>::new()))
        .map_fn::<String, i64, _>(|(key, value), out| out.emit(key, value))
        .output(text_out(path("out")));
    match *LocalRunner::new().run(job).unwrap_err().downcast().unwrap() {
        Error::Map { message, .. } => {
            assert_eq!(message, "sequence file: it does not begin with SEQ");
        }
        other => panic!("{other:?}"),
    }
}
