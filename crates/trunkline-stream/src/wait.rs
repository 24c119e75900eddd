//! Waits on a link, in a blocked thread or in an async task.

use trunkline_net::Link;
use trunkline_proto::Endpoint;
use trunkline_types::Tick;

/// A way to wait on a link: by blocking the calling thread, or as a task of an executor.
///
/// Every operation that waits is written once, as an `async fn` that uses this trait. With
/// [`Blocking`], the future is ready at the first poll, because the waits block.
pub(crate) trait Waiter {
    /// Waits until `f` returns an answer; `None` on timeout or if the link is closed.
    async fn wait<E: Endpoint + 'static, R>(
        &self,
        link: &Link<E>,
        deadline: Option<Tick>,
        f: impl FnMut(&mut E, Tick) -> Option<R>,
    ) -> Option<R>;
}

/// The calling thread waits, and drives the connection while it waits.
pub(crate) struct Blocking;

/// The calling task waits; the endpoint's own thread drives the connection.
pub(crate) struct Task;

impl Waiter for Blocking {
    async fn wait<E: Endpoint + 'static, R>(
        &self,
        link: &Link<E>,
        deadline: Option<Tick>,
        f: impl FnMut(&mut E, Tick) -> Option<R>,
    ) -> Option<R> {
        link.wait_until(deadline, f)
    }
}

impl Waiter for Task {
    async fn wait<E: Endpoint + 'static, R>(
        &self,
        link: &Link<E>,
        deadline: Option<Tick>,
        f: impl FnMut(&mut E, Tick) -> Option<R>,
    ) -> Option<R> {
        link.wait(deadline, f).await
    }
}

/// Runs an operation that uses [`Blocking`]. The future is ready at the first poll, because its waits
/// are never pending.
pub(crate) fn block<R>(operation: impl Future<Output = R>) -> R {
    let mut operation = std::pin::pin!(operation);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(result) = operation.as_mut().poll(&mut context) {
            return result;
        }
    }
}
