//! The provider role: this client is the source of variables of the engine, like an I/O server in
//! its own process.
//!
//! ```text
//! provide(NAME) --> PROVIDE, again on every connection
//! engine --> Bind: which variables, from which items     --> take_provider_event
//!            Write, Read: orders for the devices         -->      "      --> answer_provider
//! publish --> PUBLISH, within the write credit
//! ```
//!
//! Unanswered writes and reads end with the connection, and the engine reports an unknown outcome
//! to their callers. On the next connection, the engine binds every variable again, and the
//! provider must publish every value again.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_proto::message::provider::{
    ProviderAnswer, ProviderAnswersBuilder, ProviderBind, ProviderOutcome, ProviderRequest,
    ReadBack,
};
use trunkline_proto::message::write::{self, WriteBuilder, WriteOptions};
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::wire::{Reader, decode_value, encode_value};
use trunkline_types::{Access, DataType, Quality, Tick, Timestamp, Value};

use crate::ask::{OwnRequest, Provide};
use crate::client_state::ClientState;
use crate::table::NumberMap;
use crate::writes::Writes;

/// Maximum number of values that wait to be sent. Above it, the oldest value is dropped and
/// counted.
const WAITING_MAX: usize = 65_536;
/// Time from a refusal of the role to the next request for it. The name may be free by then.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// An event of a provider. Events arrive in the order in which they occurred.
#[derive(Clone, PartialEq, Debug)]
pub enum ProviderEvent {
    /// The engine has accepted the provider. Binds follow.
    Provided,
    /// The engine has refused the provider. The client repeats the request after 1 s.
    Refused(Fault),
    /// The connection is lost. All binds, and all unanswered writes and reads, have ended.
    Disconnected,
    /// The provider must deliver this variable from now on.
    Bind {
        /// The variable's handle, which publications of its values contain.
        handle: u32,
        /// The type of the variable's values.
        data_type: DataType,
        /// The access that clients have to the variable.
        access: Access,
        /// The item of the device that supplies the variable's values.
        item: String,
    },
    /// The variable was removed. The provider must no longer deliver it.
    Unbind {
        /// The variable's handle.
        handle: u32,
    },
    /// A value to write to the device.
    Write {
        /// Identifies the write. The answer must contain it.
        ticket: u64,
        /// The variable's handle.
        handle: u32,
        /// The value to write.
        value: Value,
    },
    /// A request for a fresh value, which the answer must contain.
    Read {
        /// Identifies the read. The answer must contain it.
        ticket: u64,
        /// The variable's handle.
        handle: u32,
    },
}

/// A provider's reply to a write or a read.
#[derive(Clone, PartialEq, Debug)]
pub enum ProviderReply {
    /// The provider has carried out the order, and the device has this value now.
    Applied {
        /// The value of the device.
        value: Value,
        /// The quality of the value.
        quality: Quality,
        /// The time at which the value was read; `None` is the current time.
        source_timestamp: Option<Timestamp>,
    },
    /// The provider has not carried out the order, for this reason.
    Refused(String),
    /// The outcome is unknown, for this reason.
    Unknown(String),
}

/// A value published by a provider.
#[derive(Clone, PartialEq, Debug)]
pub struct Publication {
    /// The variable's handle, from `ProviderEvent::Bind`.
    pub handle: u32,
    /// The raw value, which has the variable's type. With `None`, only the quality changes.
    pub value: Option<Value>,
    /// The quality of the value.
    pub quality: Quality,
    /// The time of measurement; `None` is the current time.
    pub source_timestamp: Option<Timestamp>,
}

/// The provider role, with its queued events, values and answers.
#[derive(Debug, Default)]
pub(crate) struct ProviderRole {
    name: Option<String>,
    /// True once the engine has accepted the role on this connection.
    is_provided: bool,
    pub(crate) retry_at: Option<Tick>,
    types: NumberMap<u32, DataType>,
    pub(crate) events: VecDeque<ProviderEvent>,
    publications: VecDeque<Publication>,
    answers: Vec<(u64, ProviderReply)>,
    /// Number of values dropped because the queue was full.
    pub(crate) lost: u64,
    /// Number of values that the engine refused.
    pub(crate) refused: u64,
}

impl ProviderRole {
    /// Makes this client the source of every variable whose `source` begins with `name` and a
    /// colon.
    pub(crate) fn provide(&mut self, base: &mut ClientState, name: &str) {
        self.name = Some(name.to_owned());
        if base.connection.is_open() {
            self.restore(base);
        }
        base.changes += 1;
    }

    /// Requests the role, on a new connection or after a refusal.
    pub(crate) fn restore(&mut self, base: &mut ClientState) {
        self.retry_at = None;
        if let Some(name) = self.name.clone() {
            base.own_requests.push(OwnRequest::Provide(Provide(name)));
        }
    }

    pub(crate) fn publish(&mut self, base: &mut ClientState, publication: Publication) {
        if !self.is_provided {
            return;
        }
        if self.publications.len() >= WAITING_MAX {
            self.publications.pop_front();
            self.lost += 1;
        }
        self.publications.push_back(publication);
        base.changes += 1;
    }

    pub(crate) fn answer(&mut self, base: &mut ClientState, ticket: u64, reply: ProviderReply) {
        if self.is_provided {
            self.answers.push((ticket, reply));
            base.changes += 1;
        }
    }

