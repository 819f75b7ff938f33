//! Who may change which job.

use protocol::{ErrorKind, JobId};

use super::super::rights::{Administrators, Caller};
use super::world::{World, spec};

#[test]
fn a_job_is_changed_by_its_owner_and_those_above() {
    let mut world = World::new();
    let of_queues = [("cid".to_owned(), "queuer".to_owned())].into();
    world.core.rules.administrators = Administrators::parse("carl wheel", &of_queues);
    let own = world.submit_as("cid", 1, spec(1, &["a"], 0)).unwrap();
    let mut shared = spec(2, &["a"], 0);
    shared.properties.insert("mapreduce.job.acl-modify-job".to_owned(), "friend staff".to_owned());
    let shared = world.submit_as("ann", 2, shared).unwrap();
    let wheel = ["wheel".to_owned()];
    let staff = ["staff".to_owned()];
    for (user, groups, is_superuser, may) in [
        ("cid", &[][..], false, [true, false]),
        ("ann", &[], false, [false, true]),
        ("eve", &[], false, [false, false]),
        ("root", &[], true, [true, true]),
        ("carl", &[], false, [true, true]),
        ("eve", &wheel, false, [true, true]),
        ("queuer", &[], false, [true, false]),
        ("friend", &[], false, [false, true]),
        ("eve", &staff, false, [false, true]),
    ] {
        let caller = Caller { user, groups, is_superuser };
        for (job, may) in [own, shared].into_iter().zip(may) {
            let checked = world.core.check_modify(&caller, job);
            assert_eq!(checked.is_ok(), may, "{user} {groups:?} {job}");
            if let Err(error) = checked {
                let expected = format!("User {user} cannot perform operation MODIFY_JOB on {job}");
                assert_eq!((error.kind, error.message), (ErrorKind::PermissionDenied, expected));
            }
        }
        let refreshed = world.core.check_administrator(&caller, "refreshQueues").is_ok();
        assert_eq!(refreshed, may == [true, true], "{user} {groups:?}");
    }
    let nobody = JobId { cluster_start: 1, number: 99 };
    let caller = Caller { user: "eve", groups: &[], is_superuser: false };
    let error = world.core.check_modify(&caller, nobody).unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownJob);
}
