//! Simulates history: runs the production engine and history with real files under faults, and compares the
//! results with all updates.
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
//! A limit on the length of files simulates a full disk. The limit applies to the whole process, so a process
//! can run only one simulation of this kind at a time.

pub mod checker;
pub mod fault;
mod follower;
mod host;
pub mod plan;
mod scenario;
mod series_events;
mod world;
