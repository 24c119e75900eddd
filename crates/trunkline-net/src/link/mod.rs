//! The client's side of a connection, driven by the threads that wait on it.
//!
//! ```text
//!   with        any thread: runs the closure under the lock, sends what became due
//!   wait_until  the caller's thread reads the socket while it waits; others that wait are parked,
//!               one of them inherits the role
//!   poll_until  a task: woken after every change; the background thread drives meanwhile
//!   background  dials, and drives while nobody waits
//! ```

mod connection;
mod drive;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

use crate::dial::{DialLimits, Dialler};
use crate::role::Check;
use crate::spin::SPIN_DEFAULT;
use crate::sync::{Arc, Mutex, lock};
use crate::transport::shm::{LocalTable, TableAnswer};
use crate::transport::{Peer, Transport, TransportUsed};

use connection::Connection;
use drive::Driven;

/// A connection to one engine that reconnects by itself, shared by any number of threads and tasks.
///
/// The endpoint decides when to dial (`poll_dial`) and how to handle a lost connection. The link
/// dials, sends, receives and keeps the endpoint's timers.
pub struct Link<E: Endpoint + 'static> {
    driven: Arc<Driven<E>>,
    background: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Clone, Copy, Debug)]
pub struct LinkOptions {
    pub dial: DialLimits,
    /// Time without a driving thread after which the background thread drives again. Until then,
    /// arriving data stays in the socket, so that consecutive calls cost one wake-up each. After a
    /// program that waited repeatedly without a pause it may take up to four times as long.
    pub idle: Duration,
    /// Maximum time that a waiting thread polls for the answer before it sleeps. Zero disables
    /// polling. See [`spin`](crate::spin).
    pub spin: Duration,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            dial: DialLimits::default(),
            idle: Duration::from_millis(5),
            spin: SPIN_DEFAULT,
        }
    }
}

