//! The memory of real-time FIFOs: elements, and the ends used by threads.
//!
//! - `ends`: the writing and the reading end of a FIFO.
//! - `layout`: conversion between the words of an element and the wire form of a value.
//! - `buffers`: reusable memory for long values in wire form.
//! - `newest`: the newest element of a FIFO that is emptied by its readers, for observers.

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
pub(crate) struct VariableFifo {
    pub(crate) layout: Layout,
    element: FifoElement,
    /// The only FIFO of a single-process variable. Hosted variables have FIFOs at their endpoints.
    pub(crate) shared: Option<SharedFifo>,
}

/// The FIFO shared by all endpoints of a single-process variable.
#[derive(Debug)]
pub(crate) struct SharedFifo {
    pub(crate) memory: FifoMemory,
    pub(crate) newest: Arc<Newest>,
    /// The FIFO's index in the pump, set by the first writer. A second index would publish each
    /// value twice.
    pub(crate) pump_index: OnceLock<u32>,
}

#[derive(Clone, Debug)]
pub(crate) enum FifoMemory {
    Single(Arc<RtCell>),
    Multi(Arc<Ring>),
}

impl VariableFifo {
    pub(crate) fn new(properties: &Properties) -> Option<Box<Self>> {
        // Cannot fail, because deployment refuses properties that no FIFO can have.
        let layout = Layout::new(properties).ok()??;
        let element = FifoElement::of(properties).ok()??;
        let shared = (properties.scope == Scope::Process).then(|| SharedFifo {
            memory: FifoMemory::new(properties.fifo, &layout),
            newest: Arc::default(),
            pump_index: OnceLock::new(),
        });
        Some(Box::new(Self {
            layout,
            element,
            shared,
        }))
    }

    /// Checks that a value in wire form has the number of elements that the FIFO accepts (SP-22).
    pub(crate) fn check_length(&self, bytes: &[u8]) -> Result<(), Refusal> {
        check_element_length(&self.element, bytes)
    }
}

/// Returns the size of the FIFO that deployment allocates for a single-process variable, in bytes;
/// 0 for other variables.
pub(crate) fn fifo_bytes(properties: &Properties) -> usize {
    // A hosted variable allocates its FIFOs later, one per endpoint.
    if properties.scope != Scope::Process {
        return 0;
    }
    let Ok(Some(element)) = FifoElement::of(properties) else {
        return 0;
    };
    let slots = if let Fifo::Multi { capacity, .. } = properties.fifo {
        capacity as usize
    } else {
        RtCell::SLOTS
    };
    // Each slot also has a sequence number.
    let slot = element.words().saturating_add(1).saturating_mul(8);
    slot.saturating_mul(slots)
}

/// Checks that a value in wire form has the number of elements of the FIFO configured by
/// `properties`, if any (SP-22).
pub(crate) fn check_length(properties: &Properties, value: &Encoded) -> Result<(), Refusal> {
    match FifoElement::of(properties) {
        Ok(Some(element)) => check_element_length(&element, value.as_slice()),
        _ => Ok(()),
    }
}

fn check_element_length(element: &FifoElement, bytes: &[u8]) -> Result<(), Refusal> {
    element
        .check_length(bytes)
        .map_err(|given| Refusal::Length {
            expected: element.length as u64,
            given,
        })
}

impl FifoMemory {
    pub(crate) fn new(fifo: Fifo, layout: &Layout) -> Self {
        let words = layout.words();
        match fifo {
            Fifo::Multi { capacity, .. } => {
                FifoMemory::Multi(Arc::new(Ring::new(capacity.max(1) as usize, words)))
            }
            Fifo::Single { .. } | Fifo::Off => FifoMemory::Single(Arc::new(RtCell::new(words))),
        }
    }

    pub(crate) fn reader(&self) -> ReadSide {
        match self {
            FifoMemory::Single(cell) => ReadSide::Single(Reader::new(Arc::clone(cell))),
            FifoMemory::Multi(ring) => ReadSide::Multi(FifoReader::new(Arc::clone(ring))),
        }
    }
}
