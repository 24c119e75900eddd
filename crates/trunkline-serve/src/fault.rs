//! The engine's errors in the protocol's words.

use trunkline_engine::{AccessError, Refusal, UnknownCause};
use trunkline_proto::{Fault, FaultCode, Features};

/// Why a variable could not be opened, read or subscribed.
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

/// The system gives no memory.
pub(crate) fn out_of_memory(bytes: usize) -> Fault {
    let sentence = format!(
        "the engine's machine gives it no {bytes} bytes of memory for this; try again later, or \
         give the engine more memory"
    );
    Fault::new(FaultCode::MemoryFull, sentence)
}

/// What was asked belongs to a feature that the client did not offer.
pub(crate) fn not_agreed(what: &str, feature: Features) -> Fault {
    let sentence = format!(
        "{what} belongs to the feature {:#x}, which was not agreed on; offer it in HELLO",
        feature.to_bits()
    );
    Fault::new(FaultCode::NotSupported, sentence)
}

/// The audit of orders has to be complete, and its entries cannot be stored.
pub(crate) fn audit_unstored() -> Fault {
    let sentence = "the engine cannot store the entry that this order needs in its audit; \
                    `trunkline limits` says why: make room for the store, then try again";
    Fault::new(FaultCode::StoreFailed, sentence)
}

/// Why a write was refused.
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
        // What its target says, in the target's words.
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

/// Why the outcome of a write is unknown.
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
