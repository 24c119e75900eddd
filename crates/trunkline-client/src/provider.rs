//! The provider role: this client is the source of variables of the engine, like an I/O server in a
//! separate process.
//!
//! ```text
//! provide(NAME) --> PROVIDE, again on every connection
//! engine --> Bind: which variables, from which items     --> take_provider_event
//!            Write, Read: what is wanted of the devices  -->      "      --> answer_provider
//! publish --> PUBLISH, within the write credit
//! ```
//!
//! Unanswered writes and reads end with the connection: the engine reports their outcome to their
//! callers as unknown. On the next connection the engine binds every variable again, and the
//! provider must publish every value again.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_proto::message::outcome::WriteAnswer;
use trunkline_proto::message::provider::{
    ProviderAnswer, ProviderAnswersBuilder, ProviderBind, ProviderOutcome, ProviderRequest,
    ReadBack,
};
use trunkline_proto::message::write::{WriteBuilder, WriteOptions, Writes};
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::wire::{Reader, decode_value, encode_value};
use trunkline_types::{Access, DataType, Quality, Tick, Timestamp, Value};

use crate::client::ClientCore;
use crate::request::Provide;
use crate::table::NumberMap;

/// Maximum number of values waiting to be sent. Beyond it, the oldest is dropped and counted.
const WAITING_MAX: usize = 65_536;
/// Time between a refusal and the next request for the role, because the name may be free by then.
const RETRY: Duration = Duration::from_secs(1);

/// An event of a provider. Events are delivered in the order in which they occurred.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ProviderEvent {
    /// The engine has accepted the role; binds follow.
    Provided,
    /// The engine does not accept the role. The client asks again after 1 s.
    Refused(Fault),
    /// The connection is lost, and with it every bind and every unanswered write and read.
    Disconnected,
    /// The provider must deliver this variable from now on.
    Bind {
        /// The variable's handle, to be given when publishing.
        handle: u32,
        /// The type of its values.
        data_type: DataType,
        /// The access that clients have to it.
        access: Access,
        /// The device item to deliver it from.
        item: String,
    },
    /// The variable is gone, and its values are no longer wanted.
    Unbind {
        /// The variable's handle.
        handle: u32,
    },
    /// A value to write to the device.
    Write {
        /// Identifies the write in the answer.
        ticket: u64,
        /// The variable's handle.
        handle: u32,
        /// The value to write.
        value: Value,
    },
    /// A request for a fresh value, to be given as the answer.
    Read {
        /// Identifies the read in the answer.
        ticket: u64,
        /// The variable's handle.
        handle: u32,
    },
}

/// A provider's answer to a write or a read.
#[derive(Clone, PartialEq, Debug)]
pub enum ProviderReply {
    /// Done; the device now holds this value.
    Applied {
        /// The value that the device holds.
        value: Value,
        /// The quality of the value.
        quality: Quality,
        /// The time at which it was read; `None` means now.
        source_timestamp: Option<Timestamp>,
    },
    /// Not done, with the reason.
    Refused(String),
    /// It is not known whether it was done, with the reason.
    Unknown(String),
}

/// A value published by a provider.
#[derive(Clone, PartialEq, Debug)]
pub struct Publication {
    /// The variable's handle, from `ProviderEvent::Bind`.
    pub handle: u32,
    /// The raw value, of the variable's type. `None` changes only the quality.
    pub value: Option<Value>,
    /// The quality of the value.
    pub quality: Quality,
    /// The time of measurement; `None` means now.
    pub source_timestamp: Option<Timestamp>,
}

/// The provider role, with its queued events, values and answers.
#[derive(Debug, Default)]
pub(crate) struct ProviderRole {
    name: Option<String>,
    /// True once the engine has accepted the role on this connection.
    is_provided: bool,
    retry_at: Option<Tick>,
    types: NumberMap<u32, DataType>,
    events: VecDeque<ProviderEvent>,
    publications: VecDeque<Publication>,
    answers: Vec<(u64, ProviderReply)>,
    /// Number of values dropped because the queue was full.
    lost: u64,
    refused: u64,
}

impl ClientCore {
    /// Becomes the source of every variable whose `source` begins with `name` and a colon, on this
    /// connection and all later ones. The results arrive through
    /// [`take_provider_event`](Self::take_provider_event).
    pub fn provide(&mut self, name: &str) {
        self.provider.name = Some(name.to_owned());
        if self.connection.is_open() {
            self.ask_to_provide();
        }
        self.changes += 1;
    }

    pub(crate) fn ask_to_provide(&mut self) {
        self.provider.retry_at = None;
        if let Some(name) = self.provider.name.clone() {
            self.requests.push(Provide(name));
        }
    }

    /// Takes the next event of the provider.
    pub fn take_provider_event(&mut self) -> Option<ProviderEvent> {
        self.provider.events.pop_front()
    }

