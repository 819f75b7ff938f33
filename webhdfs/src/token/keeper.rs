//! Who decides whether a delegation token is valid: the NameNode itself from its list, a gateway by asking the NameNode.
//!
//! Invariant: a gateway rejects a token with a wrong password without asking; it believes one that was cancelled for `BELIEVED_MAX` at most.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use protocol::auth::Key;
use serde_json::Value;
use transport::RpcError;
use transport::rpc::RpcClient;

use crate::error::{Exception, WebError};
use crate::path;
use crate::token::Delegation;
use crate::token::manager::TokenManager;

/// How long an answer of the NameNode is used. Short beside the time in which an operator expects a cancelled token to be dead.
const BELIEVED_MAX: Duration = Duration::from_secs(5);
/// Answers remembered, each some hundred bytes; beyond it all are forgotten.
const ANSWERS_MAX: usize = 4096;
/// Where homes are, as the NameNode answers.
const HOMES: &str = "/user/";

/// Knows the good tokens. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Keeper {
    /// The list of this NameNode.
    Local(TokenManager),
    /// The NameNode that has the list.
    Namenode(Asked),
}

/// A NameNode that is asked for tokens.
#[derive(Clone, Debug)]
pub struct Asked {
    rpc: RpcClient,
    key: Key,
    answers: Arc<Mutex<HashMap<String, (Instant, String)>>>,
}

impl Keeper {
    /// The user as whom the holder of a token acts.
    ///
    /// # Errors
    /// If it is not valid any more, or never was.
    pub async fn owner(&self, token: &str, now_ms: u64) -> Result<String, WebError> {
        match self {
            Keeper::Local(manager) => manager.owner(token, now_ms).await,
            Keeper::Namenode(asked) => asked.owner(token).await,
        }
    }
}

impl Asked {
    /// Asks by `rpc`; `key` is that of the tokens.
    pub fn new(rpc: RpcClient, key: Key) -> Self {
        Asked { rpc, key, answers: Arc::default() }
    }

    async fn owner(&self, token: &str) -> Result<String, WebError> {
        let named = Delegation::open(&self.key, token)
            .map_err(|error| WebError::new(Exception::InvalidToken, error.to_string()))?;
        if let Some((since, owner)) = self.answers.lock().get(token)
            && since.elapsed() < BELIEVED_MAX
        {
            return Ok(owner.clone());
        }
        let (prefix, value) = (path::PREFIX, path::encode_value(token));
        let target = format!("{prefix}/?op=GETHOMEDIRECTORY&delegation={value}");
        let answer = self.rpc.get(&target).await.map_err(refused)?;
        let body: Value = answer.json().await.map_err(|error| {
            WebError::new(Exception::Retriable, format!("the NameNode broke off: {error}"))
        })?;
        let home = body["Path"].as_str().unwrap_or_default();
        if home.strip_prefix(HOMES) != Some(named.owner.as_str()) {
            return Err(WebError::new(Exception::InvalidToken, "the token names somebody else"));
        }
        let mut answers = self.answers.lock();
        if answers.len() >= ANSWERS_MAX {
            answers.clear();
        }
        answers.insert(token.to_owned(), (Instant::now(), named.owner.clone()));
        Ok(named.owner)
    }
}

fn refused(error: RpcError) -> WebError {
    match error {
        RpcError::Status { text, .. } => {
            let body: Value = serde_json::from_str(&text).unwrap_or_default();
            let message = body["RemoteException"]["message"].as_str().unwrap_or(&text);
            WebError::new(Exception::InvalidToken, message)
        }
        error => WebError::new(Exception::Retriable, protocol::error::chain(&error)),
    }
}
