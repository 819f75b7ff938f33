//! What becomes of calls and their places when requests hang, bundles fail and runtimes end.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::auth::{Hello, Key, Role, Service};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::*;
use crate::rpc::CallOptions;

/// Time of a try: longer than any test.
const TRY: Duration = Duration::from_secs(300);
const PLACES: usize = 4;

/// A daemon that takes connections and says nothing.
struct Silent {
    base: String,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Silent {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let connections: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let taken = Arc::clone(&connections);
        std::thread::spawn(move || {
            listener.incoming().flatten().for_each(|stream| taken.lock().push(stream));
        });
        Silent { base, connections }
    }

    /// A client of it, whose calls leave their lane after this time.
    fn client(&self, wait_max: Option<Duration>) -> RpcClient {
        let key = Key::new([7; 32]);
        let mut client = RpcClient::new(&self.base, Role::Client, Some(&key)).unwrap();
        if let Some(wait_max) = wait_max {
            Arc::get_mut(&mut client.inner).unwrap().lanes.wait_max = wait_max;
        }
        client
    }

    fn count(&self) -> usize {
        self.connections.lock().len()
    }

    fn hang_up(&self, number: usize) {
        // The client may have closed it.
        let _ = self.connections.lock()[number].shutdown(Shutdown::Both);
    }
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

type Outcome = JoinHandle<Result<Bytes, RpcError>>;

fn call(runtime: &Runtime, client: &RpcClient) -> Outcome {
    let client = client.clone();
    let message = Bytes::from_static(b"call");
    runtime.spawn(async move { client.exchange_in(Lane::Reads, &message, TRY).await })
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

fn until_counts(client: &RpcClient, counts: (usize, usize)) {
    let now = || client.inner.lanes.counts(Lane::Reads);
    until(&format!("{counts:?} under way and waiting"), || now() == counts);
}

#[test]
fn requests_that_hang_hold_up_nobody_else() {
    let (daemon, runtime) = (Silent::start(), runtime());
    let client = daemon.client(None);
    let _hung: Vec<Outcome> = (0..PLACES).map(|_| call(&runtime, &client)).collect();
    until("all hang", || daemon.count() == PLACES);
    let _beside: Vec<Outcome> = (0..3).map(|_| call(&runtime, &client)).collect();
    until("they go beside their lane", || daemon.count() == PLACES + 3);
    until_counts(&client, (PLACES, 0));
}

#[test]
fn places_outlive_the_runtimes_of_their_calls() {
    let (daemon, [first, second]) = (Silent::start(), [runtime(), runtime()]);
    let client = daemon.client(Some(TRY));
    let _hung: Vec<Outcome> = (0..PLACES).map(|_| call(&first, &client)).collect();
    until("all hang", || daemon.count() == PLACES);
    let _waiting: Vec<Outcome> = (0..2).map(|_| call(&second, &client)).collect();
    until_counts(&client, (PLACES, 2));
    drop(first);
    // A runtime that ends may have taken the bundle of the two with it; then each goes alone.
    until("those who waited go on", || daemon.count() > PLACES);
    drop(second);
    until("no place is taken", || {
        (PLACES..daemon.count()).for_each(|number| daemon.hang_up(number));
        client.inner.lanes.counts(Lane::Reads) == (0, 0)
    });
    assert!(matches!(enter(&client), Entered::Goes));
}

fn enter(client: &RpcClient) -> Entered<UnderWay> {
    let message = &Bytes::from_static(b"call");
    let call = Call { message, deadline: Instant::now() + TRY, goes_alone: false };
    client.inner.lanes.enter(Lane::Reads, call)
}

#[test]
fn calls_whose_bundle_came_to_nothing_wait_for_places_again() {
    const COUNT: usize = 8;
    let (daemon, runtime) = (Silent::start(), runtime());
    let client = daemon.client(Some(TRY));
    let _hung: Vec<Outcome> = (0..PLACES).map(|_| call(&runtime, &client)).collect();
    until("all hang", || daemon.count() == PLACES);
    let waiting: Vec<Outcome> = (0..COUNT).map(|_| call(&runtime, &client)).collect();
    until_counts(&client, (PLACES, COUNT));
    daemon.hang_up(0);
    until("they are sent together", || daemon.count() == PLACES + 1);
    until_counts(&client, (PLACES, 0));
    daemon.hang_up(PLACES);
    // Each goes alone now, when there is a place, and its outcome is its own.
    for ended in 1..=COUNT {
        until_counts(&client, (PLACES, COUNT - ended));
        until("one goes", || daemon.count() == PLACES + 1 + ended);
        daemon.hang_up(PLACES + ended);
    }
    until("all have their outcome", || waiting.iter().all(JoinHandle::is_finished));
    assert_eq!(daemon.count(), PLACES + 1 + COUNT);
    for outcome in waiting {
        let outcome = runtime.block_on(outcome).unwrap();
        assert!(matches!(outcome, Err(RpcError::Unreachable { .. })), "{outcome:?}");
    }
}

#[test]
fn a_daemon_without_the_route_is_remembered_until_another_takes_its_place() {
    let client = RpcClient::new("http://192.0.2.1:1", Role::Client, None).unwrap();
    let answers = |number| {
        let (service, incarnation) = (Service::Namenode, Incarnation([number; 16]));
        client.inner.contact.learn(Hello { service, incarnation }, None);
    };
    let refused = |status| {
        let address = client.base().to_owned();
        let error =
            RpcError::Status { address, status, text: String::new(), is_about_secret: false };
        client.note_failed_bundle(Some(Incarnation([1; 16])), &error);
        client.messages_max()
    };
    assert_eq!(client.messages_max(), bundle::MESSAGES_MAX);
    answers(1);
    assert_eq!(refused(500), bundle::MESSAGES_MAX);
    assert_eq!((refused(404), refused(405)), (1, 1));
    answers(2);
    assert_eq!(client.messages_max(), bundle::MESSAGES_MAX);
    assert_eq!(refused(404), bundle::MESSAGES_MAX, "another one was asked");
}

#[test]
fn who_never_said_what_it_is_is_asked_once() {
    let daemon = Silent::start();
    let mut client = daemon.client(None);
    Arc::get_mut(&mut client.inner).unwrap().hello_max = Duration::from_millis(50);
    let patient = CallOptions { attempt_timeout: TRY, retry_for: TRY };
    let call = |options| client.call_blocking::<_, ()>("/x", &(), options).unwrap_err();
    let error = call(patient);
    assert!(matches!(&error, RpcError::Mute { address, .. } if *address == daemon.base), "{error}");
    assert_eq!(daemon.count(), 1);
    let error = runtime().block_on(client.health()).unwrap_err();
    assert!(matches!(error, RpcError::Mute { .. }), "{error}");
    // One that is known may be late, and is asked again for as long as the call allows.
    client.inner.contact.is_met.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = call(CallOptions::once(TRY));
    assert!(matches!(error, RpcError::Unreachable { .. }), "{error}");
}
