//! Faults that this crate itself reports.

use trunkline_proto::{Fault, FaultCode, Features};

/// Creates the fault for a failed allocation.
pub(crate) fn out_of_memory(bytes: usize) -> Fault {
    let sentence = format!(
        "the engine's machine gives it no {bytes} bytes of memory for this; try again later, or \
         give the engine more memory"
    );
    Fault::new(FaultCode::MemoryFull, sentence)
}

/// Creates the fault for a request that uses a feature which the client did not offer.
pub(crate) fn not_agreed(what: &str, feature: Features) -> Fault {
    let sentence = format!(
        "{what} belongs to the feature {:#x}, which was not agreed on; offer it in HELLO",
        feature.to_bits()
    );
    Fault::new(FaultCode::NotSupported, sentence)
}

/// Creates the fault for an order whose audit entry cannot be stored; the audit of orders must be
/// complete.
pub(crate) fn audit_unstored() -> Fault {
    let sentence = "the engine cannot store the entry that this order needs in its audit; \
                    `trunkline limits` says why: make room for the store, then try again";
    Fault::new(FaultCode::StoreFailed, sentence)
}
