//! Agreement on version, features and limits between two ends (B-50).
//!
//! The client sends the oldest and the newest version that it speaks; the engine picks the newest
//! version that both speak. A release speaks its own version N and version N-1. The formats of
//! hello, refusal and goodbye never change, so that programs of any two versions can at least
//! report why they are incompatible.

use std::fmt;
use std::ops::BitOr;

use crate::frame::FrameLimits;
use crate::limits::{
    FRAME_DEADLINE, FRAME_MAX_DEFAULT, FRAME_MAX_MAX, FRAME_MAX_MIN, MESSAGE_MAX_DEFAULT,
};
use crate::message::hello::{Hello, Welcome};

/// The protocol version of this release.
pub const PROTOCOL_VERSION: u8 = 1;

/// The protocol versions that a program speaks, from oldest to newest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionRange {
    /// The oldest version.
    pub min: u8,
    /// The newest version.
    pub max: u8,
}

/// Features in addition to the version, one bit each. A feature is used only if both ends have it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Features(u64);

/// The versions of two programs do not overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionMismatch {
    /// The versions that the engine speaks.
    pub engine: VersionRange,
    /// The versions that the client speaks.
    pub client: VersionRange,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Negotiation {
    pub versions: VersionRange,
    pub features: Features,
    /// The longest frame payload that this end accepts, in bytes.
    pub frame_max: u32,
    /// The longest payload of a message in parts that this end accepts, in bytes.
    pub message_max: u32,
}

/// The terms of a connection after the hello, for both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreement {
    pub version: u8,
    pub features: Features,
    /// The longest frame payload, in bytes.
    pub frame_max: u32,
    /// The longest payload of a message in parts, in bytes.
    pub message_max: u32,
}

/// The versions that this release speaks.
impl Default for VersionRange {
    fn default() -> Self {
        Self::OURS
    }
}

impl VersionRange {
    /// The versions that this release speaks.
    pub const OURS: VersionRange = VersionRange::of_release(PROTOCOL_VERSION);

    /// Returns the versions of a release whose newest version is `newest`: that version and the one
    /// before it.
    pub const fn of_release(newest: u8) -> Self {
        let previous = newest.saturating_sub(1);
        Self {
            min: if previous == 0 { newest } else { previous },
            max: newest,
        }
    }

    /// Returns true if `version` is in the range.
    pub const fn contains(self, version: u8) -> bool {
        self.min <= version && version <= self.max
    }

    /// Returns the newest version in both ranges; `None` if they do not overlap.
    pub fn newest_common(self, peer: VersionRange) -> Option<u8> {
        let newest = self.max.min(peer.max);
        (self.contains(newest) && peer.contains(newest)).then_some(newest)
    }
}

impl Features {
    /// No features.
    pub const NONE: Features = Features(0);
    /// The provider's frames: PROVIDE to PROVIDER_ANSWER.
    pub const PROVIDER: Features = Features(1);
    /// Libraries over the network: DEPLOY, ORDER, REPORT.
    pub const ADMINISTRATION: Features = Features(2);
    /// The extension of WRITE: the verbs send, request and force, and expected positions.
    pub const REGISTERS: Features = Features(4);
    /// Groups, consistent snapshots and leases: GROUP_WRITE to LEASED.
    pub const GROUPS: Features = Features(8);
    /// Watching patterns: WATCH to UNWATCH.
    pub const PATTERNS: Features = Features(16);
    /// Conditions in FIND.
    pub const CONDITIONS: Features = Features(32);
    /// Throughput mode in both directions, and FLUSH.
    pub const THROUGHPUT: Features = Features(64);
    /// The list of forced variables: FORCING, FORCED.
    pub const FORCING: Features = Features(128);
    /// Running digest and sweep: the digest of KEEPALIVE, CHECK, COMPARE, REPAIRED.
    pub const CONVERGENCE: Features = Features(256);
    /// The audit trail: AUDIT, AUDIT_PAGE.
    pub const AUDIT: Features = Features(512);
    /// Alarms: ALARMS to ALARM_ENTRIES.
    pub const ALARMS: Features = Features(1024);
    /// The history of variables: HISTORY, HISTORY_ROWS.
    pub const HISTORY: Features = Features(2048);
    /// Accounts: PAIR, PAIRED.
    pub const ACCOUNTS: Features = Features(4096);
    /// Orders to the engine itself: the verb 4 of ORDER.
    pub const ENGINE_ORDERS: Features = Features(8192);
    /// Reloading the configuration of the engine: the verb 5 of ORDER.
    pub const RELOAD: Features = Features(1 << 14);
    /// Control of folders: CONTROL, CONTROLLED.
    pub const CONTROL: Features = Features(1 << 15);
    /// Running digests that also cover GONE and ENDED.
    pub const ENDS: Features = Features(1 << 20);
    /// Streams only: both ends are processes on one machine and share one ring buffer. No stream
    /// data passes over the connection.
    pub const SHARED_RING: Features = Features(1 << 21);
    /// Streams only: the writer may drop elements for a slow reader, and reports each loss with
    /// S_LOST.
    pub const DROPS: Features = Features(1 << 22);
    /// Every feature of this release.
    pub const OURS: Features = Features(
        1 | 2
            | 4
            | 8
            | 16
            | 32
            | 64
            | 128
            | 256
            | 512
            | 1024
            | 2048
            | 4096
            | 8192
            | 1 << 14
            | 1 << 15
            | 1 << 20,
    );

