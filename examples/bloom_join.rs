//! Joins few users with many visits, of which most are of strangers: a Bloom filter keeps those out of the sort.
//!
//! ```text
//! cargo run --release --example bloom_join -- --local users.tsv visits.tsv OUT
//! ```
//!
//! Reads `id<TAB>name` and `id<TAB>page` and writes `name<TAB>page`, as `joins reduce` does. There, every visit is sorted and sent to a reduce,
//! also one whose user is not among the users. Here a map drops nearly all of these.
//!
//! A *Bloom filter* is a row of bits. An id sets a few of them, at places that hashes tell. If one of an id's bits is not set, the id was never
//! put in; if all are, it nearly certainly was. With ten bits for an id and seven places, one stranger in a hundred comes through. The
//! filter needs a byte or two for an id, however long ids are: for users that do not fit in memory themselves.
//!
//! Two jobs. The first makes the filter: each map that of its users, and a reduce, the only one, puts these together by *or*. In the second
//! job it is a side file, and maps of visits ask it. Then comes the join by sorting, which is exact: those who came through by mistake find no
//! user there, and are counted.

use std::fs;
use std::io::{Write, stderr};
use std::process::ExitCode;
use std::sync::Arc;

use mr_api::formats::KeyValueLines;
use mr_api::job::CompleteJob;
use mr_api::{
    Always, Args, Auto, Cluster, Context, Emit, Job, Mapper, Program, Result, Sink, counters,
    from_files, intermediate, map_fn, reduce_fn, text_out, usage_error,
};

const HELP: &str = "\
Joins `id<TAB>name` with `id<TAB>page` into `name<TAB>page`, for pages of which few have a name.

Usage: bloom_join [options] USERS VISITS OUT

  --bits N               bits of the filter: ten for each user are good (default 8388608, a megabyte)

Counters say how many visits the filter dropped, and how many strangers it let through.
";

counters! {
    enum Visits {
        Dropped,
        FalsePositive,
    }
}

/// Text fields separated by tabs.
const TABS: KeyValueLines = KeyValueLines { separator: b'\t' };
/// Bits that an id sets.
const PLACES: u64 = 7;
/// Most bits: a filter of half a gigabyte.
const BITS_MAX: u64 = 1 << 32;

fn main() -> ExitCode {
    Program::new(HELP).step(filter).step(join).main(drive)
}

fn drive(args: &mut Args, cluster: &Cluster) -> Result<()> {
    let bits: u64 = args.value("--bits")?.unwrap_or(1 << 23);
    if !(8..=BITS_MAX).contains(&bits) {
        return usage_error(format!("--bits must be from 8 to {BITS_MAX}"));
    }
    let operands = args.operands()?;
    let [users, visits, output] = &operands[..] else {
        return usage_error("users, visits and an output are needed");
    };
    cluster.check_new(output)?;
    let filter = cluster.run(filter, &(users.clone(), bits))?;
    let paths = (users.clone(), visits.clone(), filter.path().to_owned());
    let done = cluster.run(join, &(paths, output.clone()))?;
    let (dropped, mistaken) = (done.counted(Visits::Dropped), done.counted(Visits::FalsePositive));
    writeln!(
        stderr(),
        "the filter dropped {dropped} visits, and let {mistaken} of strangers through"
    )?;
    Ok(())
}

/// A row of bits.
#[derive(Clone)]
struct Bloom(Vec<u8>);

impl Bloom {
    /// The places of an id: byte and bit.
    fn places(&self, id: &[u8]) -> impl Iterator<Item = (usize, u8)> + use<> {
        // FNV-1a, and what its upper half makes of the lower one.
        let hash = id.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (step, bits) = ((mixed >> 32) | 1, self.0.len() as u64 * 8);
        (0..PLACES).map(move |number| {
            let place = mixed.wrapping_add(number.wrapping_mul(step)) % bits;
            ((place / 8) as usize, 1 << (place % 8))
        })
    }

    fn put(&mut self, id: &[u8]) {
        self.places(id).for_each(|(byte, bit)| self.0[byte] |= bit);
    }

    fn may_have(&self, id: &[u8]) -> bool {
        self.places(id).all(|(byte, bit)| self.0[byte] & bit != 0)
    }
}

fn filter((users, bits): (String, u64)) -> Result<CompleteJob> {
    let all = reduce_fn::<(), Vec<u8>, _>(|(), filters, out| {
        let mut all = Vec::new();
        while let Some(filter) = filters.next_value()? {
            all.resize(filter.len(), 0);
            all.iter_mut().zip(filter).for_each(|(into, byte)| *into |= byte);
        }
        out.write(all, ())
    });
    let empty = Put(Bloom(vec![0; bits.div_ceil(8) as usize]));
    let job = Job::new("filter").input(from_files([users], TABS)).map(empty).depends_on(bits);
    // One file, whatever `--reducers` says: the next job reads it by its name.
    let job = job.reduce(all).reducers(Always(1));
    Ok(job.output(intermediate().raw()))
}

/// Puts the ids of a split into a filter.
#[derive(Clone)]
struct Put(Bloom);

impl Mapper for Put {
    type In = KeyValueLines;
    type Key = ();
    type Value = Vec<u8>;

