//! What a JobTracker that starts again makes of the jobs that it had accepted.

use std::sync::Arc;

use protocol::jobs::{self, JobState};
use protocol::{CallId, ClientId, InodeId, JobId};

use super::{Stand, path, spec, until_refused};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_jobtracker_goes_on() {
    let mut stand = Stand::start().await;
    stand.register(Vec::new()).await;
    let job = stand.submit(spec(3)).await.unwrap();
    let first = stand.launched(2).await;
    stand.finish(first[0]).await;
    let third = stand.launched(1).await;
    stand.close().await;
    // What others put beside is no reason to give the job up.
    stand.names.lock().entries.insert(path("/out/notes.txt"), Some(InodeId(9)));
    stand.names.lock().safe_mode = true;
    stand.open().await;
    stand.register(vec![first[1], third[0]]).await;
    let repeated = CallId { client: ClientId([1; 16]), number: 1 };
    let resubmission = stand.send(repeated, jobs::Call::Submit(Box::new(spec(3))));
    let names = Arc::clone(&stand.names);
    let wake = async {
        until_refused(&names).await;
        names.lock().safe_mode = false;
    };
    let (answer, ()) = tokio::join!(resubmission, wake);
    assert!(matches!(answer, Ok(jobs::Reply::Submitted(id)) if id == job), "{answer:?}");
    stand.finish(first[1]).await;
    stand.finish(third[0]).await;
    let report = stand.watch(job).await;
    assert_eq!(report.state, JobState::Succeeded, "{}", report.diagnostics);
    assert_eq!(report.counters.value("test", "records"), 30, "no task ran twice");
    let parts = stand.tree().iter().filter(|name| name.contains("part-m-")).count();
    assert_eq!(parts, 3);
    stand.close().await;
}

/// A job was accepted, and the JobTracker stopped before it made the directory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_makes_a_directory_that_nobody_has() {
    let (mut stand, job) = restarted_before_setup(&[]).await;
    let attempt = stand.launched(1).await[0];
    stand.finish(attempt).await;
    let report = stand.watch(job).await;
    assert_eq!(report.state, JobState::Succeeded, "{}", report.diagnostics);
    stand.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_does_not_take_a_directory_that_was_never_the_jobs() {
    let theirs = [("/out", None), ("/out/part-m-00000", Some(InodeId(9)))];
    let (mut stand, job) = restarted_before_setup(&theirs).await;
    let report = stand.watch(job).await;
    assert_eq!(report.state, JobState::Failed);
    assert!(report.diagnostics.contains("/out already exists"), "{}", report.diagnostics);
    assert_eq!(stand.tree(), ["/out", "/out/part-m-00000"]);
    stand.close().await;
}

/// A JobTracker whose job of one map was accepted before its restart, and got its directory prepared only after it, beside these entries.
async fn restarted_before_setup(present: &[(&str, Option<InodeId>)]) -> (Stand, JobId) {
    let mut stand = Stand::start().await;
    stand.names.lock().safe_mode = true;
    let call = CallId { client: ClientId([1; 16]), number: 1 };
    let names = Arc::clone(&stand.names);
    tokio::select! {
        answer = stand.send(call, jobs::Call::Submit(Box::new(spec(1)))) => panic!("{answer:?}"),
        () = until_refused(&names) => {}
    }
    stand.close().await;
    {
        let mut names = names.lock();
        names.safe_mode = false;
        names.entries.extend(present.iter().map(|(text, entry)| (path(text), *entry)));
    }
    stand.open().await;
    stand.register(Vec::new()).await;
    match stand.send(call, jobs::Call::Submit(Box::new(spec(1)))).await {
        Ok(jobs::Reply::Submitted(job)) => (stand, job),
        other => panic!("{other:?}"),
    }
}
