//! The task role: a worker started this process, which runs attempts of one job, one at a time.
//!
//! ```text
//! main thread      reads orders ─► passes map outputs on, starts attempts
//! attempt thread   runs user code
//! reporter thread  sends life signs while it runs, then its end
//! ```
//!
//! Invariants: while it fetches, it shows life, also before it is ready ([`steps`]); a launched attempt is always reported as ended, whatever its code does short of killing the process; when the worker's
//! connection ends, so does this process.

mod attempt;
mod channel;
mod fetch;
mod gather;
mod rounds;
mod steps;

use std::io::{Write, stdout};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use mr_model::job::Plan;
use mr_model::runner::{
    DESCRIPTION_PROPERTY, Planned, TaskState, difference, fingerprint, guard, say,
};
use mr_model::task::Context;
use mr_model::{Error, Result};
use protocol::AttemptId;
use protocol::error::chain;
use protocol::frame::{self, BODY_BYTES_MAX};
use protocol::runner::{
    COOKIE_VARIABLE, DESCRIPTORS_VARIABLE, FromRunner, SOCKET_VARIABLE, Setup, ToRunner,
};
use protocol::tracker::{AttemptState, shortened};
use sys::broker::Broker;
use sys::process::{Work, own_work};

use attempt::{Ground, Host, Launched};
use channel::{Channel, REPORT_PAUSE};
use gather::News;
use steps::Steps;

/// Who started this process.
pub(crate) struct Worker {
    stream: UnixStream,
    broker: Option<Arc<Broker>>,
}

impl Worker {
    /// The worker that started this process, if one did.
    pub(crate) fn of_environment() -> Result<Option<Self>> {
        if let Ok(numbers) = std::env::var(DESCRIPTORS_VARIABLE) {
            let numbers = numbers.split_once(',');
            let number = |text: &str| text.parse().ok();
            let Some((stream, broker)) =
                numbers.and_then(|(stream, broker)| Some((number(stream)?, number(broker)?)))
            else {
                let what = format!("{DESCRIPTORS_VARIABLE}, which is not two numbers");
                return Err(Error::Conversation { what }.into());
            };
            let stream = UnixStream::from(sys::detach::inherited(stream)?);
            let broker = Broker::new(UnixStream::from(sys::detach::inherited(broker)?))?;
            return Ok(Some(Worker { stream, broker: Some(Arc::new(broker)) }));
        }
        let Ok(name) = std::env::var(SOCKET_VARIABLE) else { return Ok(None) };
        Ok(Some(Worker { stream: sys::socket::connect(&name)?, broker: None }))
    }
}

/// True if a worker, or a replay of an attempt, started this process.
pub(crate) fn is_task() -> bool {
    [DESCRIPTORS_VARIABLE, SOCKET_VARIABLE].iter().any(|name| std::env::var_os(name).is_some())
}

/// Runs attempts until the worker says `Exit` or is gone.
pub(crate) fn run(worker: Worker, build: impl FnOnce() -> Result<Plan>) -> Result<()> {
    let Worker { mut stream, broker } = worker;
    let channel = Channel::new(stream.try_clone()?);
    let cookie = std::env::var(COOKIE_VARIABLE).unwrap_or_default();
    channel.send(&FromRunner::Hello { cookie })?;
    let setup = match receive(&mut stream)? {
        Some(ToRunner::Setup(setup)) => setup,
        Some(_) => return Err(Error::Conversation { what: "orders before Setup".into() }.into()),
        None => return Ok(()),
    };
    let tell = |step| channel.send_or_exit(&FromRunner::Preparing { step });
    let host = match guard(|| prepare(*setup, broker, &Steps::new(&tell), build)) {
        Ok(host) => Arc::new(host),
        Err(diagnostics) => {
            channel.send(&FromRunner::Refused { diagnostics: diagnostics.clone() })?;
            return Err(diagnostics.into());
        }
    };
    channel.send(&FromRunner::Ready)?;
    serve(&mut stream, &channel, &host)
}

