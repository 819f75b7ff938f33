//! Calls to the JobTracker, each in a task of its own.

use std::time::Duration;

use protocol::ErrorKind;
use protocol::error::chain;
use protocol::tracker::Request;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use transport::rpc::{CallOptions, RpcClient};

use crate::core::{Answer, CallNumber, Event};
use crate::input::Input;

/// Where workers talk to the JobTracker.
const TARGET: &str = "/rpc/worker";

/// See the module.
pub(super) struct Calls {
    jobtracker: RpcClient,
    inputs: mpsc::Sender<Input>,
    /// Registrations and polls, which end with the worker's loop.
    conversation: JoinSet<()>,
}

impl Calls {
    pub(super) fn new(jobtracker: RpcClient, inputs: mpsc::Sender<Input>) -> Self {
        Calls { jobtracker, inputs, conversation: JoinSet::new() }
    }

    /// Sends a request, once; the answer is an input of the loop.
    pub(super) fn send(&mut self, call: CallNumber, request: Request, timeout: Duration) {
        let is_report = matches!(request, Request::Report { .. });
        let (jobtracker, inputs) = (self.jobtracker.clone(), self.inputs.clone());
        let calling = async move {
            let options = CallOptions::once(timeout);
            let answer = match jobtracker.call(TARGET, &request, options).await {
                Ok(reply) => Answer::Reply(reply),
                Err(error) if error.kind() == Some(ErrorKind::Fenced) => {
                    Answer::Fenced(chain(&error))
                }
                Err(error) if error.refuses_content() => Answer::Refused(chain(&error)),
                Err(error) => Answer::Lost(chain(&error)),
            };
            // If the loop has ended, nobody needs the answer.
            let _ = inputs.send(Input::Event(Event::Answered { call, answer })).await;
        };
        if is_report {
            tokio::spawn(calling);
        } else {
            while self.conversation.try_join_next().is_some() {}
            self.conversation.spawn(calling);
        }
    }
}
