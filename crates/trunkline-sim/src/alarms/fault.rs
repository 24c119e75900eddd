//! Defines the faults of the simulation of alarms.

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fault {
    Kill,
    PowerLoss,
    Restart,
    Full,
    UnknownOutcome,
    Pause,
    Clock,
    Redeploy,
    RedeployCut,
    Disconnect,
    Cut,
    Silence,
}

/// All kinds of faults.
pub const FAULTS: &[Fault] = &[
    Fault::Kill,
    Fault::PowerLoss,
    Fault::Restart,
    Fault::Full,
    Fault::UnknownOutcome,
    Fault::Pause,
    Fault::Clock,
    Fault::Redeploy,
    Fault::RedeployCut,
    Fault::Disconnect,
    Fault::Cut,
    Fault::Silence,
];

impl Fault {
    /// Returns a description of the fault for the report.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Kill => "the engine is killed, in half of the cases within a write to its store",
            Self::PowerLoss => "power is lost within a write to the store",
            Self::Restart => "the engine stops in an orderly way and starts again",
            Self::Full => "the store's disk is full",
            Self::UnknownOutcome => "the store reports a failure after it has stored a step",
            Self::Pause => "the engine's process is paused",
            Self::Clock => "the machine's clock is set",
            Self::Redeploy => "the library is replaced by one with other alarms",
            Self::RedeployCut => "the engine is killed while a library is replaced",
            Self::Disconnect => "a subscriber disconnects, and begins again",
            Self::Cut => "a client's connection is closed or reset at any byte",
            Self::Silence => "a client's connection is silent, without notice to either end",
        }
    }
}
