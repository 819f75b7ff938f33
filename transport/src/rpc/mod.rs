//! Signed calls to a daemon: postcard bodies over kept-alive HTTP, retried while the daemon is unreachable.
//!
//! A request is signed for one process ([`Incarnation`]). The client asks once, with a signed hello, which process answers at an address, and keeps the answer
//! for all clients of this process. A restarted daemon refuses requests meant for its predecessor; the client then asks again and sends the request a second
//! time. Nothing but the hello goes to a peer that has not proven that it holds the secret, and no unsigned answer is believed.
//!
//! Calls to other machines are encrypted. The hello proves the daemon's certificate, too, and calls go to who has that certificate (`http`).
//!
//! A call that changes something has a call id in its message, so sending it again is safe: the daemon gives a repeated call its first answer. Every failure to
//! get an answer can therefore be retried here.

mod body;
pub(crate) mod http;
mod lane;
mod pass;
mod together;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use protocol::auth::{
    ANSWER_HEADER, AnswerSignature, BodyDigest, HELLO, Hello, Incarnation, Key, LOGIN_METHOD,
    Nonce, Occasion, REFUSED_HEADER, REFUSED_SECRET, ReadyKey, Role, Service, Signature,
    SignedRequest, answer_key, hello_digest, login_target,
};
use protocol::{ErrorKind, RemoteError, wire};
use reqwest::{Response, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::runtime::{Handle, Runtime};

use crate::error::RpcError;

use self::http::{Contact, certificate_of};
use self::lane::{Lanes, Turn};

pub use self::body::Body;
pub use self::lane::Lane;
pub use self::pass::PassHolder;

/// First pause between tries; doubles up to [`RETRY_PAUSE_MAX`], with jitter.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(20);
/// Longest pause between tries: a daemon that is back is found within a second.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Time for a daemon to say who it is: with a loaded machine it takes a second. Who never said so within this time is not asked again.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for a daemon to begin its answer to a GET; for the longest, the daemon first makes an image or a picture of a large job.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes read of the reason for a refusal.
const REASON_BYTES_MAX: usize = 4 << 10;

/// How long and how often to try a call.
#[derive(Clone, Copy, Debug)]
pub struct CallOptions {
    /// Time for one try, from sending to the whole answer.
    pub attempt_timeout: Duration,
    /// Time after which no further try begins. Zero: one try.
    pub retry_for: Duration,
}

impl Default for CallOptions {
    /// 60 s per try and 60 s of tries: this bridges a restart of a daemon, and reports one that stays unreachable.
    fn default() -> Self {
        CallOptions { attempt_timeout: Duration::from_secs(60), retry_for: Duration::from_secs(60) }
    }
}

impl CallOptions {
    /// One try.
    pub fn once(attempt_timeout: Duration) -> Self {
        CallOptions { attempt_timeout, retry_for: Duration::ZERO }
    }
}

/// A daemon to call. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct RpcClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    base: String,
    contact: Arc<Contact>,
    identity: Identity,
    /// Stream of the nonces; random.
    stream: u64,
    /// Requests signed so far.
    request_count: AtomicU64,
    /// The service expected there, if known.
    expected: OnceLock<Service>,
    /// How long it may take to say who it is.
    hello_max: Duration,
    lanes: Lanes<UnderWay>,
    /// The process that does not know requests which calls share.
    without_bundles: Mutex<Option<Incarnation>>,
}

/// A request of a lane that is under way. When it ends, however it ends, those who wait go on.
#[derive(Debug)]
struct UnderWay {
    client: RpcClient,
    lane: Lane,
    /// False while it is in a task that has not run yet. A runtime that ends drops those, and every later one.
    has_begun: bool,
}

impl UnderWay {
    /// The place that a call was given by its lane. From now on it is handed on, whatever happens.
    fn new(client: &RpcClient, lane: Lane) -> Self {
        UnderWay { client: client.clone(), lane, has_begun: true }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let messages_max = self.client.messages_max();
        let mut next = self.client.inner.lanes.next(self.lane, messages_max);
        let Some(first) = next.pop() else { return };
        let mut place = UnderWay::new(&self.client, self.lane);
        if next.is_empty() {
            // If its caller is gone, the place comes back, and is handed on as it is dropped.
            drop(first.turn.send(Turn::Goes(place)));
            return;
        }
        next.push(first);
        place.has_begun = false;
        // The place is in the task from the beginning: one that is dropped before it runs hands it on, too.
        let sending = async move {
            place.has_begun = true;
            place.client.send_together(next).await;
        };
        // A caller's own runtime is nearer, but this may be the end of one.
        match Handle::try_current() {
            Ok(current) if self.has_begun => drop(current.spawn(sending)),
            _ => drop(runtime().spawn(sending)),
        }
    }
}