    /// Returns the bits on the wire. Bits unknown to this release are preserved and have no effect.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Reads the bits on the wire.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns true if every feature of `other` is included.
    pub const fn contains(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the features that at least one side has.
    #[must_use]
    pub const fn or(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }

    /// Returns the features that both sides have.
    #[must_use]
    pub const fn and(self, other: Features) -> Features {
        Features(self.0 & other.0)
    }
}

impl Negotiation {
    /// The versions, features and limits that this release offers.
    pub const OURS: Negotiation = Negotiation {
        versions: VersionRange::OURS,
        features: Features::OURS,
        frame_max: FRAME_MAX_DEFAULT,
        message_max: MESSAGE_MAX_DEFAULT,
    };

    /// Evaluates a client's hello, for the engine.
    ///
    /// # Errors
    /// [`VersionMismatch`] if there is no common version; the engine sends it back in a REFUSED
    /// frame.
    pub fn accept(&self, hello: &Hello) -> Result<Agreement, VersionMismatch> {
        let version = self
            .versions
            .newest_common(hello.versions)
            .ok_or(VersionMismatch {
                engine: self.versions,
                client: hello.versions,
            })?;
        Ok(self.agree(version, hello.features, hello.frame_max, hello.message_max))
    }

    /// Checks the engine's welcome, for the client.
    ///
    /// # Errors
    /// [`VersionMismatch`] if the engine chose a version that was not offered.
    pub fn confirm(&self, welcome: &Welcome) -> Result<Agreement, VersionMismatch> {
        if !self.versions.contains(welcome.version) {
            let engine = VersionRange {
                min: welcome.version,
                max: welcome.version,
            };
            return Err(VersionMismatch {
                engine,
                client: self.versions,
            });
        }
        Ok(self.agree(
            welcome.version,
            welcome.features,
            welcome.frame_max,
            welcome.message_max,
        ))
    }

    fn agree(&self, version: u8, features: Features, frame: u32, message: u32) -> Agreement {
        let frame_max = self
            .frame_max
            .min(frame)
            .clamp(FRAME_MAX_MIN, FRAME_MAX_MAX);
        let message_max = self.message_max.min(message).max(frame_max);
        Agreement {
            version,
            features: self.features.and(features),
            frame_max,
            message_max,
        }
    }
}

impl Default for Negotiation {
    fn default() -> Self {
        Self::OURS
    }
}

impl Agreement {
    pub fn frame_limits(&self) -> FrameLimits {
        FrameLimits {
            frame_max: self.frame_max,
            message_max: self.message_max,
            frame_deadline: FRAME_DEADLINE,
            hello: false,
        }
    }
}

impl BitOr for Features {
    type Output = Features;

    fn bitor(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "version {}", self.max)
        } else {
            write!(f, "versions {} to {}", self.min, self.max)
        }
    }
}

impl fmt::Display for VersionMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, client } = self;
        write!(
            f,
            "the engine speaks protocol {engine} and the client {client}; "
        )?;
        let (older, needed) = if engine.max < client.max {
            ("engine", client.min)
        } else {
            ("client", engine.min)
        };
        write!(
            f,
            "update the {older} to a release that speaks version {needed} or newer"
        )
    }
}

impl std::error::Error for VersionMismatch {}
