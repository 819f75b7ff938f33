//! What the NameNode does by itself, with time and as DataNodes come and go, and what operators order of it.
//!
//! | file | what |
//! |---|---|
//! | `schedule` | orders for copies and deletions |
//! | `recovery`, `cut` | closing files of silent writers; cuts within a block |
//! | `drain`, `maintenance` | taking DataNodes out of service and back; those that are off while the NameNode restarts |
//! | `moves` | moves of replicas for the balancer |

mod cut;
mod drain;
mod maintenance;
mod moves;
mod recovery;
mod schedule;
