//! Creates the faults that this crate reports itself.

use trunkline_proto::{Fault, FaultCode, Features};

/// Creates the fault for a failed allocation.
pub(crate) fn out_of_memory(bytes: usize) -> Fault {
    let sentence = format!(
        "the engine cannot allocate {bytes} bytes of memory for this; try again later, or give the \
         engine more memory"
    );
    Fault::new(FaultCode::MemoryFull, sentence)
}

/// Creates the fault for a request whose feature client and engine have not agreed on.
pub(crate) fn not_agreed(what: &str, feature: Features) -> Fault {
    let sentence = format!(
        "{what} needs the feature {:#x}, which client and engine have not agreed on; offer it in HELLO",
        feature.to_bits()
    );
    Fault::new(FaultCode::NotSupported, sentence)
}

/// Creates the fault for an order whose audit entry cannot be stored. The order is then refused,
/// because the audit trail of orders must be complete.
pub(crate) fn audit_unstored() -> Fault {
    let sentence = "the engine cannot store the audit entry for this request; free some space for \
                    its store, then try again (`trunkline limits` shows the cause)";
    Fault::new(FaultCode::StoreFailed, sentence)
}
