//! What is asked of the NameNode, seen from there.

use std::sync::Mutex;

use protocol::namenode::Created;
use protocol::{InodeId, JobId};

use super::*;

/// A NameNode in which only the job's own directories are missing, until they are made.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<Call>>>);

impl Listener {
    fn answer(&self, call: Call) -> Answer {
        let mut calls = self.0.lock().unwrap();
        let is_made = |path: &DfsPath| {
            let made =
                |call: &Call| matches!(call, Call::Mkdirs { path: made, .. } if made == path);
            calls.iter().any(made)
        };
        let answer = match &call {
            Call::Status(path) if !path.is_root() && !is_made(path) => {
                Err(RemoteError::new(ErrorKind::NotFound, ""))
            }
            Call::Create(_) => Ok(Reply::Created(Created {
                file: InodeId(7),
                block_size: 1,
                replication: 1,
                first_block: None,
            })),
            _ => Ok(Reply::Done),
        };
        calls.push(call);
        answer
    }
}

impl Calls for Listener {
    fn call(&self, request: Request) -> BoxFuture<'_, Answer> {
        let answer = match request.body {
            Body::One(call) => self.answer(call),
            Body::Batch(calls) => {
                Ok(Reply::Batch(calls.into_iter().map(|call| self.answer(call)).collect()))
            }
        };
        Box::pin(async { answer })
    }
}

/// The modes of all that is made for a job with this umask, before and after it.
async fn modes(umask: Umask) -> Vec<(u16, Option<u16>)> {
    let listener = Listener::default();
    let effects = Effects::new(Box::new(listener.clone()), ClientId([1; 16]));
    let setup = Effect::Setup { resumed: false };
    let commit = Effect::Commit { winners: Vec::new(), resumed: false };
    for effect in [setup, commit] {
        let order = EffectOrder {
            job: JobId { cluster_start: 1, number: 1 },
            user: "ann".to_owned(),
            output: DfsPath::parse("/a/out").unwrap(),
            umask,
            effect,
        };
        let done = effects.run(&order).await;
        assert!(matches!(done, Some(EffectDone::Setup(Ok(())) | EffectDone::Commit(Ok(())))));
    }
    let made = |call: &Call| match call {
        Call::Mkdirs { mode, unmasked, .. } => Some((*mode, *unmasked)),
        Call::Create(create) => Some((create.mode, create.unmasked)),
        _ => None,
    };
    let calls = listener.0.lock().unwrap();
    calls.iter().filter_map(made).collect()
}

#[tokio::test]
async fn output_has_the_modes_that_the_umask_of_its_job_leaves() {
    // The directory above, its own and the temporary one, then `_SUCCESS`.
    let of = |directory: u16, file: u16| {
        [(directory, Some(0o777)); 3].into_iter().chain([(file, Some(0o666))]).collect::<Vec<_>>()
    };
    assert_eq!(modes(Umask(0o077)).await, of(0o700, 0o600));
    assert_eq!(modes(Umask::default()).await, of(0o755, 0o644));
}
