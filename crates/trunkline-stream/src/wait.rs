//! Waiting on an endpoint, by a thread or by a task.

use trunkline_net::Link;
use trunkline_proto::Endpoint;
use trunkline_types::Tick;

/// A way to wait on a link: on a thread of its own, or as a task of an executor.
///
/// Every operation that waits is written once, as an `async fn` over this trait. The blocking form
/// is ready at its first poll, because its waits block.
pub(crate) trait Waiter {
    /// Waits until `f` returns an answer; `None` on timeout or if the link is closed.
    async fn wait<E: Endpoint + 'static, R>(
        &self,
        link: &Link<E>,
        deadline: Option<Tick>,
        f: impl FnMut(&mut E, Tick) -> Option<R>,
    ) -> Option<R>;
}

/// The calling thread waits, and drives the connection meanwhile.
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

/// Runs an operation over [`Blocking`]. It is ready at once, because none of its waits is ever
/// pending.
pub(crate) fn block<R>(operation: impl Future<Output = R>) -> R {
    let mut operation = std::pin::pin!(operation);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(result) = operation.as_mut().poll(&mut context) {
            return result;
        }
    }
}
