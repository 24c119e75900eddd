//! Operations that take time: the creation of an endpoint, and calls of an event loop.

use std::pin::Pin;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::call::{Answer, Pending};

/// Number of times that a waiting call may be woken before its caller looks at the time.
const WAKES_MAX: usize = 100;

type Running = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// An operation in progress. It ends when it is dropped: its future is polled once more, so that it
/// gives back what it has borrowed.
pub(super) struct Operation {
    /// `None` once the answer was taken. Locked only by its owner: the lock makes the type shareable.
    running: Mutex<Option<Running>>,
    is_cancelled: Arc<OnceLock<()>>,
}

/// Tells the future of an operation to end.
pub(super) struct Cancellation(Arc<OnceLock<()>>);

impl Operation {
    /// Starts an operation. The future ends when it is polled after [`Cancellation::is_set`].
    pub(super) fn start<F>(begin: impl FnOnce(Cancellation) -> F) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let is_cancelled = Arc::new(OnceLock::new());
        let future = begin(Cancellation(Arc::clone(&is_cancelled)));
        Self {
            running: Mutex::new(Some(Box::pin(future))),
            is_cancelled,
        }
    }

    fn poll_with(&mut self, waker: &Waker) -> Poll<Option<Answer>> {
        let slot = self
            .running
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(running) = slot else {
            return Poll::Ready(None);
        };
        let answer = running.as_mut().poll(&mut Context::from_waker(waker));
        if answer.is_ready() {
            *slot = None;
        }
        answer.map(Some)
    }
}

impl Cancellation {
    pub(super) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }
}

/// Wakes a thread that waits for an operation.
struct Bell(SyncSender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // A bell that is full wakes the thread as well.
        let _ = self.0.try_send(());
    }
}

impl Pending for Operation {
    /// Waits about as long as `timeout`: the caller waits in slices, and looks at the time in between.
    fn wait(&mut self, timeout: Duration) -> Option<Answer> {
        let (bell, wakes) = sync_channel(1);
        let waker = Waker::from(Arc::new(Bell(bell)));
        for _ in 0..WAKES_MAX {
            if let Poll::Ready(answer) = self.poll_with(&waker) {
                return answer;
            }
            if wakes.recv_timeout(timeout).is_err() {
                return None;
            }
        }
        None
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answer> {
        match self.poll_with(context.waker()) {
            Poll::Ready(Some(answer)) => Poll::Ready(answer),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    fn end(&mut self, _: Duration) -> Answer {
        let _is_set = self.is_cancelled.set(());
        match self.poll_with(Waker::noop()) {
            Poll::Ready(Some(answer)) => answer,
            // A future that was told to end is ready.
            Poll::Ready(None) | Poll::Pending => Box::new(|py| Ok(py.None())),
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let _is_set = self.is_cancelled.set(());
        let _ended = self.poll_with(Waker::noop());
    }
}