/// The decision of an endpoint about an attached transport.
#[derive(Debug)]
pub enum Admitted {
    /// The transport is accepted; the frame, if any, is sent first with the descriptor.
    Yes(Option<(Vec<u8>, OwnedFd)>),
    No,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("no file descriptor is left for a connection ({0}); close some, or raise `ulimit -n`")]
    Descriptors(#[source] io::Error),
    #[error("a thread for a connection cannot be started ({0}); too many run, or memory is short")]
    Thread(#[source] io::Error),
}

impl<E: Endpoint + 'static> Link<E> {
    /// Starts the background thread, which dials as soon as `endpoint` requests it. Takes three
    /// file descriptors, and one or two more while connected.
    pub fn start(
        dialler: Dialler,
        endpoint: E,
        options: LinkOptions,
    ) -> Result<Arc<Link<E>>, StartError> {
        let driven = Driven::new(endpoint, options).map_err(StartError::Descriptors)?;
        let driven = Arc::new(driven);
        let in_background = driven.clone();
        let background = thread::Builder::new()
            .name("trunkline-link".to_owned())
            .spawn(move || in_background.run_background(dialler))
            .map_err(StartError::Thread)?;
        Ok(Arc::new(Self {
            driven,
            background: Mutex::new(Some(background)),
        }))
    }

    /// Runs `f` on the endpoint and sends its output, on this thread. Never waits for the network.
    ///
    /// `f` runs under the link's lock: it must be short, and must not use the link. Waiting threads
    /// and tasks do not notice what it changes in the endpoint; see
    /// [`wake_waiters`](Self::wake_waiters).
    pub fn with<R>(&self, f: impl FnOnce(&mut E, Tick, Timestamp) -> R) -> R {
        let driven = &self.driven;
        let mut guard = driven.role.lock();
        let (now, wall) = guard.time();
        let answer = f(&mut guard.data.endpoint, now, wall);
        driven.after_call(&mut guard);
        driven.role.unlock(guard);
        answer
    }

    /// Waits until `f` returns an answer. Calls it at once, and again after data arrived, a timer
    /// fired or something changed. Returns `None` if `deadline` has passed or the link is closed.
    ///
    /// While it waits, the calling thread drives the connection, unless another one does already.
    /// `f` runs under the link's lock: it must be short, and must not use the link.
    pub fn wait_until<R>(
        &self,
        deadline: Option<Tick>,
        mut f: impl FnMut(&mut E, Tick) -> Option<R>,
    ) -> Option<R> {
        self.wait_for(deadline, |connection, now| f(&mut connection.endpoint, now))
    }

    /// As [`wait_until`](Self::wait_until), for tasks. `Pending` registers the task, which is woken
    /// after each change and at `deadline`. Returns `Ready(None)` if `deadline` has passed or the
    /// link is closed.
    ///
    /// # Cancel safety
    /// A dropped task leaves a waker behind until the next change.
    pub fn poll_until<R>(
        &self,
        context: &mut Context<'_>,
        deadline: Option<Tick>,
        mut f: impl FnMut(&mut E, Tick) -> Option<R>,
    ) -> Poll<Option<R>> {
        let driven = &self.driven;
        let mut guard = driven.role.lock();
        let (now, _) = guard.time();
        let answer = f(&mut guard.data.endpoint, now);
        let over = guard.is_stopping() || deadline.is_some_and(|deadline| deadline <= now);
        let poll = if answer.is_some() || over {
            Poll::Ready(answer)
        } else {
            Poll::Pending
        };
        if poll.is_pending() {
            driven.role.add_task(&mut guard, context.waker(), deadline);
        }
        driven.after_call(&mut guard);
        driven.role.unlock(guard);
        poll
    }

    /// [`poll_until`](Self::poll_until) as a future.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing except what `f` itself took.
    pub async fn wait<R>(
        &self,
        deadline: Option<Tick>,
        mut f: impl FnMut(&mut E, Tick) -> Option<R>,
    ) -> Option<R> {
        poll_fn(|context| self.poll_until(context, deadline, &mut f)).await
    }

    /// Installs a transport that another part of the program has accepted, in place of the current
    /// one, if `admit` accepts it. `admit` runs on the endpoint under the link's lock.
    ///
    /// `admit` must hand bytes that were already read from the transport to the endpoint. A frame
    /// that it returns is sent first, with its descriptor.
    ///
    /// # Errors
    /// Returns the transport if it was refused.
    pub fn attach(
        &self,
        transport: Transport,
        admit: impl FnOnce(&mut E, Tick, Timestamp) -> Admitted,
    ) -> Result<(), Transport> {
        let driven = &self.driven;
        let mut guard = driven.role.lock();
        let (now, wall) = guard.time();
        let admitted = match guard.is_stopping() {
            true => Admitted::No,
            false => admit(&mut guard.data.endpoint, now, wall),
        };
        let answer = match admitted {
            Admitted::Yes(first) => {
                guard.data.install(transport);
                if let Some((frame, file)) = first {
                    guard.data.pass(frame, file);
                }
                guard.set_offline(false);
                Ok(())
            }
            Admitted::No => Err(transport),
        };
        driven.after_call(&mut guard);
        driven.role.changed(&mut guard);
        // The driving thread sleeps on another transport, or on none.
        driven.kick(&guard);
        driven.role.unlock(guard);
        answer
    }

    /// Makes all waiters check the endpoint again. A caller of [`with`](Self::with) uses this after
    /// a change that another thread may wait for.
    pub fn wake_waiters(&self) {
        let driven = &self.driven;
        let mut guard = driven.role.lock();
        driven.role.changed(&mut guard);
        driven.kick(&guard);
        driven.role.unlock(guard);
    }

    pub fn peer(&self) -> Option<Peer> {
        self.driven.role.lock().data.peer()
    }

    pub fn transport(&self) -> Option<TransportUsed> {
        self.driven.role.lock().data.transport()
    }

    /// Returns the engine's table of last values in memory shared with this process, if it has a
    /// place for `index`. Returns `None` if there is no shared memory (yet), the engine provides no
    /// table, or it has not answered by `deadline`.
    pub fn last_values(&self, index: u32, deadline: Tick) -> Option<Arc<LocalTable>> {
        let answer = self.wait_for(Some(deadline), |connection, now| {
            match connection.table(index, now) {
                TableAnswer::Here(table) => Some(Some(table)),
                TableAnswer::None => Some(None),
                TableAnswer::Pending => None,
            }
        });
        answer.flatten()
    }

    /// Sends the endpoint's remaining output, until `deadline` at the latest, then closes the
    /// connection and ends the background thread. All waits end.
    ///
    /// If the endpoint must say goodbye, request that through [`with`](Self::with) before.
    pub fn close(&self, deadline: Tick) {
        self.wait_for(Some(deadline), |connection, _| {
            connection.is_flushed().then_some(())
        });
        let driven = &self.driven;
        let mut guard = driven.role.lock();
        driven.role.stop(&mut guard);
        driven.kick(&guard);
        driven.role.unlock(guard);
        let background = lock(&self.background).take();
        if let Some(background) = background
            && background.thread().id() != thread::current().id()
        {
            // A background thread that panicked has nothing left to close.
            let _ = background.join();
        }
        let mut guard = driven.role.lock();
        let (now, _) = guard.time();
        guard.data.disconnect(now, Disconnect::Local);
        guard.set_offline(true);
        driven.kick(&guard);
        driven.role.unlock(guard);
    }

    /// Returns true after [`close`](Self::close), or after the endpoint panicked on the background
    /// thread, which is visible nowhere else.
    pub fn is_closed(&self) -> bool {
        self.driven.role.lock().is_stopping()
    }

    fn wait_for<R>(
        &self,
        deadline: Option<Tick>,
        mut f: impl FnMut(&mut Connection<E>, Tick) -> Option<R>,
    ) -> Option<R> {
        let driven = &*self.driven;
        let check = |state: &mut _| driven.check(state, deadline, &mut f);
        let turn = |guard, timeout| driven.turn_of_waiter(guard, timeout);
        driven.role.wait(check, turn, driven)
    }
}

impl<E: Endpoint + 'static> Drop for Link<E> {
    fn drop(&mut self) {
        self.close(Tick::ZERO);
    }
}

impl<E: Endpoint + 'static> fmt::Debug for Link<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl<E: Endpoint> Driven<E> {
    /// Checks a waiter's condition once and sends what that made due.
    fn check<R>(
        &self,
        state: &mut drive::State<E>,
        deadline: Option<Tick>,
        f: &mut impl FnMut(&mut Connection<E>, Tick) -> Option<R>,
    ) -> Check<R> {
        let (now, _) = state.time();
        let answer = f(&mut state.data, now);
        self.after_call(state);
        match answer {
            Some(answer) => Check::Done(answer),
            None if state.is_stopping() => Check::GiveUp,
            None => match deadline {
                Some(deadline) if deadline <= now => Check::GiveUp,
                Some(deadline) => Check::Wait(Some(deadline.since(now))),
                None => Check::Wait(None),
            },
        }
    }
}
