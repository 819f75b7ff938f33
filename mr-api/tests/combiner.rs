//! A combiner as reducer, with much and with little memory.

use mr_api::reduce::{CombineOut, CombineValues, Combiner};
use mr_api::{Job, Lines, LocalRunner, Result, map_fn, text, text_out};

/// The largest value of each key; stops reading the others once it has read a 9.
#[derive(Clone)]
struct Largest;

impl Combiner for Largest {
    type Key = String;
    type Value = u64;

    fn combine(
        &mut self,
        key: &str,
        values: &mut CombineValues<'_, u64>,
        out: &mut CombineOut<'_, String, u64>,
    ) -> Result<()> {
        let mut largest = 0;
        while let Some(value) = values.next_value()? {
            largest = largest.max(value);
            if largest == 9 {
                break;
            }
        }
        out.emit(key, largest)
    }
}

#[test]
fn the_same_code_combines_and_reduces_however_often_it_runs() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let lines = (0..3000u64).map(|i| format!("{} {}\n", ["a", "b", "c"][i as usize % 3], i % 10));
    std::fs::write(path("in"), lines.collect::<String>() + "d 4\n").unwrap();
    let job = |output: &str| {
        let map = map_fn::<Lines, String, u64, _>(|line, out| {
            let text = line.to_str_lossy();
            let (key, value) = text.split_once(' ').ok_or("two words")?;
            out.emit(key, value.parse::<u64>()?)
        });
        Job::new("largest")
            .input(text([path("in")]))
            .map(map)
            .combine(Largest)
            .reduce(Largest)
            .reducers(1)
            .output(text_out(path(output)))
    };
    let counters = LocalRunner::new().run(job("plain")).unwrap();
    let group = "org.apache.hadoop.mapreduce.TaskCounter";
    assert_eq!(counters[0].value(group, "COMBINE_INPUT_RECORDS"), 3001);
    assert_eq!(counters[0].value(group, "COMBINE_OUTPUT_RECORDS"), 4);
    LocalRunner::new().tiny_memory().run(job("tiny")).unwrap();
    for output in ["plain", "tiny"] {
        let text = std::fs::read_to_string(path(&format!("{output}/part-r-00000"))).unwrap();
        assert_eq!(text, "a\t9\nb\t9\nc\t9\nd\t4\n");
    }
}
