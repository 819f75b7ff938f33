//! The list of delegation tokens as WebHDFS and operators use it: changed by the host, read when it is durable.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use protocol::delegation::{Order, Refusal, TokenInfo};
use webhdfs::token::manager::Ledger;

use crate::server::{Event, Shared};

/// The list in this NameNode's log.
pub(crate) struct TokenLedger(pub(crate) Arc<Shared>);

impl fmt::Debug for TokenLedger {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TokenLedger")
    }
}

impl Ledger for TokenLedger {
    fn find(&self, number: u32) -> BoxFuture<'_, Result<Option<TokenInfo>, Refusal>> {
        Box::pin(async move {
            let found = self.0.host.view(|state, _| state.standing.tokens.get(number)).await;
            found.map_err(|_| Refusal::Stopping)
        })
    }

    fn all(&self) -> BoxFuture<'_, Result<Vec<TokenInfo>, Refusal>> {
        Box::pin(async move {
            let all = self.0.host.view(|state, _| state.standing.tokens.all()).await;
            all.map_err(|_| Refusal::Stopping)
        })
    }

    fn change(&self, order: Order) -> BoxFuture<'_, Result<TokenInfo, Refusal>> {
        Box::pin(async move {
            let asked = self.0.host.ask(|sender| Event::Token(order, sender)).await;
            asked.map_err(|_| Refusal::Stopping)?
        })
    }
}