    pub(crate) fn handle_timeout(&mut self, base: &mut ClientState, now: Tick) {
        if self.retry_at.is_some_and(|due| due <= now) {
            self.restore(base);
        }
    }

    pub(crate) fn connection_lost(&mut self) {
        if self.name.is_none() {
            return;
        }
        self.events.clear();
        self.events.push_back(ProviderEvent::Disconnected);
        self.publications.clear();
        self.answers.clear();
        self.types.clear();
        (self.is_provided, self.retry_at) = (false, None);
    }

    /// Handles the engine's answer to the request for the role. `refused` is `None` if the engine
    /// accepts.
    pub(crate) fn answered(&mut self, base: &mut ClientState, refused: Option<Fault>) {
        self.events.push_back(match refused {
            None => {
                self.is_provided = true;
                ProviderEvent::Provided
            }
            Some(fault) => {
                let now = base.connection.last_input;
                self.retry_at = now.map(|now| now.saturating_add(RETRY_DELAY));
                ProviderEvent::Refused(fault)
            }
        });
        base.changes += 1;
    }

    pub(crate) fn handle_bind(
        &mut self,
        base: &mut ClientState,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        for bound in ProviderBind::decode(frame)? {
            let bound = bound?;
            self.types.insert(bound.handle, bound.data_type.clone());
            self.events.push_back(ProviderEvent::Bind {
                handle: bound.handle,
                data_type: bound.data_type,
                access: bound.access,
                item: bound.item.to_owned(),
            });
        }
        base.changes += 1;
        Ok(())
    }

    pub(crate) fn handle_write(
        &mut self,
        base: &mut ClientState,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        for write in write::Writes::decode(frame)? {
            let write = write?;
            let data_type = self.types.get(&write.handle);
            let value = data_type
                .and_then(|data_type| decode_value(data_type, &mut Reader::new(write.value)).ok());
            let (ticket, handle) = (write.write, write.handle);
            match value {
                Some(value) => self.events.push_back(ProviderEvent::Write {
                    ticket,
                    handle,
                    value,
                }),
                None => {
                    let sentence = "it is not bound to this variable".to_owned();
                    let refused = ProviderReply::Refused(sentence);
                    self.answers.push((ticket, refused));
                }
            }
        }
        base.changes += 1;
        Ok(())
    }

    pub(crate) fn handle_request(
        &mut self,
        base: &mut ClientState,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        let handles = ProviderRequest::decode(frame)?;
        let mut ticket = handles.head().first_ticket;
        for handle in handles {
            let handle = handle?;
            let event = ProviderEvent::Read { ticket, handle };
            self.events.push_back(event);
            ticket = ticket.wrapping_add(1);
        }
        base.changes += 1;
        Ok(())
    }

    /// Returns true if answers or values are waiting to be sent.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.answers.is_empty() || !self.publications.is_empty()
    }

    /// Appends the answers, then a PUBLISH frame of about `page` bytes within the write credit.
    /// Returns false if there was nothing to append.
    pub(crate) fn send(&mut self, writes: &mut Writes, page: usize, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let mut bytes = Vec::new();
        let answers = std::mem::take(&mut self.answers);
        let mut frame = ProviderAnswersBuilder::begin(out, 0, &());
        for (ticket, reply) in &answers {
            frame.push(&ProviderAnswer {
                ticket: *ticket,
                outcome: outcome(reply, &mut bytes),
            });
        }
        frame.finish(false);
        let mut frame = WriteBuilder::begin_publish(out, writes.next_write());
        while frame.len_bytes() < page && writes.has_credit() {
            let Some(publication) = self.publications.pop_front() else {
                break;
            };
            bytes.clear();
            if let Some(value) = &publication.value {
                encode_value(value, &mut bytes);
            }
            let options = WriteOptions {
                source_timestamp: publication.source_timestamp,
                quality: Some(publication.quality),
                raw: true,
                ..WriteOptions::default()
            };
            frame.push(publication.handle, &options, &bytes);
            writes.sent_publication(publication.handle, bytes.len());
        }
        frame.finish();
        out.len() > start
    }

    pub(crate) fn refused(&mut self, base: &mut ClientState, handle: u32, code: FaultCode) {
        self.refused += 1;
        // Handles are not used again within an epoch, so no value for this handle can be delivered
        // any more.
        if code == FaultCode::Gone && self.types.remove(&handle).is_some() {
            self.events.push_back(ProviderEvent::Unbind { handle });
            base.changes += 1;
        }
    }
}

fn outcome<'b>(reply: &'b ProviderReply, bytes: &'b mut Vec<u8>) -> ProviderOutcome<'b> {
    match reply {
        ProviderReply::Refused(sentence) => ProviderOutcome::Refused(trunkline_proto::FaultRef {
            code: FaultCode::ProviderRefused,
            sentence,
        }),
        ProviderReply::Unknown(sentence) => ProviderOutcome::Unknown(trunkline_proto::FaultRef {
            code: FaultCode::ProviderUnsure,
            sentence,
        }),
        ProviderReply::Applied {
            value,
            quality,
            source_timestamp,
        } => {
            bytes.clear();
            encode_value(value, bytes);
            ProviderOutcome::Applied(ReadBack {
                source_timestamp: *source_timestamp,
                quality: Some(*quality),
                value: Some(bytes),
            })
        }
    }
}
