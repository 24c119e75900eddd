//! The quality of a sample: its trustworthiness with a reason, and the clock of its source
//! timestamp.
//!
//! A quality is one packed `u32`, the same in memory, in cells and on the wire:
//!
//! ```text
//!  31      24  23   22   21   20  19 18  17 16  15            2  1   0
//! +----------+----+----+----+----+------+------+---------------+------+
//! | reserved | nv | co | si | fo | sync | clock|  reason code  | level|
//! +----------+----+----+----+----+------+------+---------------+------+
//!   nv: no value yet   co: coerced to the range   si: simulated   fo: forced
//! ```

use std::fmt;

/// The level, reason and clock of a sample.
///
/// Any `u32` is a valid quality: codes unknown to this version are preserved, so that an older
/// engine passes on the quality set by a newer engine.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quality(u32);

/// The trust in a value, ordered from best to worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Level {
    /// The value can be trusted.
    #[default]
    Good,
    /// The value may be old, clipped or estimated, as the reason explains.
    Uncertain,
    /// The value must not be used; it is the last known value.
    Bad,
}

/// The clock of the source timestamp (B-40).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Clock {
    #[default]
    Unknown,
    /// The engine's clock: the source provided no timestamp, so both timestamps are from the
    /// engine.
    Engine,
    /// The clock of the source: a device, an I/O server or a program.
    Source,
}

/// The synchronisation of the clock of the source timestamp (B-40, B-41).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ClockSync {
    #[default]
    Unknown,
    /// The clock followed a reference (PTP, NTP, GPS).
    Synchronised,
    /// The clock was not synchronised to a reference.
    Free,
    /// The clock had never been set, so the source timestamp is not a time of day.
    Unset,
}

impl Quality {
    /// Good quality, with the engine's clock and unknown synchronisation.
    pub const GOOD: Quality = Quality::new(Level::Good, Reason::None);

    /// Builds a quality with this level and reason, and the engine's clock.
    pub const fn new(level: Level, reason: Reason) -> Self {
        let bits = (level as u32) | ((reason.code() as u32 & REASON_MASK) << REASON_SHIFT);
        Self(bits).with_clock(Clock::Engine, ClockSync::Unknown)
    }

    /// Same as [`Quality::GOOD`].
    pub const fn good() -> Self {
        Self::GOOD
    }

    pub const fn uncertain(reason: Reason) -> Self {
        Self::new(Level::Uncertain, reason)
    }

    pub const fn bad(reason: Reason) -> Self {
        Self::new(Level::Bad, reason)
    }

    /// Reads the packed form. Every value is valid; a level unknown to this version counts as bad.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the packed form; see the [module](self).
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// Returns the trust in the value.
    pub const fn level(self) -> Level {
        match self.0 & LEVEL_MASK {
            0 => Level::Good,
            1 => Level::Uncertain,
            _ => Level::Bad,
        }
    }

    /// Returns true if the level is [`Level::Good`].
    pub const fn is_good(self) -> bool {
        matches!(self.level(), Level::Good)
    }

    /// Returns true if the level is [`Level::Bad`].
    pub const fn is_bad(self) -> bool {
        matches!(self.level(), Level::Bad)
    }

    /// Returns the reason for the level, or additional information about a good value.
    pub const fn reason(self) -> Reason {
        Reason::from_code(((self.0 >> REASON_SHIFT) & REASON_MASK) as u16)
    }

    /// Returns true if the quality has this reason; faster than `reason`.
    #[inline]
    pub const fn has_reason(self, reason: Reason) -> bool {
        ((self.0 >> REASON_SHIFT) & REASON_MASK) as u16 == reason.code()
    }

    /// Returns the clock of the source timestamp.
    pub const fn clock(self) -> Clock {
        match (self.0 >> CLOCK_SHIFT) & 3 {
            1 => Clock::Engine,
            2 => Clock::Source,
            _ => Clock::Unknown,
        }
    }

    pub const fn clock_sync(self) -> ClockSync {
        match (self.0 >> SYNC_SHIFT) & 3 {
            1 => ClockSync::Synchronised,
            2 => ClockSync::Free,
            3 => ClockSync::Unset,
            _ => ClockSync::Unknown,
        }
    }

    /// Returns true if a user or program has forced the value, overriding the source.
    pub const fn is_forced(self) -> bool {
        self.0 & FORCED != 0
    }

    /// Returns true if the value was simulated, not measured.
    pub const fn is_simulated(self) -> bool {
        self.0 & SIMULATED != 0
    }

    /// Returns true if the value was coerced to an end of the variable's range (H-04).
    pub const fn is_coerced(self) -> bool {
        self.0 & COERCED != 0
    }

    /// Returns true if the variable has a value. A sample without a value contains the default
    /// value of its type, which was neither written nor delivered; the reason explains why.
    pub const fn has_value(self) -> bool {
        self.0 & NO_VALUE == 0 && !self.has_reason(Reason::NoValue)
    }

