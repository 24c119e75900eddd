//! The faults of the simulation of history.

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fault {
    Kill,
    PowerLoss,
    Restart,
    Full,
    Clock,
    Redeploy,
    Cut,
    Silence,
    KillBeforeAnswer,
    Damage,
}

/// All kinds of faults that are injected at random; damage comes last.
pub const FAULTS: &[Fault] = &[
    Fault::Kill,
    Fault::PowerLoss,
    Fault::Restart,
    Fault::Full,
    Fault::Clock,
    Fault::Redeploy,
    Fault::Cut,
    Fault::Silence,
    Fault::KillBeforeAnswer,
    Fault::Damage,
];

impl Fault {
    /// Describes the fault in a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Kill => {
                "the engine is killed, in half of the cases within a commit or a move to files"
            }
            Self::PowerLoss => "power is lost within a commit or a move to files",
            Self::Restart => "the engine stops in an orderly way and starts again",
            Self::Full => "the disk has no room, at any byte",
            Self::Clock => "the machine's clock is set",
            Self::Redeploy => "variables are undeployed, deployed again, and change their types",
            Self::Cut => "the subscriber's connection is closed or reset at any byte",
            Self::Silence => "the subscriber's connection is silent, without notice to either end",
            Self::KillBeforeAnswer => {
                "the engine is killed before it answers the subscriber's query"
            }
            Self::Damage => "bits of a file are inverted",
        }
    }
}
