//! A map with edits on a log that commits by hand, and on a journal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use journal::{Change, Options, Recover, RecoverError, Txid};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{
    Batch, End, Failure, Follower, Handle, Log, Machine, Now, Opening, Policy, Release, Running,
    Start, Turn, local,
};

/// More than any test has to wait for.
const PATIENCE: Duration = Duration::from_secs(60);
/// A tick that never comes by itself.
const NEVER: Duration = Duration::from_secs(1 << 20);

type Answer = Result<u64, &'static str>;

#[derive(Default, Debug)]
struct Map {
    values: BTreeMap<String, u64>,
    dirty: Vec<String>,
}

impl Map {
    /// Live and on replay.
    fn apply(&mut self, edit: &[u8]) {
        let text = String::from_utf8(edit.to_vec()).unwrap();
        let (key, value) = text.split_once('=').unwrap();
        self.values.insert(key.to_owned(), value.parse().unwrap());
        self.dirty.push(key.to_owned());
    }
}

impl Recover for Map {
    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecoverError> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(RecoverError::new);
        self.values.insert(text(key)?, text(value)?.parse().map_err(RecoverError::new)?);
        Ok(())
    }

    fn loaded(&mut self, _: Txid) -> Result<(), RecoverError> {
        Ok(())
    }

    fn replay(&mut self, _: Txid, edit: &[u8]) -> Result<(), RecoverError> {
        self.apply(edit);
        Ok(())
    }

    fn reset(&mut self) {
        *self = Map::default();
    }
}

