//! Defines the faults of the simulation of streams.

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// A connection is closed or reset at a random byte, and both endpoints are notified.
    Cut,
    /// A connection is cut. One endpoint is notified immediately, and the other one much later, so data in
    /// flight can arrive when there is already another connection.
    HalfCut,
    /// No data arrives in one direction or both, and neither end is notified.
    HalfOpen,
    /// A connection is slow.
    Slow,
    /// All data on a connection is delayed, by a different time in each direction.
    Late,
    /// Connections are refused, or not answered.
    Refuse,
    /// The first bytes of an earlier connection arrive again over a new connection.
    Replay,
    /// A bit is altered in transit.
    Alter,
    /// A process is paused.
    Pause,
    /// A process is killed and started again.
    Kill,
    /// A program does not use its endpoint.
    Idle,
    /// The disk of a journal is full for a while.
    DiskFull,
    /// Writes to the disk of a journal fail for a while.
    DiskFails,
    /// A sync of a journal fails.
    SyncFails,
    /// A machine with a journal loses power.
    PowerFails,
    /// A hostile peer sends requests to a directory continuously and reads no answers.
    Hostile,
    /// An impostor that knows the incarnations of both endpoints connects to one of them as the other.
    Impostor,
}

/// All faults.
pub const FAULTS: &[Fault] = &[
    Fault::Cut,
    Fault::HalfCut,
    Fault::HalfOpen,
    Fault::Slow,
    Fault::Late,
    Fault::Refuse,
    Fault::Replay,
    Fault::Alter,
    Fault::Pause,
    Fault::Kill,
    Fault::Idle,
    Fault::DiskFull,
    Fault::DiskFails,
    Fault::SyncFails,
    Fault::PowerFails,
    Fault::Hostile,
    Fault::Impostor,
];

impl Fault {
    /// Returns a description of the fault for the report.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Cut => "a connection is closed or reset at any byte",
            Self::HalfCut => "one end notices a cut at once, the other late, with late bytes",
            Self::HalfOpen => "silence in one direction or both, without notice to either end",
            Self::Slow => "a connection carries 2 kB/s to 500 kB/s",
            Self::Late => "each direction of a connection is up to 6 s late",
            Self::Refuse => "connections are refused or not answered",
            Self::Replay => "the first bytes of an earlier connection arrive again",
            Self::Alter => "a bit is altered in transit",
            Self::Pause => "a process is paused",
            Self::Kill => "a process is killed and started again",
            Self::Idle => "a program does not use its end",
            Self::DiskFull => "a journal's disk is full",
            Self::DiskFails => "writes to a journal's disk fail",
            Self::SyncFails => "a sync of a journal fails",
            Self::PowerFails => "a machine with a journal loses power",
            Self::Hostile => {
                "a stranger sends requests to a directory continuously and reads no answer"
            }
            Self::Impostor => "an impostor dials an end as its peer, without the secret",
        }
    }
}
