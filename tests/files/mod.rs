//! The file system as its users see it: the shell, its messages and codes, rights, snapshots, writing, and what a reader gets when replicas are damaged.

mod conformance;
mod corruption;
mod interrupts;
mod permissions;
mod shell;
mod snapshots;
mod writing;
