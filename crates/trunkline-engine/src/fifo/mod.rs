//! The memory of real-time FIFOs: elements, and the sides that threads write and read.
//!
//! - `ends`: the two sides of a FIFO.
//! - `layout`: conversion between an element's words and the value's wire form; `buffers` holds long
//!   values on the way.
//! - `newest`: the newest element of a FIFO that its readers empty, for observers.

pub(crate) mod buffers;
mod ends;
mod layout;
pub(crate) mod newest;

use trunkline_ring::{Fifo as Ring, FifoReader, Reader, RtCell};
use trunkline_types::fifo::FifoElement;
use trunkline_types::{Fifo, Properties, Scope};

pub use self::ends::RtWrite;
pub(crate) use self::ends::{ReadSide, ReaderFifo, WriteSide};
use self::layout::Layout;
use self::newest::Newest;
use crate::outcome::Refusal;
use crate::sync::{Arc, OnceLock};
use crate::update::Encoded;

#[derive(Debug)]
pub(crate) struct RealTime {
    pub(crate) layout: Layout,
    element: FifoElement,
    /// The only FIFO of a single-process variable. Hosted variables have FIFOs at their endpoints.
    pub(crate) own: Option<Own>,
}

/// The FIFO shared by all endpoints of a single-process variable.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) target: Target,
    pub(crate) newest: Arc<Newest>,
    /// The pump's place for it, registered by the first writer. Several places would publish a
    /// value twice.
    pub(crate) mark: OnceLock<u32>,
}

#[derive(Clone, Debug)]
pub(crate) enum Target {
    Single(Arc<RtCell>),
    Multi(Arc<Ring>),
}
impl RealTime {
    pub(crate) fn new(properties: &Properties) -> Option<Box<Self>> {
        let layout = Layout::new(properties).ok()??;
        let element = FifoElement::of(properties).ok()??;
        let own = (properties.scope == Scope::Process).then(|| Own {
            target: Target::new(properties.fifo, &layout),
            newest: Arc::default(),
            mark: OnceLock::new(),
        });
        Some(Box::new(Self {
            layout,
            element,
            own,
        }))
    }

    /// Checks that a value in wire form has the number of elements that the FIFO takes (SP-22).
    pub(crate) fn check_length(&self, bytes: &[u8]) -> Result<(), Refusal> {
        length_of(&self.element, bytes)
    }
}

/// Bytes of the FIFO that `properties` configure; 0 if there is none.
pub(crate) fn fifo_bytes(properties: &Properties) -> usize {
    // A hosted variable has FIFOs only at the endpoints of programs in this process.
    if properties.scope != Scope::Process {
        return 0;
    }
    let Ok(Some(element)) = FifoElement::of(properties) else {
        return 0;
    };
    let slots = match properties.fifo {
        Fifo::Multi { capacity, .. } => capacity as usize,
        Fifo::Single { .. } | Fifo::Off => SINGLE_SLOTS,
    };
    // Each slot has a sequence number as well.
    let slot = element.words().saturating_add(1).saturating_mul(8);
    slot.saturating_mul(slots)
}

const SINGLE_SLOTS: usize = 4;

/// Checks that a value in wire form has the number of elements of the FIFO that `properties`
/// configure, if any (SP-22).
pub(crate) fn check_length(properties: &Properties, value: &Encoded) -> Result<(), Refusal> {
    match FifoElement::of(properties) {
        Ok(Some(element)) => length_of(&element, value.as_slice()),
        _ => Ok(()),
    }
}

fn length_of(element: &FifoElement, bytes: &[u8]) -> Result<(), Refusal> {
    element
        .check_length(bytes)
        .map_err(|given| Refusal::Length {
            expected: element.length as u64,
            given,
        })
}

impl Target {
    pub(crate) fn new(fifo: Fifo, layout: &Layout) -> Self {
        let words = layout.words();
        match fifo {
            Fifo::Multi { capacity, .. } => {
                Target::Multi(Arc::new(Ring::new(capacity.max(1) as usize, words)))
            }
            Fifo::Single { .. } | Fifo::Off => Target::Single(Arc::new(RtCell::new(words))),
        }
    }

    pub(crate) fn reader(&self) -> ReadSide {
        match self {
            Target::Single(cell) => ReadSide::Single(Reader::new(Arc::clone(cell))),
            Target::Multi(ring) => ReadSide::Multi(FifoReader::new(Arc::clone(ring))),
        }
    }
}