    fn map<S: Sink>(
        &mut self,
        (id, _): (&[u8], &[u8]),
        _: &mut Emit<(), Vec<u8>, S>,
    ) -> Result<()> {
        self.0.put(id);
        Ok(())
    }

    fn cleanup<S: Sink>(&mut self, out: &mut Emit<(), Vec<u8>, S>) -> Result<()> {
        out.emit((), self.0.0.as_slice())
    }
}

/// The input that a pair came from: users sort before visits.
const USER: u8 = 0;
const VISIT: u8 = 1;

/// An id, and an input.
type Key = (Vec<u8>, u8);

fn join(
    ((users, visits, filter), output): ((String, String, String), String),
) -> Result<CompleteJob> {
    let users_too = map_fn(|(id, name), out| out.emit((id, USER), name));
    // The name of an id comes first, then its visits.
    let join = reduce_fn::<Key, Vec<u8>, _>(|_, values, out| {
        let mut name = None;
        while let Some(text) = values.next_value()? {
            let text = text.to_vec();
            match (values.current_key()?.1, &name) {
                (USER, _) => name = Some(text),
                (_, Some(name)) => out.write(name, text)?,
                (_, None) => out.context().count(Visits::FalsePositive),
            }
        }
        Ok(())
    });
    let job = Job::new("bloom-join").side_file(&format!("{filter}/part-r-00000#filter"))?;
    let job = job.input(from_files([visits], TABS)).map(Ask(Arc::new(Bloom(Vec::new()))));
    let job = job.also(from_files([users], TABS), users_too).group_by_first().reduce(join);
    Ok(job.reducers(Auto).output(text_out(output)))
}

/// Emits the visits that the filter lets through.
#[derive(Clone)]
struct Ask(Arc<Bloom>);

impl Mapper for Ask {
    type In = KeyValueLines;
    type Key = Key;
    type Value = Vec<u8>;

    fn setup(&mut self, context: &Context) -> Result<()> {
        self.0 = Arc::new(Bloom(fs::read(context.side_file("filter")?)?));
        Ok(())
    }

    fn map<S: Sink>(
        &mut self,
        (id, page): (&[u8], &[u8]),
        out: &mut Emit<Key, Vec<u8>, S>,
    ) -> Result<()> {
        if self.0.may_have(id) {
            return out.emit((id, VISIT), page);
        }
        out.count(Visits::Dropped);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mr_api::LocalRunner;

    use super::*;

    /// Every twentieth of 2,000 ids is a user; visits are of all.
    fn joined(bits: &str) -> (String, [u64; 2]) {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let users = (0..2000).step_by(20).map(|id| format!("{id}\tuser{id}\n"));
        fs::write(path("users"), users.collect::<String>()).unwrap();
        let visits = (0..5000).map(|n| format!("{}\t/page{n}\n", n * 7919 % 2000));
        fs::write(path("visits"), visits.collect::<String>()).unwrap();
        let cluster = Cluster::local(LocalRunner::new().reducers(1).split_bytes(700));
        let words = ["--bits", bits, &path("users"), &path("visits"), &path("out")];
        drive(&mut Args::from_words(words).unwrap(), &cluster).unwrap();
        let filter = cluster.run(filter, &(path("users"), bits.parse().unwrap())).unwrap();
        let paths = (path("users"), path("visits"), filter.path().to_owned());
        let done = cluster.run(join, &(paths, path("again"))).unwrap();
        let counts = [Visits::Dropped, Visits::FalsePositive].map(|counter| done.counted(counter));
        (fs::read_to_string(path("out/part-r-00000")).unwrap(), counts)
    }

    #[test]
    fn the_join_is_exact_whatever_the_filter_lets_through() {
        let mut expected = BTreeMap::<u64, Vec<String>>::new();
        for n in 0..5000 {
            let id = n * 7919 % 2000;
            if id % 20 == 0 {
                expected.entry(id).or_default().push(format!("user{id}\t/page{n}"));
            }
        }
        let mut expected: Vec<String> = expected.into_values().flatten().collect();
        expected.sort();
        let strangers = 5000 - expected.len() as u64;
        // Ten bits for each of 100 users, far too few, and one bit for all.
        for (bits, mistaken) in
            [("1000", 0..300), ("200", 1000..strangers), ("8", strangers..strangers + 1)]
        {
            let (text, [dropped, false_positives]) = joined(bits);
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            assert!(lines == expected, "{bits} bits");
            assert_eq!(dropped + false_positives, strangers, "{bits} bits");
            assert!(mistaken.contains(&false_positives), "{bits} bits: {false_positives}");
        }
    }

    #[test]
    fn a_filter_forgets_no_id() {
        let mut filter = Bloom(vec![0; 2000]);
        let ids: Vec<Vec<u8>> = (0..1000u32).map(|n| (n * n).to_string().into_bytes()).collect();
        ids.iter().for_each(|id| filter.put(id));
        assert!(ids.iter().all(|id| filter.may_have(id)));
        let strangers = (0..10_000u32).filter(|n| filter.may_have(format!("x{n}").as_bytes()));
        // (1 - exp(-7 · 1000 / 16000))⁷ is 0.0006 of 10,000.
        assert!(strangers.count() < 40);
    }
}
