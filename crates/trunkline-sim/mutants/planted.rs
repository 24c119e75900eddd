//! Bugs that are planted on purpose: the simulator must find every one of them.
//!
//! `cargo xtask mutants` puts this module into `trunkline-types` in a copy of the tree. The active bug
//! is chosen per thread, so that tests running in parallel can each choose their own.

use std::cell::Cell;

macro_rules! bugs {
    (
        variables { $($(#[doc = $sentence:literal])+ $bug:ident = $name:literal,)* }
        streams { $($(#[doc = $of_stream:literal])+ $stream_bug:ident = $stream_name:literal,)* }
        alarms { $($(#[doc = $of_alarm:literal])+ $alarm_bug:ident = $alarm_name:literal,)* }
        history { $($(#[doc = $of_history:literal])+ $history_bug:ident = $history_name:literal,)* }
    ) => {
        /// A planted bug.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Bug {
            $($(#[doc = $sentence])+ $bug,)*
            $($(#[doc = $of_stream])+ $stream_bug,)*
            $($(#[doc = $of_alarm])+ $alarm_bug,)*
            $($(#[doc = $of_history])+ $history_bug,)*
        }

        impl Bug {
            /// All bugs of variables.
            pub const ALL: &[Bug] = &[$(Bug::$bug,)*];
            /// All bugs of streams.
            pub const STREAMS: &[Bug] = &[$(Bug::$stream_bug,)*];
            /// All bugs of alarms.
            pub const ALARMS: &[Bug] = &[$(Bug::$alarm_bug,)*];
            /// All bugs of history.
            pub const HISTORY: &[Bug] = &[$(Bug::$history_bug,)*];

            /// The name used on a command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Bug::$bug => $name,)*
                    $(Bug::$stream_bug => $stream_name,)*
                    $(Bug::$alarm_bug => $alarm_name,)*
                    $(Bug::$history_bug => $history_name,)*
                }
            }

            /// A description of the bug, in a sentence.
            pub fn sentence(self) -> &'static str {
                match self {
                    $(Bug::$bug => concat!($($sentence),+).trim_ascii(),)*
                    $(Bug::$stream_bug => concat!($($of_stream),+).trim_ascii(),)*
                    $(Bug::$alarm_bug => concat!($($of_alarm),+).trim_ascii(),)*
                    $(Bug::$history_bug => concat!($($of_history),+).trim_ascii(),)*
                }
            }
        }
    };
}

bugs! {
    variables {
    /// The engine clears a mark after it has read the cell, and so clears a newer mark too.
    MarkClearedLate = "mark-cleared-late",
    /// Of several consumers that a write marks, only the first is woken.
    LostWake = "lost-wake",
    /// Compare-and-set compares the sequence and not the epoch.
    EpochNotCompared = "epoch-not-compared",
    /// The cursor of a feed moves one entry too far.
    FeedCursor = "feed-cursor",
    /// The update is sent before the answer to the write that caused it.
    AnswerAfterUpdate = "answer-after-update",
    /// Updates missed while disconnected are not counted at the reconnection.
    LostNotSettled = "lost-not-settled",
    /// A subscription resumes as if it already had the update after its last one.
    StaleResume = "stale-resume",
    /// The keep-alive deadline is not checked.
    DeadlineNotChecked = "deadline-not-checked",
    /// The client gives no new credit for what its program has taken.
    CreditNotReturned = "credit-not-returned",
    /// Coalescing keeps the older of two values.
    OlderValueKept = "older-value-kept",
    /// The last member of a group is not committed.
    GroupTorn = "group-torn",
    /// After a reconnection the client does not notice that the epoch has changed.
    EpochTakenForSame = "epoch-taken-for-same",
    /// The epoch is the count of starts, which begins again with a restored or new store.
    EpochIsCount = "epoch-is-count",
    /// A write without an answer when the connection broke ends as refused, not as unknown.
    UnknownAsRefused = "unknown-as-refused",
    /// Updates that the buffer of `last:n` drops are not counted.
    DropNotCounted = "drop-not-counted",
    /// A reading taken while the connection is down is not marked as stale.
    StaleNotSaid = "stale-not-said",
    /// A writer's own updates are not marked.
    OwnNotMarked = "own-not-marked",
    /// Some updates are silently dropped between the engine and the client.
    SilentDrop = "silent-drop",
    /// A write whose call has ended is sent on the next connection.
    EndedWriteSent = "ended-write-sent",
    /// A handle of a removed variable reaches the variable that now has its slot.
    GenerationIgnored = "generation-ignored",
    /// A session that ends does not return the bytes that it borrowed for its requests.
    BudgetKept = "budget-kept",
    /// Some marks are lost, and nothing else.
    LostMark = "lost-mark",
    }
    streams {
    /// The writer sends one byte more than it has credit for.
    CreditOffByOne = "credit-off-by-one",
    /// The reader never gives credit for what was read.
    CreditNotGiven = "credit-not-given",
    /// Data lost with a connection is not sent again.
    NotSentAgain = "not-sent-again",
    /// After a reconnection unacknowledged data is sent again, and accepted again.
    TakenTwice = "taken-twice",
    /// The reader acknowledges bytes of a frame that has not arrived completely.
    AckedTooEarly = "acked-too-early",
    /// The checksum of the stream's bytes is not checked.
    ChecksumIgnored = "checksum-ignored",
    /// Data counts as read when it arrives.
    FlushTooEarly = "flush-too-early",
    /// Data that was sent but not acknowledged does not count as undelivered.
    LeftMiscounted = "left-miscounted",
    /// A successor of a reader begins after what was written, not after what was read.
    SuccessorMisplaced = "successor-misplaced",
    /// The time for which a peer may be gone is not checked.
    GoneForEver = "gone-for-ever",
    /// The silence of a stream's peer is not checked.
    SilenceIgnored = "silence-ignored",
    /// A writer's end becomes idle and does not ask its program to wake it.
    RestUntold = "rest-untold",
    /// The journal reports data as safe that is not on the disk.
    SyncSkipped = "sync-skipped",
    /// The writer's journal removes what was sent, not only what is safe.
    TrimmedTooEarly = "trimmed-too-early",
    /// Elements that the program is still using count as committed.
    CommittedTooEarly = "committed-too-early",
    /// A write that times out still writes its first element.
    LateWriteMoves = "late-write-moves",
    /// A read that times out returns the elements that have arrived.
    LateReadMoves = "late-read-moves",
    /// The reader of an aborted writer learns that nothing is missing.
    AbortAsEnd = "abort-as-end",
    /// A reader that has everything sees an orderly end although its writer was aborted.
    AbortForgotten = "abort-forgotten",
    /// The directory keeps answering a peer that reads no answers.
    ListedWithoutEnd = "listed-without-end",
    /// A peer that returns to a stream is not asked for the secret of the pair.
    SecretNotCompared = "secret-not-compared",
    }
    alarms {
    /// A delay starts over after a restart.
    DelayBegunAnew = "delay-begun-anew",
    /// A shelved alarm does not return at its time if the engine was restarted in the meantime.
    ShelfForgotten = "shelf-forgotten",
    /// States that change without an entry of the journal are not stored.
    UnkeptForgotten = "unkept-forgotten",
    /// Changes that could not be stored are dropped.
    FailedStepDropped = "failed-step-dropped",
    }
    history {
    /// A log whose segment is in files already is read again after a kill.
    SealedReadAgain = "sealed-read-again",
    /// The last rows of a variable that is undeployed are dropped.
    LastRowsDropped = "last-rows-dropped",
    /// A late sample of a variable that was undeployed before it was taken is dropped.
    LateOfRetiredDropped = "late-of-retired-dropped",
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
