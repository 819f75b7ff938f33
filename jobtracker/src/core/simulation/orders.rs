//! Orders to workers do not fill the memory, however long the description of a job.

use std::sync::Arc;

use protocol::ErrorKind;
use protocol::jobs::JobSpec;
use protocol::tracker::{Action, Launch};

use super::world::{World, spec};
use crate::core::submit::program_too_long;

/// Bytes of the orders that leave at once, at most.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// A job with a property of this length.
fn job_with(property_bytes: usize, maps: usize) -> JobSpec {
    let mut asked = spec(1, &vec!["a"; maps], 0);
    asked.properties.insert("x".to_owned(), "y".repeat(property_bytes));
    asked
}

fn launches(actions: &[Action]) -> Vec<Launch> {
    let launch = |action: &Action| match action {
        Action::Launch(launch) => (**launch).clone(),
        other => panic!("{other:?}"),
    };
    actions.iter().map(launch).collect()
}

#[test]
fn launches_share_the_description_of_their_job_and_leave_in_short_answers() {
    let slots = 10;
    let mut world = World::new();
    let worker = world.add_worker("a", slots);
    world.contact(worker, true);
    world.submit(1, job_with(3 << 20, slots as usize)).unwrap();
    world.do_all_effects();
    let (mut number, mut all) = (0, Vec::new());
    while let Some((next, actions)) = world.core.take_actions(worker, number) {
        let bytes: usize = actions.iter().map(|action| protocol::wire::encode(action).len()).sum();
        assert!(bytes <= ANSWER_BYTES_MAX, "an answer of {bytes} bytes");
        let again = world.core.take_actions(worker, number).unwrap();
        assert_eq!((again.0, again.1.len()), (next, actions.len()), "they are repeated");
        all.extend(launches(&actions));
        number = next;
    }
    assert_eq!(all.len(), slots as usize);
    assert!(all.iter().all(|launch| Arc::ptr_eq(&launch.program, &all[0].program)));
}

#[test]
fn a_job_whose_description_is_too_long_for_its_tasks_is_refused() {
    let mut world = World::new();
    let long = job_with(4 << 20, 1);
    let bytes = protocol::wire::length(&(&long.args, &long.properties));
    let refused = world.submit(1, long).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::LimitExceeded);
    assert_eq!(refused, program_too_long(bytes));
    assert!(!refused.message.contains('\n'), "{refused}");
    world.submit(1, job_with((4 << 20) - 100, 1)).unwrap();
}
