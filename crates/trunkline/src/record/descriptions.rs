//! Descriptions of variables, requested from the engine while updates arrive.

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
const ASKED_MAX: usize = 10_000;

/// Longest delay of writing while an answer is awaited.
const HELD_MAX: Duration = Duration::from_secs(1);

/// Fetches the descriptions of recorded variables. One request of at most [`ASKED_MAX`] names is in
/// progress at a time; the queue grows up to the number of variables.
pub(super) struct Descriptions {
    client: Client,
    wanted: VecDeque<(VariableId, Arc<str>)>,
    asked: Option<Request>,
    /// The request that closes the last described variables.
    closing: Option<PendingCall<Vec<Result<(), Fault>>>>,
    held_until: Tick,
}

struct Request {
    ids: Vec<VariableId>,
    asked: PendingCall<Answer>,
}

type Answer = Vec<Result<Opened, Fault>>;

pub(super) type Described = (VariableId, Arc<Properties>);

impl Descriptions {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            wanted: VecDeque::new(),
            asked: None,
            closing: None,
            held_until: Tick::default(),
        }
    }

    /// Queues a variable; the next [`take`](Self::take) requests its description.
    pub(super) fn want(&mut self, id: VariableId, name: Arc<str>, now: Tick) {
        if !self.are_missing() {
            self.held_until = now.saturating_add(HELD_MAX);
        }
        self.wanted.push_back((id, name));
    }

    /// Empties the queue, because the caller will queue all of it again.
    pub(super) fn clear(&mut self) {
        self.wanted.clear();
    }

    /// Returns true if it pays to delay writing until descriptions arrive.
    pub(super) fn are_awaited(&self, now: Tick) -> bool {
        self.are_missing() && now < self.held_until
    }

    /// Returns true while descriptions are missing.
    pub(super) fn are_missing(&self) -> bool {
        self.asked.is_some() || !self.wanted.is_empty()
    }

    /// Returns the descriptions that have arrived, and requests more. Never waits.
    pub(super) fn take(&mut self) -> Vec<Described> {
        self.ask();
        let answer = self.asked.as_ref().and_then(|one| one.asked.poll());
        answer.map_or_else(Vec::new, |answer| self.answered(answer))
    }

    /// Waits up to `timeout` for descriptions, at most one request's worth. Returns none if none
    /// are missing.
    pub(super) fn take_within(&mut self, timeout: Duration) -> Vec<Described> {
        if let Some(closing) = self.closing.take()
            && closing.wait(timeout).is_none()
        {
            self.closing = Some(closing);
            return Vec::new();
        }
        self.ask();
        let asked = self.asked.as_ref();
        let answer = asked.and_then(|one| one.asked.wait(timeout));
        answer.map_or_else(Vec::new, |answer| self.answered(answer))
    }

    fn ask(&mut self) {
        self.closing = self.closing.take().filter(|one| one.poll().is_none());
        if self.asked.is_some() || self.closing.is_some() || self.wanted.is_empty() {
            return;
        }
        let count = self.wanted.len().min(ASKED_MAX);
        let (ids, names): (Vec<_>, Vec<_>) = self.wanted.drain(..count).unzip();
        let describe = OpenOptions {
            describe: true,
            ..OpenOptions::default()
        };
        // If the request fails, the variables are recorded without descriptions.
        let asked = self.client.open(&names, describe).ok();
        self.asked = asked.map(|asked| Request { ids, asked });
    }

    fn answered(&mut self, answer: Result<Answer, CallError>) -> Vec<Described> {
        let ids = self.asked.take().map(|request| request.ids);
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
            // It fails only if the client is closed, and then no variables are open.
            self.closing = self.client.close_variables(&variables).ok();
        }
        described
    }
}
