//! Runs the decoders of a crate over what is kept for them: seeds, and everything that ever made one fail. Included by each crate that has
//! a table of them, as part of its tests.

use std::fs;
use std::path::Path;

/// A name, which is that of its folder of seeds, and what takes any bytes.
pub(crate) type Decoder = (&'static str, fn(&[u8]));

/// Gives each decoder of a crate its seeds, their beginnings, and each of them with one byte changed.
#[allow(clippy::print_stdout, reason = "a decoder that fails is seen behind the name of its seed")]
pub(crate) fn replay(seeds: &Path, decoders: &[Decoder]) {
    for (name, decode) in decoders {
        let folder = seeds.join(name);
        let mut count = 0;
        for entry in fs::read_dir(&folder).expect("each decoder has seeds") {
            let path = entry.expect("a folder of seeds can be read").path();
            let seed = fs::read(&path).expect("a seed can be read");
            println!("{}", path.display());
            decode(&seed);
            for at in places(seed.len()) {
                decode(&seed[..at]);
                let mut changed = seed.clone();
                changed[at] = changed[at].wrapping_add(1 << (at % 8));
                decode(&changed);
            }
            count += 1;
        }
        assert!(count > 0, "no seeds in {}", folder.display());
    }
}

/// Every place of what is short, some of what is long.
fn places(length: usize) -> impl Iterator<Item = usize> {
    (0..length).step_by((length / PLACES_MAX).max(1))
}

/// Places of one seed that are tried.
const PLACES_MAX: usize = 200;
