//! What every face of the NameNode (signed messages, WebHDFS, pages, monitors) calls: one service that answers clients and DataNodes.
//!
//! | file | what |
//! |---|---|
//! | `calls` | [`Service`]: calls of clients, counted ([`Load`]) and logged in the audit log |
//! | `datanodes` | messages of DataNodes |
//! | `tokens` | [`TokenLedger`]: the list of delegation tokens |
//! | `local` | [`Local`]: the same for faces in this process |
//! | `audit` | lines of the audit log |

pub(crate) mod audit;
mod calls;
mod datanodes;
mod load;
mod local;
mod tokens;

pub(crate) use self::audit::Origin;
pub(crate) use self::calls::Service;
#[cfg(feature = "sim")]
pub(crate) use self::datanodes::check_bounds;
pub(crate) use self::load::Load;
pub(crate) use self::local::Local;
pub(crate) use self::tokens::TokenLedger;
