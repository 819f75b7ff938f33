//! The tasks that drive runners, and the channels to them.

use std::collections::BTreeMap;

use protocol::JobId;
use protocol::tracker::Work;
use tokio::sync::mpsc;

use super::surroundings::SetupBase;
use crate::core::{Event, RunnerId, merge_outputs};
use crate::input::Input;
use crate::runner::{self, Options, Order};

/// See the module.
#[derive(Default)]
pub(super) struct Runners {
    known: BTreeMap<RunnerId, Runner>,
}

struct Runner {
    job: JobId,
    user: String,
    orders: mpsc::UnboundedSender<Order>,
}

impl Runners {
    pub(super) fn start(&mut self, id: RunnerId, options: Options, inputs: mpsc::Sender<Input>) {
        let (orders, inbox) = mpsc::unbounded_channel();
        let (job, user) = (options.setup.pass.name.job, options.setup.program.user.clone());
        tokio::spawn(runner::run(options, inbox, id, inputs));
        self.known.insert(id, Runner { job, user, orders });
    }

    pub(super) fn remove(&mut self, id: RunnerId) {
        self.known.remove(&id);
    }

    /// The process of a runner is over: what it was given and has not begun comes back, with the news that followed.
    pub(super) fn over(
        &mut self,
        runner: RunnerId,
        mut orders: mpsc::UnboundedReceiver<Order>,
    ) -> Option<Event> {
        self.known.remove(&runner);
        let mut given = None;
        while let Ok(order) = orders.try_recv() {
            match (order, &mut given) {
                (Order::Launch { attempt, work, .. }, None) => given = Some((attempt, work)),
                (Order::MapOutputs { available, obsolete }, Some((_, Work::Reduce(work)))) => {
                    merge_outputs(&mut work.outputs, available, &obsolete);
                }
                _ => {}
            }
        }
        given.map(|(attempt, work)| Event::Undelivered { runner, attempt, work })
    }

    /// Gives an order back if the runner is over.
    pub(super) fn give(&self, id: RunnerId, order: Order) -> Option<Order> {
        match self.known.get(&id) {
            Some(runner) => runner.orders.send(order).err().map(|refused| refused.0),
            None => Some(order),
        }
    }

    /// A runner that is over needs no order.
    pub(super) fn order(&self, id: RunnerId, order: Order) {
        let _ = self.give(id, order);
    }

    pub(super) fn renew_pass(&self, id: RunnerId, setup: &SetupBase) {
        if let Some(runner) = self.known.get(&id) {
            self.order(id, Order::Pass(setup.pass(runner.job, &runner.user)));
        }
    }
}
