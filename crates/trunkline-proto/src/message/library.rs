//! DEPLOY, ORDER and REPORT: deploying, undeploying, starting and stopping libraries, stopping the
//! engine, and reloading its configuration.
//!
//! ```text
//! DEPLOY   flags u8 | library text | description text
//!          count x ( path text | back varint | [properties] )
//!          flags  1 REPLACE           back 0: properties follow
//!                                          n: same as the n-th latest properties in this frame
//! ```
//!
//! Used only if both ends have the feature ADMINISTRATION. A library is sent in one or more DEPLOY
//! frames of one request, all with the same head; nothing is deployed before the last frame has
//! arrived. With REPLACE, the library may already be deployed; unchanged variables keep their
//! handles. Without FORCE, UNDEPLOY of a library with subscribers is refused. REPORT confirms that an
//! order was carried out, and FAULT reports that it was not. REPORT is sent only when the result is
//! certain to survive a restart. The order to stop the engine, with an empty name, needs the feature
//! ENGINE_ORDERS as well; its REPORT is sent before the engine stops. The order to reload the
//! configuration, with an empty name, needs the feature RELOAD as well.

use trunkline_types::VariableDefinition;
use trunkline_types::wire::{VariablesDecoder, VariablesEncoder, put_str, put_u8};

use super::fields::{Always, Many, fields};
use super::form::{Number, Text, Varint, Whole, forms, numbered};
use super::layout::{FieldValue, record};
use super::single::single_frame;
use crate::decode::{Items, Payload};
use crate::limits::SENTENCE_BYTES_MAX;
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

const REPLACE: u8 = 1;
const FORCE: u8 = 1;

/// Longest name or description of a library, in bytes.
const TEXT_BYTES_MAX: usize = 4 * SENTENCE_BYTES_MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeployHead<'a> {
    /// The library's name, which the engine checks.
    pub library: &'a str,
    pub description: &'a str,
    pub replace: bool,
}

#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct DeployBuilder<'a> {
    frame: FrameWriter<'a>,
    variables: VariablesEncoder,
}

impl<'a> DeployBuilder<'a> {
    pub fn begin(out: &'a mut Vec<u8>, request: u32, head: &DeployHead<'_>) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::Deploy, request);
        let out = frame.payload();
        put_u8(out, if head.replace { REPLACE } else { 0 });
        put_str(out, head.library);
        put_str(out, head.description);
        Self {
            frame,
            variables: VariablesEncoder::default(),
        }
    }

    pub fn push(&mut self, variable: &VariableDefinition) {
        self.variables.put(variable, self.frame.payload());
        self.frame.count_item();
    }

    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame. `more` must be true if further frames of this request follow.
    pub fn finish(self, more: bool) {
        self.frame.finish(more);
    }
}

/// A DEPLOY frame; iterates over the variables.
#[derive(Debug)]
pub struct Deploy<'a> {
    head: DeployHead<'a>,
    items: Items<'a>,
    variables: VariablesDecoder,
}

impl<'a> Deploy<'a> {
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Deploy)?;
        let flags = payload.u8()?;
        let head = DeployHead {
            replace: flags & REPLACE != 0,
            library: payload.text(TEXT_BYTES_MAX)?,
            description: payload.text(TEXT_BYTES_MAX)?,
        };
        Ok(Self {
            head,
            items: Items::new(payload, frame.count(), 2)?,
            variables: VariablesDecoder::default(),
        })
    }

    pub fn head(&self) -> DeployHead<'a> {
        self.head
    }
}

impl Iterator for Deploy<'_> {
    type Item = Result<VariableDefinition, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let variables = &mut self.variables;
        self.items
            .next_with(|payload| payload.read(|reader| variables.take(reader)))
    }
}

/// The action on a deployed library, or on the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LibraryVerb {
    /// Remove its variables.
    Undeploy {
        /// Undeploy even if there are subscribers.
        force: bool,
    },
    /// Allow writes to its variables again.
    Start,
    /// Hold the values of its variables unchanged until it is started.
    Stop,
    /// Stop the engine, in order. The name of the library is empty.
    StopEngine,
    /// Read the configuration files of the engine again. The name of the library is empty.
    ReloadEngine,
}

