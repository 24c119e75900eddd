//! Converts the engine's errors into protocol faults.

use trunkline_engine::{AccessError, Refusal, UnknownCause};
use trunkline_proto::{Fault, FaultCode, Features};

/// The fault of a variable that could not be opened, read or subscribed.
pub(crate) fn of_access(error: &AccessError) -> Fault {
    let code = match error {
        AccessError::UnknownName { .. } => FaultCode::UnknownName,
        AccessError::UnknownField { .. } => FaultCode::UnknownField,
        AccessError::InvalidName(_) => FaultCode::BadName,
        AccessError::NotReadable => FaultCode::NotReadable,
        AccessError::Denied => FaultCode::Denied,
        AccessError::Gone => FaultCode::Gone,
        AccessError::UnknownHandle { .. } => FaultCode::UnknownHandle,
        AccessError::Limit { .. } => FaultCode::LimitReached,
        AccessError::MemoryFull { .. } => FaultCode::MemoryFull,
        AccessError::Contract(_) => FaultCode::BadRequest,
        _ => FaultCode::Internal,
    };
    Fault::new(code, error.to_string())
}

/// The fault of a failed allocation.
pub(crate) fn out_of_memory(bytes: usize) -> Fault {
    let sentence = format!(
        "the engine's machine gives it no {bytes} bytes of memory for this; try again later, or \
         give the engine more memory"
    );
    Fault::new(FaultCode::MemoryFull, sentence)
}

/// The fault of a request that uses a feature the client did not offer.
pub(crate) fn not_agreed(what: &str, feature: Features) -> Fault {
    let sentence = format!(
        "{what} belongs to the feature {:#x}, which was not agreed on; offer it in HELLO",
        feature.to_bits()
    );
    Fault::new(FaultCode::NotSupported, sentence)
}

/// The fault of an order whose audit entry cannot be stored; the audit of orders must be complete.
pub(crate) fn audit_unstored() -> Fault {
    let sentence = "the engine cannot store the entry that this order needs in its audit; \
                    `trunkline limits` says why: make room for the store, then try again";
    Fault::new(FaultCode::StoreFailed, sentence)
}

/// The fault of a refused write.
pub(crate) fn of_refusal(refusal: &Refusal) -> Fault {
    let code = match refusal {
        Refusal::ReadOnly => FaultCode::NotWritable,
        Refusal::Denied => FaultCode::Denied,
        Refusal::WrongType { .. } => FaultCode::WrongType,
        Refusal::InvalidValue(_) | Refusal::Length { .. } => FaultCode::InvalidValue,
        Refusal::OutOfRange { .. } | Refusal::Scaling(_) => FaultCode::OutOfRange,
        Refusal::TooLarge { .. } | Refusal::GroupTooLarge { .. } => FaultCode::TooLarge,
        Refusal::Leased { .. } => FaultCode::Leased,
        Refusal::NotLeased => FaultCode::NotLeased,
        Refusal::SingleWriter { .. } => FaultCode::SingleWriter,
        Refusal::Group { .. } => FaultCode::GroupRefused,
        Refusal::NotGroupable { .. } => FaultCode::NotGroupable,
        Refusal::TwiceInGroup => FaultCode::TwiceInGroup,
        Refusal::UnknownHandle { .. } => FaultCode::UnknownHandle,
        Refusal::Late { .. } => FaultCode::Late,
        Refusal::Gone => FaultCode::Gone,
        Refusal::NoMemory(_) => FaultCode::MemoryFull,
        Refusal::Conflict { .. } => FaultCode::Conflict,
        Refusal::Forced { .. } => FaultCode::Forced,
        Refusal::NotForced => FaultCode::NotForced,
        Refusal::Unbound { .. } => FaultCode::AliasUnbound,
        // The target's refusal, in the target's words.
        Refusal::Target { refusal, .. } => of_refusal(refusal).code,
        Refusal::NoValue => FaultCode::NoValue,
        Refusal::AuditFull => FaultCode::StoreFailed,
        Refusal::LibraryStopped => FaultCode::LibraryStopped,
        Refusal::ProviderBusy { .. } => FaultCode::Overloaded,
        Refusal::Provider { .. } => FaultCode::ProviderRefused,
        Refusal::ProviderGone { .. } => FaultCode::ProviderGone,
        _ => FaultCode::Internal,
    };
    Fault::new(code, refusal.to_string())
}

/// The fault of a write whose outcome is unknown.
pub(crate) fn of_unknown(cause: &UnknownCause) -> Fault {
    let code = match cause {
        UnknownCause::ProviderTimedOut { .. } => FaultCode::TimedOut,
        UnknownCause::ProviderGone { .. } => FaultCode::ProviderGone,
        UnknownCause::Provider { .. } => FaultCode::ProviderUnsure,
        UnknownCause::ReadBack { .. } => FaultCode::InvalidValue,
        UnknownCause::ReadBackMemory { .. } => FaultCode::MemoryFull,
        _ => FaultCode::Internal,
    };
    Fault::new(code, cause.to_string())
}