/// In whose name calls are signed.
#[derive(Debug)]
enum Identity {
    /// A role, with its keys once the secret is known.
    Role(Role, OnceLock<Keys>),
    /// A task of a job.
    Task(PassHolder),
}

#[derive(Debug)]
struct Keys {
    requests: ReadyKey,
    answers: Arc<ReadyKey>,
}

impl Keys {
    fn of(key: &Key) -> Self {
        Keys { requests: key.ready(), answers: answers_of(key) }
    }
}

fn answers_of(key: &Key) -> Arc<ReadyKey> {
    Arc::new(answer_key(key).ready())
}

/// A signed request, and the values its answer must match.
struct Signed {
    header: String,
    nonce: Nonce,
    answers: Arc<ReadyKey>,
}

/// How a message travels.
#[derive(Clone, Copy)]
enum Way<'a> {
    /// As a request to this target.
    Alone(&'a str),
    /// In a lane.
    In(Lane),
}

/// A request.
struct Question<'a> {
    target: &'a str,
    /// `None` for a GET.
    post: Option<Post<'a>>,
}

struct Post<'a> {
    body: &'a bytes::Bytes,
    digest: BodyDigest,
    timeout: Duration,
}

/// The outcome of a request that was signed for one incarnation.
enum AskOutcome {
    /// An answer, or a failure that has nothing to do with who is asked.
    Final(Result<(Signed, Response), RpcError>),
    /// Another incarnation may answer there now.
    Stale(RpcError),
}

/// What every daemon answers to `GET /healthz`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Health {
    /// `namenode`, `datanode`, `jobtracker` or `worker`.
    pub service: String,
    /// Where the cluster secret is kept on the daemon's machine; only its owner can read it.
    pub secret_file: Option<PathBuf>,
    /// True if it can do its work (for the NameNode: out of safe mode).
    #[serde(default)]
    pub ready: bool,
    /// Any other fields.
    #[serde(flatten)]
    pub more: std::collections::BTreeMap<String, serde_json::Value>,
}

impl Health {
    /// Itself, if the daemon at `address` is of the wanted kind.
    ///
    /// # Errors
    /// [`RpcError::OtherDaemon`].
    pub fn expect(self, address: &str, wanted: &'static str) -> Result<Self, RpcError> {
        if self.service == wanted {
            return Ok(self);
        }
        let found = self.service.chars().filter(|c| c.is_ascii_alphanumeric()).take(40).collect();
        Err(RpcError::OtherDaemon { address: address.to_owned(), found, wanted })
    }
}

impl RpcClient {
    /// A client of the daemon at `base` (`http://host:port`). Without a `secret`, the first call reads it from the file that the daemon's `/healthz` names: on
    /// the daemon's machine its owner needs no set-up.
    ///
    /// # Errors
    /// [`RpcError::Address`] if `base` is not such an address.
    pub fn new(base: &str, role: Role, secret: Option<&Key>) -> Result<Self, RpcError> {
        let key = OnceLock::new();
        if let Some(secret) = secret {
            key.get_or_init(|| Keys::of(&role.key(secret)));
        }
        RpcClient::signing(base, Identity::Role(role, key))
    }

    /// A client of the daemon at `base` that signs as a task.
    ///
    /// # Errors
    /// [`RpcError::Address`] if `base` is not such an address.
    pub fn of_task(base: &str, pass: &PassHolder) -> Result<Self, RpcError> {
        RpcClient::signing(base, Identity::Task(pass.clone()))
    }

    fn signing(base: &str, identity: Identity) -> Result<Self, RpcError> {
        let base = base.trim_end_matches('/').to_owned();
        let Some(contact) = Contact::at(&base) else {
            return Err(RpcError::Address { address: base });
        };
        let (stream, request_count) = (rand::random(), AtomicU64::new(0));
        let (lanes, without_bundles) = (Lanes::default(), Mutex::default());
        let inner = Inner {
            base,
            contact,
            identity,
            stream,
            request_count,
            expected: OnceLock::new(),
            hello_max: HELLO_TIMEOUT,
            lanes,
            without_bundles,
        };
        Ok(RpcClient { inner: Arc::new(inner) })
    }

