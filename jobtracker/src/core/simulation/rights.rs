//! Who may view and change which job.

use protocol::jobs::Call;
use protocol::{ErrorKind, JobId};

use super::super::rights::{Administrators, Caller, Operation};
use super::world::{World, spec};

#[test]
fn a_job_is_changed_by_its_owner_and_those_above() {
    belongs(Operation::Modify, "mapreduce.job.acl-modify-job", "MODIFY_JOB");
}

#[test]
fn a_job_is_looked_at_by_its_owner_and_those_above() {
    belongs(Operation::View, "mapreduce.job.acl-view-job", "VIEW_JOB");
}

fn belongs(operation: Operation, property: &str, name: &str) {
    let mut world = World::new();
    let of_queues = [("cid".to_owned(), "queuer".to_owned())].into();
    world.core.rules.administrators = Administrators::parse("carl wheel", &of_queues);
    let own = world.submit_as("cid", 1, spec(1, &["a"], 0)).unwrap();
    let mut shared = spec(2, &["a"], 0);
    shared.properties.insert(property.to_owned(), "friend staff".to_owned());
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
            let checked = world.core.check(&caller, operation, job);
            assert_eq!(checked.is_ok(), may, "{user} {groups:?} {job}");
            let shown = world.core.job_reports(&caller);
            let shown = shown.iter().find(|report| report.id == job.to_string()).unwrap();
            if operation == Operation::View {
                assert_eq!(shown.is_outline, !may, "{user} {groups:?} {job}");
                assert_eq!(shown.name.is_empty(), !may, "{user} {groups:?} {job}");
            }
            if let Err(error) = checked {
                let expected = format!("User {user} cannot perform operation {name} on {job}");
                assert_eq!((error.kind, error.message), (ErrorKind::PermissionDenied, expected));
            }
        }
        let refreshed = world.core.check_call(&caller, &Call::RefreshQueues).is_ok();
        assert_eq!(refreshed, may == [true, true], "{user} {groups:?}");
    }
    let nobody = JobId { cluster_start: 1, number: 99 };
    let caller = Caller { user: "eve", groups: &[], is_superuser: false };
    let error = world.core.check(&caller, operation, nobody).unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownJob);
}
