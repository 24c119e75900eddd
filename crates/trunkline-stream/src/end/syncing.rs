//! Runs the thread that syncs a journal to the disk. A sync runs without the link's lock, because
//! `fdatasync` can take long. Data appended during a sync is left for the next sync.

use std::io;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::thread;

use trunkline_net::Link;

use super::{EndpointRole, StreamEndpoint};
use crate::journal::{SyncJob, Synced};

/// An endpoint whose journal is synced by a separate thread.
pub(crate) trait Syncs: EndpointRole {
    fn sync_job(&self) -> Option<SyncJob>;

    fn finish_sync(&mut self, done: Synced);
}

/// Starts the thread. The thread ends when the endpoint is dropped, which holds the sender of `wakes`.
pub(crate) fn start<S: Syncs + 'static>(
    link: &Arc<Link<StreamEndpoint<S>>>,
    wakes: Receiver<()>,
) -> io::Result<()> {
    let link = Arc::downgrade(link);
    let thread = thread::Builder::new().name("trunkline-journal".to_owned());
    thread.spawn(move || {
        while wakes.recv().is_ok() {
            while sync_once(&link) {}
        }
    })?;
    Ok(())
}

/// Syncs the journal once. Returns false if there was nothing to sync.
fn sync_once<S: Syncs + 'static>(link: &Weak<Link<StreamEndpoint<S>>>) -> bool {
    let job = match link.upgrade() {
        Some(link) => link.with(|end, _, _| end.inner.sync_job()),
        None => None,
    };
    let Some(job) = job else {
        return false;
    };
    let done = job.run();
    if let Some(link) = link.upgrade() {
        link.with(|end, _, _| {
            end.inner.finish_sync(done);
            end.poll_ring();
        });
        link.wake_waiters();
    }
    true
}
