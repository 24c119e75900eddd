//! The real-time side of a variable: cells and FIFOs that time-critical threads use without a lock,
//! an allocation or a system call.
//!
//! A single-process variable has exactly one FIFO that all its writers and readers share (SP-11). A
//! hosted variable has one per writer and one per reader (NV-03, NV-04): writers' FIFOs are drained
//! into the write path by [`Engine::pump`](crate::Engine::pump), readers' are filled at commit.
//! Everything is made when the endpoint is, before the program's loop runs (SP-20).
//!
//! # Layout
//! - [`RtWriter`], [`RtReader`] in `endpoint`: what a time-critical thread holds.
//! - `newest`: what a program that only looks sees of a FIFO that its readers empty.
//! - `layout`: an element's words, and the value's wire form from them and back.
//! - `pump`: from writers' FIFOs into the write path, on an ordinary thread; `buffers` is where
//!   long values lie on the way.

mod buffers;
mod endpoint;
mod layout;
mod newest;
mod pump;

use trunkline_ring::{Fifo as Ring, FifoReader, Reader, RtCell};
use trunkline_types::{DataType, Fifo, Properties, Scope};

use crate::outcome::Refusal;
use crate::sync::{Arc, OnceLock};
use crate::update::Encoded;
use endpoint::ReadSide;
pub(crate) use endpoint::ReaderFifo;
pub use endpoint::{RtError, RtRead, RtReader, RtReading, RtWrite, RtWriter};
use layout::Layout;
use newest::Newest;
pub(crate) use pump::Pump;
pub use pump::Pumped;

/// The most words that one element may have: values beyond belong in streams or recordings.
pub const ELEMENT_WORDS_MAX: usize = 1 << 20;
/// The most words that one FIFO may have: 512 MiB, all taken when it is made.
pub const FIFO_WORDS_MAX: usize = 1 << 26;

/// The real-time part of a FIFO-enabled variable.
#[derive(Debug)]
pub(crate) struct RealTime {
    layout: Layout,
    /// The one FIFO of a single-process variable; hosted variables have theirs at the endpoints.
    own: Option<Own>,
}

/// The FIFO that all endpoints of a single-process variable share.
#[derive(Debug)]
struct Own {
    target: Target,
    newest: Arc<Newest>,
    /// The pump's place for it, taken by the first writer: several would publish one value twice.
    mark: OnceLock<u32>,
}

/// Where elements go to and come from.
#[derive(Clone, Debug)]
enum Target {
    Single(Arc<RtCell>),
    Multi(Arc<Ring>),
}
impl RealTime {
    pub(crate) fn new(properties: &Properties) -> Option<Box<Self>> {
        let layout = Layout::new(properties).ok()??;
        let own = (properties.scope == Scope::Process).then(|| Own {
            target: Target::new(properties.fifo, &layout),
            newest: Arc::default(),
            mark: OnceLock::new(),
        });
        Some(Box::new(Self { layout, own }))
    }

    /// Whether a value in wire form has as many elements as the FIFO's have (SP-22).
    pub(crate) fn check_length(&self, bytes: &[u8]) -> Result<(), Refusal> {
        self.layout.check_length(bytes)
    }
}

/// Whether a value in wire form fits the FIFO that `properties` ask for, if they do.
pub(crate) fn check_length(properties: &Properties, value: &Encoded) -> Result<(), Refusal> {
    match Layout::new(properties) {
        Ok(Some(layout)) => layout.check_length(value.as_slice()),
        _ => Ok(()),
    }
}

/// Whether the FIFO that `properties` ask for can be made; the reason if not (SP-08, SP-09, SP-22).
pub(crate) fn check(properties: &Properties) -> Result<(), String> {
    let Some(layout) = Layout::new(properties)? else {
        return Ok(());
    };
    let capacity = match properties.fifo {
        Fifo::Multi { capacity: 0, .. } => {
            return Err(
                "a multi-element FIFO has at least one element; set `fifo.capacity`".into(),
            );
        }
        Fifo::Multi { capacity, .. } => capacity as usize,
        Fifo::Single { .. } | Fifo::Off => 1,
    };
    let words = layout.words();
    if words > ELEMENT_WORDS_MAX {
        return Err(format!(
            "an element of the FIFO may have {ELEMENT_WORDS_MAX} words, not {words}; \
             use a stream or a recording for larger blocks"
        ));
    }
    if words.saturating_mul(capacity) > FIFO_WORDS_MAX {
        return Err(format!(
            "{capacity} elements of {words} words are more than the {FIFO_WORDS_MAX} words that a \
             FIFO may have; make it shorter"
        ));
    }
    Ok(())
}

impl Target {
    fn new(fifo: Fifo, layout: &Layout) -> Self {
        let words = layout.words();
        match fifo {
            Fifo::Multi { capacity, .. } => {
                Target::Multi(Arc::new(Ring::new(capacity.max(1) as usize, words)))
            }
            Fifo::Single { .. } | Fifo::Off => Target::Single(Arc::new(RtCell::new(words))),
        }
    }

    fn reader(&self) -> ReadSide {
        match self {
            Target::Single(cell) => ReadSide::Single(Reader::new(Arc::clone(cell))),
            Target::Multi(ring) => ReadSide::Multi(FifoReader::new(Arc::clone(ring))),
        }
    }
}

/// Whether the type can live in slots of a fixed number of words.
fn is_slot_type(data_type: &DataType) -> bool {
    data_type.fixed_size().is_some()
}
