//! The runners of this worker, as its loop sees them.
//!
//! ```text
//! starting or busy with one attempt <-> idle -> leaving -> gone
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use protocol::pass::PASS_RENEWAL;
use protocol::{AttemptId, JobId};
use tokio::sync::mpsc;

use super::surroundings::SetupBase;
use crate::event::Event;
use crate::runner::{self, Options, Order};

/// Time that an idle runner gets to exit before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Default)]
pub(super) struct Runners {
    known: BTreeMap<u64, Runner>,
    count: u64,
}

pub(super) struct Runner {
    pub(super) job: JobId,
    user: String,
    /// When it received its pass.
    passed: Instant,
    pub(super) current: Option<AttemptId>,
    pub(super) orders: mpsc::UnboundedSender<Order>,
    idle_since: Instant,
    leaving: bool,
}

impl Runners {
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// True if any of them is the job's.
    pub(super) fn any_of(&self, job: JobId) -> bool {
        self.known.values().any(|runner| runner.job == job)
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Runner> {
        self.known.get_mut(&id)
    }

    /// The runners that can take an attempt of a job.
    pub(super) fn idle(&mut self, job: JobId) -> impl Iterator<Item = (u64, &mut Runner)> {
        let is_idle =
            move |runner: &Runner| runner.job == job && runner.current.is_none() && !runner.leaving;
        let all = self.known.iter_mut().map(|(id, runner)| (*id, runner));
        all.filter(move |(_, runner)| is_idle(runner))
    }

    /// Starts a runner with its first order, to run an attempt; returns its number.
    pub(super) fn start(
        &mut self,
        id: AttemptId,
        options: Options,
        order: Order,
        events: mpsc::Sender<Event>,
    ) -> u64 {
        self.count += 1;
        let (orders, inbox) = mpsc::unbounded_channel();
        orders.send(order).expect("its receiver is here");
        let user = options.setup.program.user.clone();
        tokio::spawn(runner::run(options, inbox, self.count, events));
        let idle_since = Instant::now();
        let runner = Runner {
            job: id.task.job,
            user,
            passed: idle_since,
            current: Some(id),
            orders,
            idle_since,
            leaving: false,
        };
        self.known.insert(self.count, runner);
        self.count
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Runner> {
        self.known.remove(&id)
    }

    /// Ends the runners of a job, at once if they are busy.
    pub(super) fn end(&mut self, job: JobId) {
        for runner in self.known.values_mut().filter(|runner| runner.job == job) {
            let order = if runner.current.is_some() { Order::Kill } else { Order::Exit };
            runner.leave(order);
            runner.idle_since = Instant::now();
        }
    }

    /// Ends the runners that have been idle for `idle_max`.
    pub(super) fn end_idle(&mut self, now: Instant, idle_max: Duration) {
        for runner in self.known.values_mut().filter(|runner| runner.current.is_none()) {
            let idle = now.saturating_duration_since(runner.idle_since);
            if runner.leaving && idle >= EXIT_TIMEOUT {
                let _ = runner.orders.send(Order::Kill);
            } else if !runner.leaving && idle >= idle_max {
                runner.leave(Order::Exit);
                runner.idle_since = now;
            }
        }
    }

    pub(super) fn kill_all(&self) {
        for runner in self.known.values() {
            let _ = runner.orders.send(Order::Kill);
        }
    }

    /// Renews old passes.
    pub(super) fn renew_passes(&mut self, now: Instant, setup: &SetupBase) {
        let is_due = |runner: &&mut Runner| {
            now.saturating_duration_since(runner.passed) >= PASS_RENEWAL && !runner.leaving
        };
        for runner in self.known.values_mut().filter(is_due) {
            runner.passed = now;
            let pass = setup.pass(runner.job, &runner.user);
            // A runner that has ended needs no pass.
            let _ = runner.orders.send(Order::Pass(pass));
        }
    }
}

impl Runner {
    /// Its attempt is over; it can take another.
    pub(super) fn free(&mut self) {
        self.current = None;
        self.idle_since = Instant::now();
    }

    /// Sends the last order. A runner that no longer listens is about to report its end.
    pub(super) fn leave(&mut self, order: Order) {
        self.leaving = true;
        let _ = self.orders.send(order);
    }
}
