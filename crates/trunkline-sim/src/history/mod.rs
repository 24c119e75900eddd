//! History in simulated time: the production engine and recorder with real files, under faults, with
//! a checker that knows what was written.
//!
//! ```text
//! Plan --> HistoryWorld: time, writes, deployments, queries, faults
//!            |
//!          Host: Engine + FileHistory --> a folder, of which kills and losses of power leave a part
//!            |                |
//!         updates        pages, figures
//!            v                v
//!          HistoryChecker: rows that were accepted, and which of them are durable
//!            ^
//!          Follower: a subscription that begins in the past, over a connection
//! ```
//!
//! A full disk is simulated by a limit on the length of files. The limit applies to the whole process, so a
//! process may run only one simulation of this kind at a time.

pub mod checker;
pub mod fault;
mod follower;
mod host;
pub mod plan;
mod scenario;
mod series_events;
mod world;
