//! Runs the decoders of a crate over what is kept for them: seeds, and everything that ever made one fail. Included as part of the tests by
//! each module that has a table of them.

use std::fs;
use std::path::Path;

use super::DECODERS;

/// Places of one seed that are tried.
const PLACES_MAX: usize = 200;

/// Gives each decoder its seeds, their beginnings, and each of them with one byte changed.
#[test]
#[allow(clippy::print_stdout, reason = "a decoder that fails is seen behind the name of its seed")]
fn seeds_are_taken_as_ever() {
    for (name, decode) in DECODERS {
        let folder = seeds().join(name);
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

/// In the project's folder, which is that of the package or the one around it.
fn seeds() -> std::path::PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = package.ancestors().map(|folder| folder.join("fuzz/seeds"));
    folders.find(|seeds| seeds.is_dir()).expect("the project has seeds")
}

/// Every place of what is short, some of what is long.
fn places(length: usize) -> impl Iterator<Item = usize> {
    (0..length).step_by((length / PLACES_MAX).max(1))
}