/// Rebuilds the job and checks that it matches the submitted one.
fn prepare(
    setup: Setup,
    broker: Option<Arc<Broker>>,
    steps: &Steps<'_>,
    build: impl FnOnce() -> Result<Plan>,
) -> Result<Host> {
    let ground = Ground::new(setup, broker, &|name, bytes| steps.fetching(name, bytes))?;
    steps.rebuilding();
    let plan = Planned::from(guard(build).map_err(|message| Error::Rebuild { message })?);
    let setup = &ground.setup;
    let index = setup.program.stage as usize;
    let description = plan.graph.description(index);
    if fingerprint(&description) != setup.program.fingerprint || index >= plan.graph.stages.len() {
        let submitted = setup.program.properties.get(DESCRIPTION_PROPERTY);
        let submitted = submitted.map(String::as_str).unwrap_or_default();
        let difference = difference(submitted, &description);
        return Err(Error::Fingerprint { difference }.into());
    }
    Host::new(ground, plan)
}

fn serve(stream: &mut UnixStream, channel: &Channel, host: &Arc<Host>) -> Result<()> {
    let mut news: Option<mpsc::Sender<News>> = None;
    loop {
        match receive(stream)? {
            None | Some(ToRunner::Exit) => std::process::exit(0),
            Some(ToRunner::Setup(_)) => {
                return Err(Error::Conversation { what: "a second Setup".into() }.into());
            }
            Some(ToRunner::Launch { attempt, work, directory }) => {
                let (sender, receiver) = mpsc::channel();
                news = Some(sender.clone());
                let (host, channel) = (Arc::clone(host), channel.clone());
                let context = Context::new(attempt, host.setup.program.properties.clone());
                let launched = Launched {
                    context,
                    directory: directory.into(),
                    news: receiver,
                    self_news: sender,
                    channel: channel.clone(),
                };
                thread::spawn(move || supervise(attempt, work, launched, &host, &channel));
            }
            Some(ToRunner::Pass(pass)) => host.pass.renew(pass),
            Some(ToRunner::MapOutputs { available, obsolete }) => {
                if let Some(news) = &news {
                    // If the attempt has ended meanwhile, nobody needs the news.
                    let _ = news.send(News::Outputs { available, obsolete });
                }
            }
        }
    }
}

/// Runs one attempt and reports on it until it has ended.
fn supervise(
    attempt: AttemptId,
    work: protocol::tracker::Work,
    launched: Launched,
    host: &Arc<Host>,
    channel: &Channel,
) {
    let context = launched.context.clone();
    let (done, ended) = mpsc::channel();
    let running = Arc::clone(host);
    let working = context.clone();
    thread::spawn(move || {
        let before = own_work().ok();
        let state = guard(|| running.run(work, launched))
            .unwrap_or_else(|diagnostics| AttemptState::Failed { diagnostics });
        count_work(TaskState::of(&working), before, own_work().ok());
        // If the attempt was given up, nobody waits for its state.
        let _ = done.send(state);
    });
    // The first report is always sent, so that the worker knows the phase.
    let (mut last, task) = (None, TaskState::of(&context));
    let mut status = String::new();
    let state = loop {
        match ended.recv_timeout(REPORT_PAUSE) {
            Ok(state) => break state,
            Err(RecvTimeoutError::Disconnected) => {
                break AttemptState::Failed { diagnostics: "the task's thread ended".to_owned() };
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Err(error) = task.check_counters() {
                    // Its code still runs, and no other attempt may run beside it.
                    channel.send_or_exit(&FromRunner::Refused { diagnostics: error.to_string() });
                    std::process::exit(1);
                }
                let now = Some((task.progress(), task.life_signs()));
                if now == last {
                    continue;
                }
                last = now;
                let (progress, phase) = (task.progress(), task.phase());
                let counters = task.counters();
                channel.send_or_exit(&FromRunner::Progress { attempt, progress, phase, counters });
                let text = task.status();
                if text != status {
                    status.clone_from(&text);
                    channel.send_or_exit(&FromRunner::Status { attempt, text });
                }
            }
        }
    };
    // Its own output must be in its log before the worker learns of the end.
    let _ = stdout().flush();
    let (progress, phase, counters) = (task.progress(), task.phase(), task.counters());
    let state = match state {
        AttemptState::Failed { diagnostics } => {
            // Its log shows what it ended with, too.
            say(format_args!("{attempt} failed: {diagnostics}\n"));
            AttemptState::Failed { diagnostics: shortened(diagnostics) }
        }
        state => state,
    };
    channel.send_or_exit(&FromRunner::Ended { attempt, state, counters, progress, phase });
}