    /// Returns this quality with the mark that the variable has no value yet. The result is never
    /// good.
    #[must_use]
    pub const fn without_value(self) -> Self {
        match self.level() {
            Level::Good => Self::bad(Reason::NoValue),
            _ if self.has_reason(Reason::NoValue) => self,
            _ => self.with_flag(NO_VALUE, true),
        }
    }

    /// Returns this quality with the given clock.
    #[must_use]
    pub const fn with_clock(self, clock: Clock, sync: ClockSync) -> Self {
        let cleared = self.0 & !((3 << CLOCK_SHIFT) | (3 << SYNC_SHIFT));
        Self(cleared | ((clock as u32) << CLOCK_SHIFT) | ((sync as u32) << SYNC_SHIFT))
    }

    /// Returns this quality with the forced flag set or cleared.
    #[must_use]
    pub const fn with_forced(self, forced: bool) -> Self {
        self.with_flag(FORCED, forced)
    }

    /// Returns this quality with the simulated flag set or cleared.
    #[must_use]
    pub const fn with_simulated(self, simulated: bool) -> Self {
        self.with_flag(SIMULATED, simulated)
    }

    /// Returns this quality with the coerced flag set or cleared.
    #[must_use]
    pub const fn with_coerced(self, coerced: bool) -> Self {
        self.with_flag(COERCED, coerced)
    }

    const fn with_flag(self, flag: u32, set: bool) -> Self {
        Self(if set { self.0 | flag } else { self.0 & !flag })
    }

    /// Returns the quality of a value computed from two values: the worse level with its reason and
    /// clock, and the flags of both. If the levels are equal, `other` takes precedence only
    /// if it has a reason and `self` has none.
    #[must_use]
    pub fn worst(self, other: Quality) -> Quality {
        let prefers_other = match self.level().cmp(&other.level()) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Greater => false,
            std::cmp::Ordering::Equal => {
                self.reason() == Reason::None && other.reason() != Reason::None
            }
        };
        let base = if prefers_other { other } else { self };
        Quality(base.0 | ((self.0 | other.0) & (FORCED | SIMULATED | COERCED | NO_VALUE)))
    }
}

/// [`Quality::GOOD`].
impl Default for Quality {
    fn default() -> Self {
        Self::GOOD
    }
}

/// Writes the level, the reason and the flags: `good`, `bad: sensor-failure`,
/// `good (forced, coerced)`.
impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.level())?;
        if self.reason() != Reason::None {
            write!(f, ": {}", self.reason())?;
        }
        let flags = [
            (self.is_forced(), "forced"),
            (self.is_simulated(), "simulated"),
            (self.is_coerced(), "coerced"),
            (self.0 & NO_VALUE != 0, "no value yet"),
        ];
        let mut separator = " (";
        for (_, flag) in flags.iter().filter(|(is_set, _)| *is_set) {
            write!(f, "{separator}{flag}")?;
            separator = ", ";
        }
        if separator == ", " {
            f.write_str(")")
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Quality({self}; {:?} clock, {:?})",
            self.clock(),
            self.clock_sync()
        )
    }
}

/// Writes `good`, `uncertain` or `bad`.
impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Good => "good",
            Level::Uncertain => "uncertain",
            Level::Bad => "bad",
        })
    }
}

/// Writes the name of the reason, such as `sensor-failure`, or `reason-123` for an unknown code.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Unlisted(code) => write!(f, "reason-{code}"),
            listed => f.write_str(listed.name()),
        }
    }
}

/// Declares each reason with its code, name and sentence.
macro_rules! reasons {
    ($($variant:ident = $code:literal, $name:literal, $sentence:literal;)*) => {
        /// The reason for a quality. Codes are part of the wire form and are never reused. Codes
        /// below 64 are used with `uncertain`, codes from 64 on with `bad`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub enum Reason {
            /// No reason is given.
            #[default]
            None,
            $(#[doc = $sentence] $variant,)*
            /// A code unknown to this version, 1 to 16,383.
            Unlisted(u16),
        }

        impl Reason {
            /// Every reason known to this version, in the order of their codes.
            pub const ALL: &[Reason] = &[Reason::None, $(Reason::$variant,)*];

            /// Returns the number in the packed form, 14 bits.
            #[inline]
            pub const fn code(self) -> u16 {
                match self {
                    Reason::None => 0,
                    $(Reason::$variant => $code,)*
                    Reason::Unlisted(code) => code,
                }
            }

            pub const fn from_code(code: u16) -> Self {
                match code {
                    0 => Reason::None,
                    $($code => Reason::$variant,)*
                    code => Reason::Unlisted(code),
                }
            }

            /// Returns the name shown to users and used by scripts; it never changes.
            pub const fn name(self) -> &'static str {
                match self {
                    Reason::None => "none",
                    $(Reason::$variant => $name,)*
                    Reason::Unlisted(_) => "unlisted",
                }
            }

            /// Returns the reason with this name; `None` if there is none.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    "none" => Some(Reason::None),
                    $($name => Some(Reason::$variant),)*
                    _ => None,
                }
            }

            /// Returns the meaning of the reason, as a sentence.
            pub const fn sentence(self) -> &'static str {
                match self {
                    Reason::None => "No reason is given.",
                    $(Reason::$variant => $sentence,)*
                    Reason::Unlisted(_) => {
                        "The reason comes from a newer version and is not known here."
                    }
                }
            }
        }
    };
}

