//! Runs seeds on all cores: `HANNO_TEST_SEED` is the first one, `HANNO_TEST_SEEDS` their number; without them, 100 new ones.

use std::sync::Mutex;
use std::time::Instant;

fn main() {
    if let Some(argument) = std::env::args().nth(1) {
        eprintln!(
            "sim takes no {argument}: HANNO_TEST_SEED is the first seed, HANNO_TEST_SEEDS how many"
        );
        std::process::exit(2);
    }
    let (begin, total) = (Instant::now(), Mutex::new(sim::Report::default()));
    needs::seeds::for_each_in_parallel(100, |seed| {
        let report = sim::run(seed);
        total.lock().expect("nobody has failed under the lock").add(&report);
    });
    let total = total.into_inner().expect("all have ended");
    println!("{total}, in {:.1} s", begin.elapsed().as_secs_f64());
}