    /// Sends a value as soon as the write credit allows. Does nothing without the role.
    pub fn publish(&mut self, publication: Publication) {
        let role = &mut self.provider;
        if !role.is_provided {
            return;
        }
        if role.publications.len() >= WAITING_MAX {
            role.publications.pop_front();
            role.lost += 1;
        }
        role.publications.push_back(publication);
        self.changes += 1;
    }

    /// Answers a write or a read. Does nothing without the role: tickets of an earlier connection
    /// are no longer valid.
    pub fn answer_provider(&mut self, ticket: u64, reply: ProviderReply) {
        if self.provider.is_provided {
            self.provider.answers.push((ticket, reply));
            self.changes += 1;
        }
    }

    /// Returns the number of values dropped because the connection was too slow, and the number of
    /// values that the engine refused.
    pub fn provider_losses(&self) -> (u64, u64) {
        (self.provider.lost, self.provider.refused)
    }

    /// Returns the time to ask for the role again.
    pub(crate) fn provider_due(&self) -> Option<Tick> {
        self.provider.retry_at
    }

    pub(crate) fn provider_timeout(&mut self, now: Tick) {
        if self.provider.retry_at.is_some_and(|due| due <= now) {
            self.ask_to_provide();
        }
    }

    pub(crate) fn provider_disconnected(&mut self) {
        let role = &mut self.provider;
        if role.name.is_none() {
            return;
        }
        role.events.clear();
        role.events.push_back(ProviderEvent::Disconnected);
        role.publications.clear();
        role.answers.clear();
        role.types.clear();
        (role.is_provided, role.retry_at) = (false, None);
    }

    /// Handles the engine's answer to the request for the role; `None` accepts it.
    pub(crate) fn provide_answered(&mut self, refused: Option<Fault>) {
        let role = &mut self.provider;
        role.events.push_back(match refused {
            None => {
                role.is_provided = true;
                ProviderEvent::Provided
            }
            Some(fault) => {
                role.retry_at = self.last_input.map(|now| now.saturating_add(RETRY));
                ProviderEvent::Refused(fault)
            }
        });
        self.changes += 1;
    }

    pub(crate) fn handle_provider_bind(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        for bound in ProviderBind::decode(frame)? {
            let bound = bound?;
            self.provider
                .types
                .insert(bound.handle, bound.data_type.clone());
            self.provider.events.push_back(ProviderEvent::Bind {
                handle: bound.handle,
                data_type: bound.data_type,
                access: bound.access,
                item: bound.item.to_owned(),
            });
        }
        self.changes += 1;
        Ok(())
    }

    pub(crate) fn handle_provider_write(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        for write in Writes::decode(frame)? {
            let write = write?;
            let data_type = self.provider.types.get(&write.handle);
            let value = data_type
                .and_then(|data_type| decode_value(data_type, &mut Reader::new(write.value)).ok());
            let (ticket, handle) = (write.write, write.handle);
            match value {
                Some(value) => self.provider.events.push_back(ProviderEvent::Write {
                    ticket,
                    handle,
                    value,
                }),
                None => {
                    let sentence = "it is not bound to this variable".to_owned();
                    let refused = ProviderReply::Refused(sentence);
                    self.provider.answers.push((ticket, refused));
                }
            }
        }
        self.changes += 1;
        Ok(())
    }

    pub(crate) fn handle_provider_request(&mut self, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let handles = ProviderRequest::decode(frame)?;
        let mut ticket = handles.head().first_ticket;
        for handle in handles {
            let handle = handle?;
            let event = ProviderEvent::Read { ticket, handle };
            self.provider.events.push_back(event);
            ticket = ticket.wrapping_add(1);
        }
        self.changes += 1;
        Ok(())
    }

    /// Appends the answers, then a PUBLISH frame of about `page` bytes as far as the credit
    /// permits. Returns false if there was nothing to append.
    pub(crate) fn send_provider(&mut self, page: usize, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let mut bytes = Vec::new();
        let answers = std::mem::take(&mut self.provider.answers);
        let mut frame = ProviderAnswersBuilder::begin(out, 0, &());
        for (ticket, reply) in &answers {
            frame.push(&ProviderAnswer {
                ticket: *ticket,
                outcome: outcome(reply, &mut bytes),
            });
        }
        frame.finish(false);
        let mut frame = WriteBuilder::begin_publish(out, self.writes.next_write());
        while frame.len_bytes() < page && self.writes.has_credit() {
            let Some(publication) = self.provider.publications.pop_front() else {
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
            self.writes
                .sent_publication(publication.handle, bytes.len());
        }
        frame.finish();
        out.len() > start
    }

    /// Handles the outcome of a published value.
    pub(crate) fn published(&mut self, handle: u32, answer: &WriteAnswer<'_>) {
        let WriteAnswer::Refused(fault) = answer else {
            return;
        };
        let role = &mut self.provider;
        role.refused += 1;
        // Handles are not reused within an epoch, so nothing more can be delivered.
        if fault.code == FaultCode::Gone && role.types.remove(&handle).is_some() {
            role.events.push_back(ProviderEvent::Unbind { handle });
            self.changes += 1;
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