enum Event {
    /// Only grows: less is refused.
    Put(&'static str, u64, oneshot::Sender<Answer>),
    /// Comes back to the machine when it is committed.
    Echo(&'static str),
    /// Answered at the end.
    Hold(oneshot::Sender<Answer>),
    Fail,
    Panic,
}

enum Out {
    Answer(oneshot::Sender<Answer>, Answer),
    Echo(&'static str),
}

impl Release for Out {
    type Due = &'static str;

    fn release(self) -> Option<&'static str> {
        match self {
            Out::Answer(sender, answer) => {
                let _ = sender.send(answer);
                None
            }
            Out::Echo(text) => Some(text),
        }
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a defect")]
struct Defect;

#[derive(Default)]
struct Keeper {
    held: Vec<oneshot::Sender<Answer>>,
    /// What was delivered, and ticks.
    heard: Arc<Mutex<Vec<&'static str>>>,
}

impl Machine for Keeper {
    type State = Map;
    type Event = Event;
    type Release = Out;
    type Defect = Defect;

    fn begin(&mut self, state: &mut Map, _: Now, turn: &mut Turn<Out>) -> Result<(), Defect> {
        if state.values.is_empty() {
            state.apply(b"founded=1");
            turn.edit(b"founded=1".to_vec());
        }
        Ok(())
    }

    fn judge(
        &mut self,
        state: &mut Map,
        batch: Batch<'_, Event>,
        _: Now,
        turn: &mut Turn<Out>,
    ) -> Result<bool, Defect> {
        for event in batch.events {
            match event {
                Event::Put(key, value, sender) => {
                    let answer = match state.values.get(key) {
                        Some(old) if *old > value => Err("less"),
                        _ => {
                            let edit = format!("{key}={value}").into_bytes();
                            state.apply(&edit);
                            turn.edit(edit);
                            Ok(turn.next_txid().0 - 1)
                        }
                    };
                    turn.release(Out::Answer(sender, answer));
                }
                Event::Echo(text) => turn.release(Out::Echo(text)),
                Event::Hold(sender) => self.held.push(sender),
                Event::Fail => return Err(Defect),
                Event::Panic => panic!("a panic that a test wants"),
            }
        }
        if batch.is_tick {
            self.heard.lock().push("tick");
        }
        Ok(false)
    }

    fn deliver(&mut self, _: &mut Map, due: &'static str) {
        self.heard.lock().push(due);
    }

    fn dirty_count(state: &Map) -> usize {
        state.dirty.len()
    }

    fn rows(state: &mut Map, _: Now) -> Vec<Change> {
        let row = |key: String| {
            let value = state.values[&key].to_string().into_bytes();
            Change { key: key.into_bytes(), value: Some(value) }
        };
        std::mem::take(&mut state.dirty).into_iter().map(row).collect()
    }

    fn stop(&mut self) {
        for sender in self.held.drain(..) {
            sender.send(Err("stopping")).unwrap();
        }
    }
}

/// Requests to a log.
#[derive(PartialEq, Eq, Debug)]
enum Asked {
    Append(Vec<String>),
    Checkpoint(u64, Vec<String>),
    Close,
}

/// Commits when the test says so.
struct HandLog {
    last: Mutex<u64>,
    asked: Mutex<Sender<Asked>>,
}

impl Log for HandLog {
    fn append(&self, edits: Vec<Vec<u8>>) -> Txid {
        let mut last = self.last.lock();
        *last += edits.len() as u64;
        let texts = edits.into_iter().map(|edit| String::from_utf8(edit).unwrap()).collect();
        self.asked.lock().send(Asked::Append(texts)).unwrap();
        Txid(*last)
    }

    fn checkpoint(&self, at: Txid, rows: Vec<Change>) {
        let keys = rows.into_iter().map(|row| String::from_utf8(row.key).unwrap()).collect();
        self.asked.lock().send(Asked::Checkpoint(at.0, keys)).unwrap();
    }

    fn backlog(&self) -> u64 {
        0
    }

    fn close(&self) {
        // A test may have ended.
        let _ = self.asked.lock().send(Asked::Close);
    }
}

/// A host on a hand-driven log.
struct Bench {
    handle: Handle<Keeper>,
    running: Running<Keeper>,
    follower: Arc<dyn Follower>,
    asked: Receiver<Asked>,
    heard: Arc<Mutex<Vec<&'static str>>>,
    told: Receiver<()>,
}

impl Bench {
    /// `before` sends what the host finds at its start.
    fn start(before: impl FnOnce(&crate::Mailbox<Event>)) -> Self {
        let (sender, told) = channel();
        let sender = Mutex::new(sender);
        let opening = Opening::<Keeper>::new(move || {
            // A test may have ended.
            let _ = sender.lock().send(());
        });
        before(&opening.mailbox());
        let (sender, asked) = channel();
        let log = HandLog { last: Mutex::default(), asked: Mutex::new(sender) };
        let (machine, follower) = (Keeper::default(), opening.follower());
        let heard = Arc::clone(&machine.heard);
        let start = start(machine, Map::default(), Box::new(log), Txid(0));
        let running = opening.start(start).unwrap();
        let handle = running.handle();
        let bench = Bench { handle, running, follower, asked, heard, told };
        assert_eq!(bench.asked(), append(&["founded=1"]));
        bench
    }

    fn asked(&self) -> Asked {
        self.asked.recv_timeout(PATIENCE).unwrap()
    }

    /// Sends a put; returns where its answer will be.
    async fn put(&self, key: &'static str, value: u64) -> oneshot::Receiver<Answer> {
        let (sender, answer) = oneshot::channel();
        self.handle.send(Event::Put(key, value, sender)).await.unwrap();
        answer
    }
}

fn start(machine: Keeper, state: Map, log: Box<dyn Log>, last: Txid) -> Start<Keeper> {
    let policy = Policy { rows: 1000, interval: NEVER };
    Start { name: "keeper", machine, state, log, last, policy, tick: NEVER }
}

fn append(texts: &[&str]) -> Asked {
    Asked::Append(texts.iter().map(ToString::to_string).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_appended_in_one_turn_is_one_batch() {
    let mut answers = Vec::new();
    let bench = Bench::start(|mailbox| {
        for value in [3, 2, 4] {
            let (sender, answer) = oneshot::channel();
            let event = Event::Put("a", value, sender);
            mailbox.sender.try_send(crate::handle::Message::Event(event)).unwrap();
            answers.push(answer);
        }
    });
    assert_eq!(bench.asked(), append(&["a=3", "a=4"]));
    bench.follower.committed(Txid(3));
    let mut given = Vec::new();
    for answer in answers {
        given.push(answer.await.unwrap());
    }
    assert_eq!(given, [Ok(2), Err("less"), Ok(3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_and_views_wait_until_what_they_saw_is_committed() {
    let bench = Bench::start(|_| {});
    let mut answer = bench.put("a", 7).await;
    assert_eq!(bench.asked(), append(&["a=7"]));
    let view = bench.handle.view(|map, txid| (map.values["a"], txid));
    let mut view = std::pin::pin!(view);
    for committed in 0..2 {
        bench.follower.committed(Txid(committed));
        tokio::select! {
            biased;
            seen = &mut view => panic!("too early: {seen:?}"),
            () = std::future::ready(()) => {}
        }
        assert!(answer.try_recv().is_err() && bench.handle.committed() == Txid(committed));
    }
    bench.follower.committed(Txid(2));
    assert_eq!(answer.await.unwrap(), Ok(2));
    assert_eq!(view.await, Ok((7, Txid(2))));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_the_state_comes_back_in_order_and_once_it_is_committed() {
    let bench = Bench::start(|_| {});
    let mut answers = Vec::new();
    for echo in ["one", "two", "three"] {
        answers.push(bench.put("a", 1).await);
        bench.handle.send(Event::Echo(echo)).await.unwrap();
    }
    let mut appended = 1;
    while appended < 4 {
        let Asked::Append(texts) = bench.asked() else { panic!("nothing but edits") };
        appended += texts.len() as u64;
    }
    assert!(bench.heard.lock().iter().all(|text| *text == "tick"));
    bench.follower.committed(Txid(4));
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
    // Its last turn comes after all that was due before.
    bench.running.stop().await.unwrap();
    let heard = bench.heard.lock().clone();
    let heard: Vec<_> = heard.into_iter().filter(|text| *text != "tick").collect();
    assert_eq!(heard, ["one", "two", "three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_comes_after_the_last_turn_and_the_checkpoint() {
    let bench = Bench::start(|_| {});
    let answer = bench.put("a", 7).await;
    let (sender, held) = oneshot::channel();
    bench.handle.send(Event::Hold(sender)).await.unwrap();
    bench.running.stop().await.unwrap();
    let asked = bench.asked.recv_timeout(PATIENCE).unwrap();
    assert_eq!(asked, append(&["a=7"]));
    let keys = ["founded", "a"].map(str::to_owned).to_vec();
    assert_eq!(
        bench.asked.try_iter().collect::<Vec<_>>(),
        [Asked::Checkpoint(2, keys), Asked::Close]
    );
    assert_eq!(held.await.unwrap(), Err("stopping"));
    assert!(answer.await.is_err(), "it was never committed");
    assert_eq!(bench.handle.view(|_, _| ()).await, Err(End::Stopping));
    let asked = bench.handle.ask(|sender| Event::Put("b", 1, sender)).await;
    assert_eq!(asked, Err(End::Stopping));
    bench.told.recv_timeout(PATIENCE).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_ends_ends_all_waiting_and_says_why() {
    let failed = End::Stopped { reason: "EIO".to_owned() };
    for end in [End::Lost, failed] {
        let bench = Bench::start(|_| {});
        let handle = bench.handle.clone();
        let asked = tokio::spawn(async move { handle.ask(|to| Event::Put("a", 7, to)).await });
        assert_eq!(bench.asked(), append(&["a=7"]));
        bench.follower.ended(end.clone());
        bench.told.recv_timeout(PATIENCE).unwrap();
        assert_eq!(asked.await.unwrap(), Err(end.clone()));
        // A former leader may still learn what became of its edits.
        bench.follower.committed(Txid(2));
        assert_eq!(bench.handle.view(|_, _| ()).await, Err(end.clone()));
        assert_eq!(bench.handle.ask(|to| Event::Put("b", 7, to)).await, Err(end.clone()));
        match bench.running.stop().await {
            Err(Failure::Log(found)) => assert_eq!(found, end),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_fails_ends_the_host_and_closes_the_log() {
    let failed: fn(&Failure<Defect>) -> bool = |end| matches!(end, Failure::Machine(Defect));
    let panicked: fn(&Failure<Defect>) -> bool = |end| matches!(end, Failure::Panicked);
    for (event, is_expected) in [(Event::Fail, failed), (Event::Panic, panicked)] {
        let bench = Bench::start(|_| {});
        bench.follower.committed(Txid(1));
        let (sender, answer) = oneshot::channel();
        bench.handle.send(Event::Hold(sender)).await.unwrap();
        bench.handle.send(event).await.unwrap();
        bench.told.recv_timeout(PATIENCE).unwrap();
        assert!(answer.await.is_err());
        assert_eq!(bench.asked(), Asked::Close);
        let ended = bench.running.stop().await.unwrap_err();
        assert!(is_expected(&ended), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_go_to_the_checkpoint_when_they_are_wanted_or_many() {
    let bench = Bench::start(|_| {});
    bench.handle.checkpoint().await.unwrap();
    assert_eq!(bench.asked(), Asked::Checkpoint(1, vec!["founded".to_owned()]));
    bench.handle.checkpoint().await.unwrap();
    let mut rows = 0;
    while rows < 1000 {
        bench.put("a", 1).await;
        rows += 1;
    }
    let mut appended = 0;
    loop {
        match bench.asked() {
            Asked::Append(texts) => appended += texts.len(),
            Asked::Checkpoint(at, keys) => {
                assert_eq!((at, keys.len()), (1001, 1000), "nothing was dirty before");
                assert_eq!(appended, 1000);
                return;
            }
            Asked::Close => panic!("nobody stops it"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_gives_back_what_was_answered() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let opening = Opening::<Keeper>::new(|| {});
        let mut state = Map::default();
        let options = Options::new(dir.path().to_owned());
        let (journal, recovered) = local::open(options, &mut state, opening.follower()).unwrap();
        let start = start(Keeper::default(), state, Box::new(journal), recovered.last);
        opening.start(start).unwrap()
    };
    for round in 1..4 {
        let running = open();
        let handle = running.handle();
        let before = handle.view(|map, _| map.values.get("a").copied()).await.unwrap();
        assert_eq!(before, (round > 1).then_some(round - 1));
        let answer = handle.ask(|to| Event::Put("a", round, to)).await.unwrap();
        assert_eq!(answer, Ok(round + 1));
        assert_eq!(handle.ask(|to| Event::Put("a", 0, to)).await, Ok(Err("less")));
        running.stop().await.unwrap();
    }
}
