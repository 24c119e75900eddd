//! How two ends agree on version, features and limits (B-50).
//!
//! The client names the oldest and newest version it speaks; the engine picks the newest both know.
//! A release speaks its own version N and N-1. The hello, the refusal and the goodbye keep their
//! form for ever, so that any two versions can at least tell each other why it will not do.

use std::fmt;
use std::ops::BitOr;

use crate::frame_buffer::FrameLimits;
use crate::limits::{
    FRAME_DEADLINE, FRAME_MAX_DEFAULT, FRAME_MAX_MAX, FRAME_MAX_MIN, MESSAGE_MAX_DEFAULT,
};
use crate::message::hello::{Hello, Welcome};

/// The protocol version of this release.
pub const PROTOCOL_VERSION: u8 = 1;

/// The versions a program speaks, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionRange {
    /// The oldest.
    pub min: u8,
    /// The newest.
    pub max: u8,
}

/// Features beyond the version, one bit each; both ends must have one for it to be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Features(u64);

/// The versions of two programs do not meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionMismatch {
    /// What the engine speaks.
    pub engine: VersionRange,
    /// What the client speaks.
    pub client: VersionRange,
}

/// What one end brings to the hello.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Negotiation {
    /// The versions it speaks.
    pub versions: VersionRange,
    /// The features it has.
    pub features: Features,
    /// The longest frame payload it takes.
    pub frame_max: u32,
    /// The longest payload of a message in parts it takes.
    pub message_max: u32,
}

/// What holds on a connection after the hello, for both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// The version spoken.
    pub version: u8,
    /// The features both have.
    pub features: Features,
    /// The longest frame payload.
    pub frame_max: u32,
    /// The longest payload of a message in parts.
    pub message_max: u32,
}

impl VersionRange {
    /// The versions this release speaks.
    pub const OURS: VersionRange = VersionRange::of_release(PROTOCOL_VERSION);

    /// The versions that a release whose newest is `newest` speaks: that one and the one before.
    pub const fn of_release(newest: u8) -> Self {
        let previous = newest.saturating_sub(1);
        Self {
            min: if previous == 0 { newest } else { previous },
            max: newest,
        }
    }

    /// Whether `version` is one of them.
    pub const fn contains(self, version: u8) -> bool {
        self.min <= version && version <= self.max
    }

    /// The newest version both speak.
    pub fn newest_common(self, peer: VersionRange) -> Option<u8> {
        let newest = self.max.min(peer.max);
        (self.contains(newest) && peer.contains(newest)).then_some(newest)
    }
}

impl Features {
    /// None.
    pub const NONE: Features = Features(0);
    /// The provider's frames: PROVIDE to PROVIDER_ANSWER.
    pub const PROVIDER: Features = Features(1);
    /// Libraries over the network: DEPLOY, ORDER, REPORT.
    pub const ADMINISTRATION: Features = Features(2);
    /// What WRITE says in its extension: send, request, force, expected positions.
    pub const REGISTERS: Features = Features(4);
    /// Many variables at one instant, and leases: GROUP_WRITE to LEASED.
    pub const GROUPS: Features = Features(8);
    /// Patterns followed live: WATCH to UNWATCH.
    pub const PATTERNS: Features = Features(16);
    /// Conditions in FIND.
    pub const CONDITIONS: Features = Features(32);
    /// Throughput mode in both directions, and FLUSH.
    pub const THROUGHPUT: Features = Features(64);
    /// The list of forced variables: FORCING, FORCED.
    pub const FORCING: Features = Features(128);
    /// Running digest and sweep: the digest of KEEPALIVE, CHECK, COMPARE, REPAIRED.
    pub const CONVERGENCE: Features = Features(256);
    /// Who did what: AUDIT, AUDIT_PAGE.
    pub const AUDIT: Features = Features(512);
    /// The running digest counts GONE and ENDED as well.
    pub const ENDS: Features = Features(1 << 20);
    /// Of a stream: both ends are processes of one machine and share one ring, which is the buffers
    /// of both. Nothing of it goes over their connection.
    pub const SHARED_RING: Features = Features(1 << 21);
    /// Of a stream: the writer may drop elements for a slow reader, and says so with S_LOST.
    pub const DROPS: Features = Features(1 << 22);
    /// Every feature of this release.
    pub const OURS: Features = Features(1 | 2 | 4 | 8 | 16 | 32 | 64 | 128 | 256 | 512 | 1 << 20);

    /// The bits on the wire; bits this release does not know are kept and mean nothing.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// From the bits on the wire.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Whether every feature of `other` is in.
    pub const fn contains(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }

    /// The features that either has.
    #[must_use]
    pub const fn or(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }

    /// The features that both have.
    #[must_use]
    pub const fn and(self, other: Features) -> Features {
        Features(self.0 & other.0)
    }
}

impl Negotiation {
    /// What this release brings.
    pub const OURS: Negotiation = Negotiation {
        versions: VersionRange::OURS,
        features: Features::OURS,
        frame_max: FRAME_MAX_DEFAULT,
        message_max: MESSAGE_MAX_DEFAULT,
    };

    /// The engine's decision on a client's hello.
    ///
    /// # Errors
    /// [`VersionMismatch`] when no version is common; it goes back in a REFUSED frame.
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

    /// What a client makes of the engine's welcome.
    ///
    /// # Errors
    /// [`VersionMismatch`] when the engine chose a version that was not offered.
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
    /// The limits of the frame buffer after the hello.
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