record! {
    #[derive(Copy, Eq)]
    pub struct LibraryOrder<'a> {
        pub verb: LibraryVerb = Verb,
        pub library: &'a str = Text<TEXT_BYTES_MAX>,
    }
}

single_frame! { Order, LibraryOrder<'a> }

#[derive(Debug)]
pub enum Verb {}

forms! {
    Verb: LibraryVerb, 2,
        |out, verb, _| {
            let (number, flags) = match verb {
                LibraryVerb::Undeploy { force: false } => (1, 0),
                LibraryVerb::Undeploy { force: true } => (1, FORCE),
                LibraryVerb::Start => (2, 0),
                LibraryVerb::Stop => (3, 0),
                LibraryVerb::StopEngine => (4, 0),
                LibraryVerb::ReloadEngine => (5, 0),
            };
            out.extend_from_slice(&[number, flags]);
        },
        |payload, _| Ok(match (payload.u8()?, payload.u8()?) {
            (1, flags) => LibraryVerb::Undeploy { force: flags & FORCE != 0 },
            (2, _) => LibraryVerb::Start,
            (3, _) => LibraryVerb::Stop,
            (4, _) => LibraryVerb::StopEngine,
            (5, _) => LibraryVerb::ReloadEngine,
            (other, _) => return Err(payload.unexpected("a verb from 1 to 5", u64::from(other))),
        }),
        |verb, name, to| {
            let (word, force) = match verb {
                LibraryVerb::Undeploy { force } => ("undeploy", *force),
                LibraryVerb::Start => ("start", false),
                LibraryVerb::Stop => ("stop", false),
                LibraryVerb::StopEngine => ("stop-engine", false),
                LibraryVerb::ReloadEngine => ("reload-engine", false),
            };
            to.field(name, FieldValue::Text(word));
            to.field("force", FieldValue::Flag(force));
        },
        |source, _| match source.number() % 5 {
            0 => LibraryVerb::Start,
            1 => LibraryVerb::Stop,
            2 => LibraryVerb::StopEngine,
            3 => LibraryVerb::ReloadEngine,
            _ => LibraryVerb::Undeploy { force: source.bool() },
        };
}

/// The state of a library after an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LibraryAfter {
    /// The library is no longer deployed.
    #[default]
    Undeployed,
    /// The variables accept writes.
    Running,
    /// The variables keep their values, and writes are refused.
    Stopped,
}

numbered! {
    LibraryAfter, "a state, 0 to 2" {
        Undeployed = 0, "undeployed";
        Running = 1, "running";
        Stopped = 2, "stopped";
    }
}

/// Maximum number of keys of the configuration in each list of a REPORT.
pub const REPORT_KEYS_MAX: usize = 1024;

fields! {
    /// The result of an order: a REPORT frame. The four numbers count variables.
    #[derive(Eq, Default)]
    pub struct LibraryReport {
        /// The library's state after the order.
        1: pub after: LibraryAfter = Always<Number>,
        /// Number of variables that are new, or have a different type, scope or FIFO than before.
        2: pub added: u64 = Always<Varint>,
        /// Number of variables that remained, but with different properties or in a different
        /// state.
        3: pub changed: u64 = Always<Varint>,
        /// Number of unchanged variables.
        4: pub kept: u64 = Always<Varint>,
        /// Number of removed variables.
        5: pub removed: u64 = Always<Varint>,
        /// After a reload: the changed keys of the configuration that take effect, such as
        /// `audit_age`.
        6: pub applied: Vec<String> = Many<REPORT_KEYS_MAX, Whole>,
        /// After a reload: the changed keys and sections of the configuration that take effect when
        /// the engine is started again, such as `listen` and `[[io]] plc1`.
        7: pub restart: Vec<String> = Many<REPORT_KEYS_MAX, Whole>,
    }
}

single_frame! { Report, LibraryReport }
