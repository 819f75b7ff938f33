//! One client of the file system per user, for a while.
//!
//! A client holds the leases of its writers and renews them while it has any. Should a file that was given up not be deleted
//! (the NameNode was away), its lease must still run out: so a client is replaced after [`CLIENT_AGE_MAX`].

use std::collections::HashMap;
use std::time::{Duration, Instant};

use client::dfs::DfsClient;
use parking_lot::Mutex;

/// How long a client gets new work.
const CLIENT_AGE_MAX: Duration = Duration::from_secs(10 * 60);
/// Users remembered. A client costs a few hundred bytes; forgetting one costs nothing but its lease thread.
const CLIENTS_MAX: usize = 4096;

/// The clients.
#[derive(Debug)]
pub(super) struct Clients {
    base: DfsClient,
    users: Mutex<HashMap<String, (Instant, DfsClient)>>,
}

impl Clients {
    pub(super) fn new(base: DfsClient) -> Self {
        Clients { base, users: Mutex::default() }
    }

    /// The client that acts as `user`.
    pub(super) fn of(&self, user: &str) -> DfsClient {
        let mut users = self.users.lock();
        if let Some((since, client)) = users.get(user)
            && since.elapsed() < CLIENT_AGE_MAX
        {
            return client.clone();
        }
        if users.len() >= CLIENTS_MAX {
            users.clear();
        }
        let client = self.base.as_user(user);
        users.insert(user.to_owned(), (Instant::now(), client.clone()));
        client
    }
}
