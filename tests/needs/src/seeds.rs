//! Seeds of simulations: other ones in each run, so that runs add up; from the environment, to see one again or to see many.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The first seed; without it, any.
const FIRST_VARIABLE: &str = "HANNO_TEST_SEED";
/// How many seeds, one after the other.
const COUNT_VARIABLE: &str = "HANNO_TEST_SEEDS";

/// Runs a simulation with `count` seeds, or with those of the environment. If one panics, its seed is printed.
///
/// # Panics
/// If a variable is no number, and as `run` does.
pub fn for_each(count: u64, mut run: impl FnMut(u64)) {
    let first = number(FIRST_VARIABLE).unwrap_or_else(any);
    for seed in (0..number(COUNT_VARIABLE).unwrap_or(count)).map(|at| first.wrapping_add(at)) {
        let named = Named(seed);
        run(seed);
        drop(named);
    }
}

/// As [`for_each`], with as many seeds at once as there are cores; after one has panicked, no other begins.
///
/// # Panics
/// As [`for_each`].
pub fn for_each_in_parallel(count: u64, run: impl Fn(u64) + Sync) {
    let first = number(FIRST_VARIABLE).unwrap_or_else(any);
    let (count, next) = (number(COUNT_VARIABLE).unwrap_or(count), AtomicU64::new(0));
    let failed = AtomicBool::new(false);
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count || failed.load(Ordering::Relaxed) {
                        break;
                    }
                    let seed = first.wrapping_add(at);
                    let named = (Named(seed), Fails(&failed));
                    run(seed);
                    drop(named);
                }
            });
        }
    });
}

/// Numbers that a person can copy.
fn any() -> u64 {
    RandomState::new().hash_one(()) >> 24
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is no number")))
}

/// Keeps others from beginning.
struct Fails<'a>(&'a AtomicBool);

impl Drop for Fails<'_> {
    fn drop(&mut self) {
        self.0.fetch_or(std::thread::panicking(), Ordering::Relaxed);
    }
}

/// Says whose failure it is.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("again: {FIRST_VARIABLE}={} {COUNT_VARIABLE}=1", self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const AGAIN_VARIABLE: &str = "HANNO_TEST_SEEDS_AGAIN";

    /// This test once more, as a simulation in which each third seed fails; its exit and what it printed.
    fn again(variables: &[(&str, &str)]) -> (bool, String) {
        let name = "seeds::tests::seeds_come_from_the_environment_and_one_that_fails_is_named";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--nocapture"]).env(AGAIN_VARIABLE, "1");
        command.env_remove(FIRST_VARIABLE).env_remove(COUNT_VARIABLE);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    }

    #[test]
    fn seeds_come_from_the_environment_and_one_that_fails_is_named() {
        if std::env::var_os(AGAIN_VARIABLE).is_some() {
            return for_each(3, |seed| assert!(seed % 3 != 0, "a third"));
        }
        let (is_green, printed) = again(&[]);
        assert!(!is_green, "{printed}");
        let seed = printed.split("HANNO_TEST_SEED=").nth(1).unwrap().split(' ').next().unwrap();
        let one = |seed| again(&[(FIRST_VARIABLE, seed), (COUNT_VARIABLE, "1")]);
        let (is_green, printed) = one(seed);
        assert!(!is_green && printed.contains(&format!("again: HANNO_TEST_SEED={seed} ")));
        assert!(one("4").0);
        assert!(!again(&[(FIRST_VARIABLE, "four")]).0);
    }
}
