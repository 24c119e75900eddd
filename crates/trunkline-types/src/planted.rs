//! Bugs that are planted on purpose: the simulator must find every one of them.
//!
//! This module is compiled only with the feature `planted`, which no product build has. The active
//! bug is chosen per thread, so that tests running in parallel can each choose their own.

use std::cell::Cell;

macro_rules! bugs {
    (
        variables { $($(#[doc = $sentence:literal])+ $bug:ident = $name:literal,)* }
        streams { $($(#[doc = $of_stream:literal])+ $stream_bug:ident = $stream_name:literal,)* }
    ) => {
        /// A planted bug.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Bug {
            $($(#[doc = $sentence])+ $bug,)*
            $($(#[doc = $of_stream])+ $stream_bug,)*
        }

        impl Bug {
            /// All bugs of variables.
            pub const ALL: &[Bug] = &[$(Bug::$bug,)*];
            /// All bugs of streams.
            pub const STREAMS: &[Bug] = &[$(Bug::$stream_bug,)*];

            /// The name used on a command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Bug::$bug => $name,)*
                    $(Bug::$stream_bug => $stream_name,)*
                }
            }

            /// A description of the bug, in a sentence.
            pub fn sentence(self) -> &'static str {
                match self {
                    $(Bug::$bug => concat!($($sentence),+).trim_ascii(),)*
                    $(Bug::$stream_bug => concat!($($of_stream),+).trim_ascii(),)*
                }
            }
        }
    };
}

bugs! {
    variables {
    /// The engine clears a mark after it has read the cell, and with it the mark made meanwhile.
    MarkClearedLate = "mark-cleared-late",
    /// Of several consumers that a write marks, only the first is woken.
    LostWake = "lost-wake",
    /// Compare-and-set compares the sequence and not the epoch.
    EpochNotCompared = "epoch-not-compared",
    /// The cursor of a feed moves one entry too far.
    FeedCursor = "feed-cursor",
    /// The update leaves before the answer to the write that made it.
    AnswerAfterUpdate = "answer-after-update",
    /// What was missed while disconnected is not counted at the reconnect.
    LostNotSettled = "lost-not-settled",
    /// A subscription resumes as if it had the update behind the one it has.
    StaleResume = "stale-resume",
    /// Nobody looks at the keep-alive deadline.
    DeadlineNotChecked = "deadline-not-checked",
    /// The client never grants room again for what its program has taken.
    CreditNotReturned = "credit-not-returned",
    /// Of two values that are coalesced, the older one stays.
    OlderValueKept = "older-value-kept",
    /// The last member of a group is not committed.
    GroupTorn = "group-torn",
    /// After a reconnect the client takes another epoch for the same one.
    EpochTakenForSame = "epoch-taken-for-same",
    /// The epoch is the count of starts, which begins again with a restored or new store.
    EpochIsCount = "epoch-is-count",
    /// A write without an answer when the connection broke ends as refused, not as unknown.
    UnknownAsRefused = "unknown-as-refused",
    /// What the buffer of `last:n` drops is not counted.
    DropNotCounted = "drop-not-counted",
    /// A reading that is taken while the connection is down does not say that it is stale.
    StaleNotSaid = "stale-not-said",
    /// A writer's own updates are not marked.
    OwnNotMarked = "own-not-marked",
    /// Some updates are silently dropped between the engine and the client.
    SilentDrop = "silent-drop",
    /// A write whose call has ended is sent on the next connection.
    EndedWriteSent = "ended-write-sent",
    /// A handle of a variable that is gone reaches the one that has its slot now.
    GenerationIgnored = "generation-ignored",
    /// What a session has borrowed for its requests is not given back when it ends.
    BudgetKept = "budget-kept",
    /// Some marks are lost, and nothing else.
    LostMark = "lost-mark",
    }
    streams {
    /// The writer sends one byte more than it has credit for.
    CreditOffByOne = "credit-off-by-one",
    /// The reader never gives credit for what was read.
    CreditNotGiven = "credit-not-given",
    /// What was lost with a connection is not sent again.
    NotSentAgain = "not-sent-again",
    /// After a reconnect what is not acknowledged is sent again, and taken again.
    TakenTwice = "taken-twice",
    /// The reader acknowledges bytes whose frame has begun and that have not come.
    AckedTooEarly = "acked-too-early",
    /// Nobody looks at the checksum of the stream's bytes.
    ChecksumIgnored = "checksum-ignored",
    /// What has arrived counts as read.
    FlushTooEarly = "flush-too-early",
    /// What has been sent and not acknowledged does not count as left behind.
    LeftMiscounted = "left-miscounted",
    /// A successor of a reader begins behind what was written, not behind what was read.
    SuccessorMisplaced = "successor-misplaced",
    /// Nobody looks how long the peer is gone.
    GoneForEver = "gone-for-ever",
    /// Nobody looks whether the peer of a stream is silent.
    SilenceIgnored = "silence-ignored",
    /// A writer's end rests and does not ask its program to be woken.
    RestUntold = "rest-untold",
    /// The journal says that it is on the disk, and is not.
    SyncSkipped = "sync-skipped",
    /// The writer's journal is trimmed behind what was sent, not behind what is safe.
    TrimmedTooEarly = "trimmed-too-early",
    /// What the program is at counts as committed.
    CommittedTooEarly = "committed-too-early",
    /// A write that is out of time has written its first element.
    LateWriteMoves = "late-write-moves",
    /// A read that is out of time gives what there is.
    LateReadMoves = "late-read-moves",
    /// An aborted writer's reader is told that nothing is missing.
    AbortAsEnd = "abort-as-end",
    /// A reader that has everything sees an orderly end although its writer was aborted.
    AbortForgotten = "abort-forgotten",
    /// The directory answers a peer that reads no answers.
    ListedWithoutEnd = "listed-without-end",
    /// Who comes back to a stream is not asked for the secret of the pair.
    SecretNotCompared = "secret-not-compared",
    }
}

thread_local! {
    static ACTIVE: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Activates a bug on this thread, or deactivates it with `None`.
pub fn plant(bug: Option<Bug>) {
    ACTIVE.set(bug);
}

/// Returns true if this bug is active on this thread.
pub fn is(bug: Bug) -> bool {
    ACTIVE.get() == Some(bug)
}
