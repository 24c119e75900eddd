//! Operations that take time: the creation of an endpoint, and calls of an event loop.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::call::{Answer, Pending};

type Running = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// An operation in progress. It ends when it is dropped: its future is polled once more, so that it
/// gives back what it has borrowed.
pub(super) struct Operation {
    /// `None` once the answer was taken. Locked only by its owner: the lock makes the type shareable.
    running: Mutex<Option<Running>>,
    is_cancelled: Arc<AtomicBool>,
}

/// Tells the future of an operation to end.
pub(super) struct Cancellation(Arc<AtomicBool>);

impl Operation {
    /// Starts an operation. The future ends when it is polled after [`Cancellation::is_set`].
    pub(super) fn start<F>(begin: impl FnOnce(Cancellation) -> F) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let is_cancelled = Arc::new(AtomicBool::new(false));
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
        self.0.load(Ordering::Acquire)
    }
}

/// Wakes a thread that waits for an operation.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Pending for Operation {
    fn wait(&mut self, timeout: Duration) -> Option<Answer> {
        let deadline = Instant::now().checked_add(timeout);
        let waker = Waker::from(Arc::new(Parked(thread::current())));
        loop {
            if let Poll::Ready(answer) = self.poll_with(&waker) {
                return answer;
            }
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(Duration::ZERO) => return None,
                Some(left) => thread::park_timeout(left),
            }
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answer> {
        match self.poll_with(context.waker()) {
            Poll::Ready(Some(answer)) => Poll::Ready(answer),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    fn end(&mut self, _: Duration) -> Answer {
        self.is_cancelled.store(true, Ordering::Release);
        match self.poll_with(Waker::noop()) {
            Poll::Ready(Some(answer)) => answer,
            // A future that was told to end is ready.
            Poll::Ready(None) | Poll::Pending => Box::new(|py| Ok(py.None())),
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Release);
        let _ended = self.poll_with(Waker::noop());
    }
}
