//! A task against the rest of the cluster: what the pass of its job lets it do (`docs/adr/0016-passes-of-tasks.md`). The test makes the pass as a
//! worker does; that a task finds nothing better on its machine is tried in `walls`, that jobs go on with passes while the masters
//! restart in `deaths`.

use client::ClientConfig;
use client::dfs::{DfsClient, DfsError};
use protocol::auth::Role;
use protocol::jobs::{self, Reply, calls};
use protocol::pass::{Pass, PassName};
use protocol::{CallId, ClientId, DfsPath, ErrorKind, JobId};
use transport::RpcError;
use transport::rpc::PassHolder;
use transport::rpc::{CallOptions, RpcClient, now_ms, read_secret};

use super::{Stand, options};
use crate::support::cluster::SUPERUSER;

/// Longer than the test.
const LIFETIME_MS: u64 = 600_000;

impl Stand {
    fn as_task(&self, pass: &Pass, user: &str) -> Result<(), DfsError> {
        let config = ClientConfig {
            namenode: Some(self.cluster.namenode.clone()),
            user: Some(user.to_owned()),
            pass: Some(PassHolder::new(pass.clone())),
            ..ClientConfig::default()
        };
        DfsClient::connect(&config)?.status(&DfsPath::root()).map(drop)
    }

    fn kill_as_task(&self, pass: &Pass, user: &str, job: JobId) -> Result<Reply, RpcError> {
        let call = CallId { client: ClientId::default(), number: 1 };
        let request = jobs::Request::new(call, user, calls::Kill { job });
        let holder = PassHolder::new(pass.clone());
        let jobtracker = RpcClient::of_task(&self.cluster.jobtracker, &holder)?;
        jobtracker.call_blocking("/rpc", &request, CallOptions::default())
    }
}

#[test]
fn a_task_acts_as_its_user_alone_and_kills_no_job() {
    let stand = Stand::start(1, options());
    stand.cluster.dfs(&["-chmod", "777", "/"]).ok();
    let running = stand.begin_as("ann", "held", &["map"], &[]);
    running.wait_at("map", 1);
    let job: JobId = stand.jobs().remove(0).parse().unwrap();
    let secret = read_secret(&stand.cluster.directory.join("secret")).unwrap();
    let name =
        PassName { job, user: "ann".to_owned(), expires_ms: now_ms().saturating_add(LIFETIME_MS) };
    let pass = Pass::issue(&secret, name.clone());

    stand.as_task(&pass, "ann").unwrap();
    for user in ["bob", SUPERUSER] {
        let error = stand.as_task(&pass, user).unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::PermissionDenied), "{user}: {error}");
    }
    let over = PassName { expires_ms: now_ms() - 1, ..name.clone() };
    let other = PassName { user: SUPERUSER.to_owned(), ..name.clone() };
    for (what, bad) in [
        ("its time is over", Pass::issue(&secret, over)),
        ("its name was changed", Pass { name: other, key: pass.key.clone() }),
    ] {
        let user = bad.name.user.clone();
        let error = stand.as_task(&bad, &user).unwrap_err();
        assert!(protocol::error::chain(&error).contains("401"), "{what}: {error}");
    }
    // Not even its own job, whose owner may.
    for user in ["ann", SUPERUSER] {
        let refused = stand.kill_as_task(&pass, user, job);
        assert!(
            matches!(refused, Err(RpcError::Status { status: 403, .. })),
            "{user}: {refused:?}"
        );
    }
    let as_client = Pass { key: Role::Client.key(&pass.key), name };
    let refused = stand.kill_as_task(&as_client, "ann", job);
    assert!(matches!(refused, Err(RpcError::Status { status: 401, .. })), "{refused:?}");
    running.open("map");
    running.succeed();
}

#[test]
fn who_does_not_own_a_job_does_not_kill_it() {
    let stand = Stand::start(1, options());
    stand.cluster.dfs(&["-chmod", "777", "/"]).ok();
    let running = stand.begin_as("ann", "owned", &["map"], &[]);
    running.wait_at("map", 1);
    let job = stand.jobs().remove(0);
    let line = format!("job: User eve cannot perform operation MODIFY_JOB on {job}\n");
    for args in [&["-kill", &job][..], &["-set-priority", &job, "HIGH"]] {
        let mut command = stand.cluster.command(&crate::support::cluster::hanno_binary(), &["job"]);
        let outcome = crate::support::Outcome::of({
            command.args(args).env("HADOOP_USER_NAME", "eve");
            command
        });
        assert!(outcome.code != 0, "{args:?}");
        assert_eq!(outcome.stderr, line, "{args:?}");
    }
    running.open("map");
    running.succeed();
}