reasons! {
    Retained = 1, "retained", "The value was saved before the engine was last started.";
    Initial = 2, "initial", "The value is the configured initial value; no value has been written yet.";
    BufferEmpty = 3, "buffer-empty", "The buffer was empty; the last value is repeated.";
    WriteBufferNearlyFull = 4, "write-buffer-nearly-full",
        "The write buffer is full; the next write may overflow it.";
    WriteBufferOverflowed = 5, "write-buffer-overflowed",
        "The write buffer overflowed; its oldest value was discarded.";
    Stale = 6, "stale", "The value might not be the most current one.";
    ClockUnset = 7, "clock-unset", "The source's clock had never been set.";
    LimitsExceeded = 8, "limits-exceeded", "The value is outside the limits of its sensor.";
    Estimated = 9, "estimated", "The value was computed or substituted, not measured.";
    SensorFailure = 64, "sensor-failure", "The sensor reports a failure.";
    DeviceFailure = 65, "device-failure", "The device reports a failure.";
    NoValue = 66, "no-value", "There is no value yet.";
    Inactive = 67, "inactive", "The source is switched off or not scanned.";
    NotConnected = 68, "not-connected", "The connection to the source does not exist yet.";
    NameLookupFailed = 69, "name-lookup-failed", "The source's host name could not be resolved.";
    HostUnreachable = 70, "host-unreachable", "The source's host cannot be reached.";
    ServiceLookupFailed = 71, "service-lookup-failed",
        "The source's host is reachable, but its service was not found.";
    ProcessMissing = 72, "process-missing", "The library of the source does not exist or is not running.";
    VariableMissing = 73, "variable-missing", "The variable does not exist at the source.";
    AccessDenied = 74, "access-denied", "The source refuses access.";
    VersionMismatch = 75, "version-mismatch",
        "The subscription was refused: the programs use different versions of the protocol.";
    BadUrl = 76, "bad-url", "The source's URL is not valid.";
    BufferTooSmall = 77, "buffer-too-small", "The buffer size must be greater than 1.";
    ProviderGone = 78, "provider-gone", "The provider of this variable is not running.";
    NotSupported = 79, "not-supported", "The source does not support the requested operation.";
    ConfigurationError = 80, "configuration-error", "The configuration of this variable is wrong.";
    OutOfRange = 81, "out-of-range", "The source's value cannot be represented in this variable.";
    TimedOut = 82, "timed-out", "The source did not answer in time.";
    ConnectionLost = 83, "connection-lost", "The connection to the source was lost.";
    MemoryFull = 84, "memory-full", "The engine does not have enough memory for the source's value.";
}

const LEVEL_MASK: u32 = 3;
const REASON_SHIFT: u32 = 2;
const REASON_MASK: u32 = 0x3fff;
const CLOCK_SHIFT: u32 = 16;
const SYNC_SHIFT: u32 = 18;
const FORCED: u32 = 1 << 20;
const SIMULATED: u32 = 1 << 21;
const COERCED: u32 = 1 << 22;
const NO_VALUE: u32 = 1 << 23;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod documented {
    use super::*;

    const PAGE: &str = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/protocol.md"
    ));

    #[test]
    fn the_protocol_page_has_the_position_of_each_bit() {
        let mark = "<!-- checked: trunkline-types, quality -->";
        let (_, table) = PAGE.split_once(mark).expect("the table is marked");
        let bit_range = |mask: u32, shift: u32| {
            let first = (mask << shift).trailing_zeros();
            let last = 31 - (mask << shift).leading_zeros();
            match first == last {
                true => format!("| {first} |"),
                false => format!("| {first} to {last} |"),
            }
        };
        let expected = [
            (bit_range(LEVEL_MASK, 0), "level"),
            (bit_range(REASON_MASK, REASON_SHIFT), "reason"),
            (bit_range(3, CLOCK_SHIFT), "clock"),
            (bit_range(3, SYNC_SHIFT), "synchronisation"),
            (bit_range(FORCED, 0), "forced"),
            (bit_range(SIMULATED, 0), "simulated"),
            (bit_range(COERCED, 0), "coerced"),
        ];
        let rows = table.trim_start().lines().skip(2);
        for (row, (position, name)) in rows.zip(expected) {
            assert!(
                row.starts_with(&format!("{position} {name}")),
                "{row}: {position} {name}"
            );
        }
    }
}
