//! Words of a text.

use mr_api::datum::Desc;
use mr_api::{
    Always, Auto, Job, Plan, Result, Sum, intermediate, parse, previous, reduce_fn, text,
};

/// Hands out the words of a text, in lower case: what is between characters that are no letters or digits.
///
/// # Errors
/// Those of `each`.
pub fn each_word(text: &[u8], each: impl FnMut(&str) -> Result<()>) -> Result<()> {
    let text = String::from_utf8_lossy(text).to_lowercase();
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.is_empty()).try_for_each(each)
}

/// A step that writes the most frequent words, one in each line of one file, whatever `--reducers` says: jobs read it by its name. Their count
/// is the key of the sort.
///
/// # Errors
/// None.
pub fn vocabulary((inputs, most): (Vec<String>, u32)) -> Result<Plan> {
    type ByCount = ((), (Desc<u64>, String));
    let count = Job::new("words")
        .input(text(inputs))
        .map_fn::<String, u64, _>(|line, out| each_word(line.bytes, |word| out.emit(word, 1u64)));
    let sort = Job::new("vocabulary").input(previous());
    let sort = sort.map_fn::<ByCount, (), _>(|line, out| {
        let line = line.to_str_lossy();
        let (word, count) = line.split_once('\t').ok_or("a line is no word with its count")?;
        out.emit(((), (Desc(parse::<u64>(count, "count", &*line)?), word)), ())
    });
    let first = reduce_fn::<ByCount, (), _>(move |_, words, out| {
        for _ in 0..most {
            if words.next_value()?.is_none() {
                break;
            }
            out.write(words.current_key()?.1.1, ())?;
        }
        Ok(())
    });
    let count = count.combine(Sum).reduce(Sum).reducers(Auto).output(intermediate());
    let to_first = |_: ((), (Desc<u64>, &str)), _: u32| 0;
    let sort = sort.depends_on(most).group_by_first().partition(to_first).reduce(first);
    Ok(Plan::from(count).then(sort.reducers(Always(1)).output(intermediate())))
}