/// Counts the resources that the attempt, the only one of this process, has used together with its commands.
fn count_work(task: &TaskState, before: Option<Work>, after: Option<Work>) {
    // Without `/proc` the use is unknown.
    let Some((before, after)) = before.zip(after) else { return };
    let cpu_time = after.cpu_time.saturating_sub(before.cpu_time).as_millis();
    task.add("CPU_MILLISECONDS", u64::try_from(cpu_time).unwrap_or(u64::MAX));
    task.add("PHYSICAL_MEMORY_BYTES", after.resident_bytes);
    task.add("VIRTUAL_MEMORY_BYTES", after.virtual_bytes);
}

fn receive(stream: &mut UnixStream) -> Result<Option<ToRunner>> {
    match frame::read(stream, BODY_BYTES_MAX, "order of the worker") {
        Ok(order) => Ok(Some(order)),
        Err(error) if error.is_end() => Ok(None),
        Err(error) => Err(chain(&error).into()),
    }
}

#[cfg(test)]
mod tests {
    use mr_model::{Job, Max, Sum, text, text_out};
    use protocol::auth::Key;
    use protocol::pass::{Pass, PassName};
    use protocol::tracker::Program;
    use protocol::{BinaryHash, DfsPath, JobId};

    use super::*;

    fn plan(maximum: bool) -> Plan {
        let mapped = Job::new("sums").input(text(["in"])).map_fn::<String, u64, _>(|_, _| Ok(()));
        let reduced = if maximum { mapped.reduce(Max) } else { mapped.reduce(Sum) };
        reduced.output(text_out("out")).into()
    }

    fn setup(submitted: &Planned) -> Setup {
        let description = submitted.graph.description(0);
        let job = JobId { cluster_start: 1, number: 1 };
        let pass_name = PassName { job, user: "ada".into(), expires_ms: u64::MAX };
        let program = Program {
            user: "ada".into(),
            binary: BinaryHash([0; 32]),
            args: Vec::new(),
            stage: 0,
            fingerprint: fingerprint(&description),
            properties: [(DESCRIPTION_PROPERTY.to_owned(), description)].into(),
            partition_count: 1,
            sizes_wanted: false,
            map_count: 1,
            output: DfsPath::root(),
        };
        Setup {
            program,
            namenode: "http://127.0.0.1:1".into(),
            pass: Pass::issue(&Key::new([1; 32]), pass_name),
            host: "here".into(),
            boot_id: String::new(),
            memory_bytes_max: 1 << 20,
            local_output: None,
        }
    }

    #[test]
    fn another_plan_is_refused_with_what_differs() {
        let prepare = |maximum| {
            let steps = Steps::new(&|step| panic!("{step} is no step without side files"));
            prepare(setup(&plan(false).into()), None, &steps, || Ok(plan(maximum)))
        };
        assert!(prepare(false).is_ok());
        let error = prepare(true).err().unwrap().to_string();
        assert!(error.contains("fold::Sum") && error.contains("fold::Max"), "{error}");
    }
}