    /// Sets the service expected there: a daemon of any other kind is refused.
    pub fn expecting(self, service: Service) -> Self {
        self.inner.expected.get_or_init(|| service);
        self
    }

    /// The daemon's address.
    pub fn base(&self) -> &str {
        &self.inner.base
    }

    /// Sends `message` to `target` (a path) and decodes the daemon's `Result<A, RemoteError>`.
    ///
    /// # Errors
    /// [`RpcError::Remote`] if the daemon refused; others if no answer came in time.
    pub async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        target: &str,
        message: &Q,
        options: CallOptions,
    ) -> Result<A, RpcError> {
        self.tries(Way::Alone(target), message, options).await
    }

    /// As [`RpcClient::call`] to the target [`ALONE`](protocol::wire::bundle::ALONE), in a request that it may share with other calls of its lane.
    ///
    /// # Errors
    /// As [`RpcClient::call`].
    pub async fn call_in<Q: Serialize, A: DeserializeOwned>(
        &self,
        lane: Lane,
        message: &Q,
        options: CallOptions,
    ) -> Result<A, RpcError> {
        self.tries(Way::In(lane), message, options).await
    }

    async fn tries<Q: Serialize, A: DeserializeOwned>(
        &self,
        way: Way<'_>,
        message: &Q,
        options: CallOptions,
    ) -> Result<A, RpcError> {
        let body = bytes::Bytes::from(wire::encode(message));
        let deadline = Instant::now() + options.retry_for;
        let mut pause = RETRY_PAUSE_MIN;
        loop {
            let exchanged = match way {
                Way::Alone(target) => self.exchange(target, &body, options.attempt_timeout).await,
                Way::In(lane) => self.exchange_in(lane, &body, options.attempt_timeout).await,
            };
            let answer = exchanged.and_then(|bytes| {
                wire::decode::<Result<A, RemoteError>>(&bytes, "answer")
                    .map_err(RpcError::Malformed)
            });
            let error = match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(refusal)) => RpcError::Remote(refusal),
                Err(error) => error,
            };
            let is_over = matches!(error, RpcError::Mute { .. }) || !error.is_transient();
            if is_over || Instant::now() + pause >= deadline {
                return Err(error);
            }
            tracing::debug!(daemon = %self.inner.base, error = %protocol::error::chain(&error), "call failed, trying again");
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
    }

    /// As [`RpcClient::call`] for callers without a runtime. Must not be called on a runtime's own threads.
    ///
    /// # Errors
    /// As [`RpcClient::call`].
    pub fn call_blocking<Q: Serialize, A: DeserializeOwned>(
        &self,
        target: &str,
        message: &Q,
        options: CallOptions,
    ) -> Result<A, RpcError> {
        runtime().block_on(self.call(target, message, options))
    }

    /// Sends a signed GET; the caller reads the body. An answer other than 2xx is an error.
    ///
    /// # Errors
    /// [`RpcError`].
    pub async fn get(&self, target: &str) -> Result<Body, RpcError> {
        let (signed, response) = self.ask(&Question { target, post: None }).await?;
        self.noting(self.proof(&signed, &response).map(|_| Body::new(response, self.base())))
    }

    /// As [`RpcClient::get`], in the name of `user`, for content displayed to that user.
    ///
    /// # Errors
    /// [`RpcError`].
    pub async fn get_as(&self, user: &str, target: &str) -> Result<Body, RpcError> {
        let mut named = self.inner.contact.url.clone();
        named.set_query(None);
        named.query_pairs_mut().append_pair("user.name", user);
        let name = named.query().unwrap_or_default();
        let joint = if target.contains('?') { '&' } else { '?' };
        self.get(&format!("{target}{joint}{name}")).await
    }

    /// Asks the known incarnation, and again if another one answers now. The answer is 2xx and not verified yet.
    async fn ask(&self, question: &Question<'_>) -> Result<(Signed, Response), RpcError> {
        let timeout = question.post.as_ref().map_or(self.inner.hello_max, |post| post.timeout);
        let known = self.inner.contact.known();
        let first = match known {
            Some(hello) => hello,
            None => self.hello(timeout).await?,
        };
        self.check_service(first)?;
        let error = match self.ask_once(question, first.incarnation).await {
            AskOutcome::Final(result) => return self.noting(result),
            AskOutcome::Stale(error) => error,
        };
        self.inner.contact.forget();
        if known.is_none() {
            return Err(error);
        }
        let now = self.hello(timeout).await?;
        if now == first {
            return Err(error);
        }
        self.check_service(now)?;
        match self.ask_once(question, now.incarnation).await {
            AskOutcome::Final(result) => self.noting(result),
            AskOutcome::Stale(error) => Err(error),
        }
    }

    async fn ask_once(&self, question: &Question<'_>, to: Incarnation) -> AskOutcome {
        match self.send(question, to).await {
            Ok((_, response)) if !response.status().is_success() => self.refusal(response).await,
            // A daemon that has started again has another certificate.
            Err(RpcError::Unreachable { address, source })
                if source.is_connect() && self.inner.contact.is_secure() =>
            {
                AskOutcome::Stale(RpcError::Unreachable { address, source })
            }
            result => AskOutcome::Final(result),
        }
    }

    async fn send(
        &self,
        Question { target, post }: &Question<'_>,
        to: Incarnation,
    ) -> Result<(Signed, Response), RpcError> {
        let (url, http) = (self.url(target)?, &self.inner.contact.calls);
        let (signed, request) = match post {
            None => (self.sign("GET", target, BodyDigest::EMPTY, to).await?, http.get(url)),
            Some(Post { body, digest, timeout }) => {
                let request = http.post(url).timeout(*timeout).body((*body).clone());
                (self.sign("POST", target, *digest, to).await?, request)
            }
        };
        let sent = request.header("authorization", &signed.header).send();
        let sent = match post {
            Some(_) => sent.await,
            // The body of a GET can arrive over hours, as the events of a job do; its head cannot.
            None => tokio::time::timeout(HEAD_TIMEOUT, sent).await.map_err(|_| {
                RpcError::Silent { address: self.base().to_owned(), limit: HEAD_TIMEOUT }
            })?,
        };
        Ok((signed, sent.map_err(|source| self.unreachable(source))?))
    }

    /// If no answer came, another process may have taken the address: it must identify itself before it is sent anything else.
    fn noting<T>(&self, result: Result<T, RpcError>) -> Result<T, RpcError> {
        if let Err(
            RpcError::Unreachable { .. } | RpcError::Silent { .. } | RpcError::Unproven { .. },
        ) = &result
        {
            self.inner.contact.forget();
        }
        result
    }

    fn check_service(&self, hello: Hello) -> Result<(), RpcError> {
        match self.inner.expected.get() {
            Some(expected) if *expected != hello.service => {
                let (address, found) = (self.inner.base.clone(), hello.service.as_str().to_owned());
                Err(RpcError::OtherDaemon { address, found, wanted: expected.as_str() })
            }
            _ => Ok(()),
        }
    }

    /// Asks which process answers there, and has it prove its identity.
    async fn hello(&self, timeout: Duration) -> Result<Hello, RpcError> {
        let limit = timeout.min(self.inner.hello_max);
        self.ask_hello(limit).await.map_err(|error| self.or_mute(error, limit))
    }

    async fn ask_hello(&self, limit: Duration) -> Result<Hello, RpcError> {
        let signed = self.sign("GET", HELLO, BodyDigest::EMPTY, Incarnation::NONE).await?;
        let request = self.inner.contact.hellos.get(self.url(HELLO)?).timeout(limit);
        let request = request.header("authorization", &signed.header);
        let response = request.send().await.map_err(|source| self.unreachable(source))?;
        if !response.status().is_success() {
            return match self.refusal(response).await {
                AskOutcome::Final(Err(error)) | AskOutcome::Stale(error) => Err(error),
                AskOutcome::Final(Ok(_)) => Err(self.unproven()),
            };
        }
        let certificate = certificate_of(&response);
        if certificate.is_none() && self.inner.contact.is_secure() {
            return Err(self.unproven());
        }
        let digest = |body: &[u8]| hello_digest(body, certificate);
        let body = self.whole(&signed, response, digest).await?;
        let hello = wire::decode(&body, "hello").map_err(RpcError::Malformed)?;
        self.inner.contact.learn(hello, certificate);
        Ok(hello)
    }

    /// The error of a first exchange: whoever took the connection and had the whole time for an answer is told from one who cannot be reached.
    fn or_mute(&self, error: RpcError, limit: Duration) -> RpcError {
        match error {
            RpcError::Unreachable { address, source }
                if source.is_timeout()
                    && !source.is_connect()
                    && limit == self.inner.hello_max
                    && !self.inner.contact.has_met() =>
            {
                RpcError::Mute { address, limit }
            }
            error => error,
        }
    }

    /// The content of an answer's signature, if it is valid.
    fn proof(&self, signed: &Signed, response: &Response) -> Result<AnswerSignature, RpcError> {
        let header = response.headers().get(ANSWER_HEADER).and_then(|value| value.to_str().ok());
        let (nonce, status) = (signed.nonce, response.status().as_u16());
        header
            .and_then(AnswerSignature::parse)
            .filter(|signature| signature.matches(&signed.answers, nonce, status))
            .ok_or_else(|| self.unproven())
    }

    /// The whole body of an answer that was signed with its content.
    async fn whole(
        &self,
        signed: &Signed,
        response: Response,
        digest_of: impl FnOnce(&[u8]) -> BodyDigest,
    ) -> Result<bytes::Bytes, RpcError> {
        let digest = self.proof(signed, &response)?.body.ok_or_else(|| self.unproven())?;
        let bytes = response.bytes().await.map_err(|source| self.unreachable(source))?;
        if digest_of(&bytes) == digest { Ok(bytes) } else { Err(self.unproven()) }
    }

    /// An answer other than 2xx. It need not be signed: it is an error whoever sent it.
    async fn refusal(&self, response: Response) -> AskOutcome {
        let (address, status) = (self.inner.base.clone(), response.status().as_u16());
        let is_about_secret =
            response.headers().get(REFUSED_HEADER).is_some_and(|why| why == REFUSED_SECRET);
        let (mut reason, mut body) = (Vec::new(), Body::new(response, &address));
        while let Ok(Some(piece)) = body.next().await {
            reason.extend_from_slice(&piece);
            if reason.len() >= REASON_BYTES_MAX {
                reason.truncate(REASON_BYTES_MAX);
                break;
            }
        }
        let text = first_line(&String::from_utf8_lossy(&reason));
        let refused = |text| RpcError::Status { address, status, text, is_about_secret };
        match status {
            401 | 421 => AskOutcome::Stale(refused(text)),
            503 => AskOutcome::Final(Err(RpcError::Remote(RemoteError::new(
                ErrorKind::Unavailable,
                text,
            )))),
            _ => AskOutcome::Final(Err(refused(text))),
        }
    }

    /// Asks the daemon for its health; not signed.
    ///
    /// # Errors
    /// [`RpcError`] if it cannot be reached or is not one of ours.
    pub async fn health(&self) -> Result<Health, RpcError> {
        let limit = self.inner.hello_max;
        let request = self.inner.contact.hellos.get(self.url("/healthz")?).timeout(limit);
        let sent = request.send().await.map_err(|source| self.unreachable(source));
        let response = sent.map_err(|error| self.or_mute(error, limit))?;
        response.json().await.map_err(|_| RpcError::NotOurs { address: self.inner.base.clone() })
    }

    /// Asks for what anybody may read, as [`RpcClient::health`] does: nothing is signed. Reads about `bytes_max` bytes at most.
    ///
    /// # Errors
    /// [`RpcError`] if it cannot be reached, or answers anything but 2xx.
    pub async fn get_open(&self, target: &str, bytes_max: u64) -> Result<Vec<u8>, RpcError> {
        let limit = self.inner.hello_max;
        let request = self.inner.contact.hellos.get(self.url(target)?).timeout(limit);
        let sent = request.send().await.map_err(|source| self.unreachable(source));
        let response = sent.map_err(|error| self.or_mute(error, limit))?;
        if !response.status().is_success() {
            let (address, status) = (self.inner.base.clone(), response.status().as_u16());
            let (text, is_about_secret) = (String::new(), false);
            return Err(RpcError::Status { address, status, text, is_about_secret });
        }
        Body::new(response, self.base()).at_most(bytes_max).await
    }

    /// Sends a message once, and returns the daemon's answer, encoded.
    async fn exchange(
        &self,
        target: &str,
        body: &bytes::Bytes,
        timeout: Duration,
    ) -> Result<bytes::Bytes, RpcError> {
        let post = Some(Post { body, digest: BodyDigest::of(body), timeout });
        let (signed, response) = self.ask(&Question { target, post }).await?;
        self.noting(self.whole(&signed, response, BodyDigest::of).await)
    }

    /// The connections to the process that answers there, after it has proven itself, and its URL.
    ///
    /// # Errors
    /// [`RpcError`] if it does not.
    pub(crate) async fn proven(&self) -> Result<(reqwest::Client, Url), RpcError> {
        let hello = match self.inner.contact.known() {
            Some(hello) => hello,
            None => self.hello(HELLO_TIMEOUT).await?,
        };
        self.check_service(hello)?;
        Ok((self.inner.contact.calls.clone(), self.inner.contact.url.clone()))
    }

    /// A link that signs a browser in to the daemon's pages as `user`, once and within minutes.
    ///
    /// # Errors
    /// [`RpcError`] if the cluster secret is not available.
    pub async fn login_link(&self, service: &str, user: &str) -> Result<String, RpcError> {
        let target = login_target(service, user);
        // A link is valid for the process that runs now, like the sessions that it starts.
        let hello = self.hello(self.inner.hello_max).await?;
        self.check_service(hello)?;
        let signed = self.sign(LOGIN_METHOD, &target, BodyDigest::EMPTY, hello.incarnation).await?;
        let mut link = self.url("/login")?;
        let proof = signed.header.replace(' ', ".");
        link.query_pairs_mut().append_pair("user", user).append_pair("proof", &proof);
        Ok(link.into())
    }

    fn url(&self, target: &str) -> Result<Url, RpcError> {
        let joined = self.inner.contact.url.join(target);
        joined.map_err(|_| RpcError::Address { address: format!("{}{target}", self.inner.base) })
    }

    async fn sign(
        &self,
        method: &str,
        target: &str,
        body: BodyDigest,
        to: Incarnation,
    ) -> Result<Signed, RpcError> {
        let number = self.inner.request_count.fetch_add(1, Ordering::Relaxed);
        let nonce = Nonce { stream: self.inner.stream, number };
        let (on, request) =
            (Occasion { time_ms: now_ms(), nonce, to, body }, SignedRequest { method, target });
        let (signature, answers) = match &self.inner.identity {
            Identity::Task(holder) => {
                let pass = holder.pass();
                (Signature::sign_as_task(&pass, on, request), answers_of(&pass.key))
            }
            Identity::Role(role, known) => {
                let keys = match known.get() {
                    Some(keys) => keys,
                    None => {
                        let found = self.find_secret().await?;
                        known.get_or_init(|| Keys::of(&role.key(&found)))
                    }
                };
                let signature = Signature::sign(&keys.requests, *role, on, request);
                (signature, Arc::clone(&keys.answers))
            }
        };
        Ok(Signed { header: signature.to_header(), nonce, answers })
    }

    async fn find_secret(&self) -> Result<Key, RpcError> {
        let health = self.health().await?;
        let path = health
            .secret_file
            .ok_or_else(|| RpcError::NotOurs { address: self.inner.base.clone() })?;
        read_secret(&path)
    }

    fn unproven(&self) -> RpcError {
        RpcError::Unproven { address: self.inner.base.clone() }
    }

    fn unreachable(&self, source: reqwest::Error) -> RpcError {
        RpcError::Unreachable { address: self.inner.base.clone(), source: source.without_url() }
    }
}

/// Reads a cluster secret.
///
/// # Errors
/// [`RpcError::Secret`] if it is unreadable, readable by others, or no secret.
pub fn read_secret(path: &Path) -> Result<Key, RpcError> {
    let fail = |reason: String| RpcError::Secret { path: path.to_owned(), reason };
    let file = sys::fs::read_private(path, Key::FILE_BYTES_MAX);
    let file = file.map_err(|error| fail(error.to_string()))?;
    Key::from_file_text(&file.text).map_err(|reason| fail(reason.to_owned()))
}

/// The runtime that drives HTTP for callers without one: one thread, started at first use.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("hanno-client")
            .enable_all()
            .build()
            .expect("the system can start one thread")
    })
}

/// The wall clock, milliseconds since the epoch.
pub fn now_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(500).collect()
}
