//! Requests the descriptions of variables from the engine while updates arrive.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{OpenOptions, Opened};
use trunkline_proto::Fault;
use trunkline_record::VariableId;
use trunkline_types::{Properties, Tick};

use crate::client::CallError;
use crate::client::polled::{Client, PendingCall};

/// Maximum number of variables per request.
const NAMES_MAX: usize = 10_000;

/// Longest time that writing is delayed for descriptions.
const WRITE_DELAY_MAX: Duration = Duration::from_secs(1);

/// Fetches the descriptions of recorded variables. One request of at most [`NAMES_MAX`] names is in
/// progress at a time. The queue is at most as long as the number of variables.
pub(super) struct Descriptions {
    client: Client,
    queue: VecDeque<(VariableId, Arc<str>)>,
    request: Option<Request>,
    /// The request that closes the variables of the previous answer.
    closing: Option<PendingCall<Vec<Result<(), Fault>>>>,
    /// Time until which writing is delayed for descriptions.
    delay_until: Tick,
}

struct Request {
    ids: Vec<VariableId>,
    call: PendingCall<Answer>,
}

type Answer = Vec<Result<Opened, Fault>>;

pub(super) type Described = (VariableId, Arc<Properties>);

impl Descriptions {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            queue: VecDeque::new(),
            request: None,
            closing: None,
            delay_until: Tick::default(),
        }
    }

    /// Queues a variable. The next [`take`](Self::take) requests its description.
    pub(super) fn enqueue(&mut self, id: VariableId, name: Arc<str>, now: Tick) {
        if !self.are_missing() {
            self.delay_until = now.saturating_add(WRITE_DELAY_MAX);
        }
        self.queue.push_back((id, name));
    }

    /// Empties the queue. The caller queues all its variables again.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
    }

    /// Returns true while writing should be delayed until descriptions arrive.
    pub(super) fn are_awaited(&self, now: Tick) -> bool {
        self.are_missing() && now < self.delay_until
    }

    /// Returns true while descriptions are missing.
    pub(super) fn are_missing(&self) -> bool {
        self.request.is_some() || !self.queue.is_empty()
    }

    /// Returns the descriptions that have arrived, and requests further ones. Never waits.
    pub(super) fn take(&mut self) -> Vec<Described> {
        self.send_request();
        let answer = self
            .request
            .as_ref()
            .and_then(|request| request.call.poll());
        answer.map_or_else(Vec::new, |answer| self.handle_answer(answer))
    }

    /// Waits up to `timeout` for descriptions, and returns those of at most one request. Returns an
    /// empty list if none are missing.
    pub(super) fn take_within(&mut self, timeout: Duration) -> Vec<Described> {
        if let Some(closing) = self.closing.take()
            && closing.wait(timeout).is_none()
        {
            self.closing = Some(closing);
            return Vec::new();
        }
        self.send_request();
        let request = self.request.as_ref();
        let answer = request.and_then(|request| request.call.wait(timeout));
        answer.map_or_else(Vec::new, |answer| self.handle_answer(answer))
    }

    fn send_request(&mut self) {
        self.closing = self.closing.take().filter(|one| one.poll().is_none());
        if self.request.is_some() || self.closing.is_some() || self.queue.is_empty() {
            return;
        }
        let count = self.queue.len().min(NAMES_MAX);
        let (ids, names): (Vec<_>, Vec<_>) = self.queue.drain(..count).unzip();
        let describe = OpenOptions {
            describe: true,
            ..OpenOptions::default()
        };
        // If the request cannot be sent, the variables are recorded without descriptions.
        let call = self.client.open(&names, describe).ok();
        self.request = call.map(|call| Request { ids, call });
    }

    fn handle_answer(&mut self, answer: Result<Answer, CallError>) -> Vec<Described> {
        let ids = self.request.take().map(|request| request.ids);
        let opened = answer.unwrap_or_default();
        let (mut described, mut variables) = (Vec::new(), Vec::new());
        for (id, opened) in ids.into_iter().flatten().zip(opened) {
            let Ok(opened) = opened else {
                continue;
            };
            variables.push(opened.variable);
            described.extend(opened.properties.map(|properties| (id, properties)));
        }
        if !variables.is_empty() {
            // The call fails only for a closed client, which has no open variables.
            self.closing = self.client.close_variables(&variables).ok();
        }
        described
    }
}
