//! The origin of a connection, and the ranges of origins that rules name.
//!
//! ```text
//! local              this machine: Unix sockets, memory, and TCP from a loopback address
//! 10.0.0.7           one address
//! 10.0.0.0/8         a network; the bits after the prefix are zero
//! fd00::/8           the same for IPv6
//! ```

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use trunkline_types::audit::cut;

use crate::action::TEXT_BYTES_MAX;

/// The origin of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Host {
    /// A Unix socket or memory: a program of this machine.
    Local,
    /// The address of the peer of a TCP connection; a loopback address is a program of this machine as well.
    Address(IpAddr),
}

impl Host {
    /// Returns true if the connection comes from this machine.
    pub fn is_local(self) -> bool {
        match self {
            Host::Local => true,
            Host::Address(address) => address.to_canonical().is_loopback(),
        }
    }
}

/// A range of origins, which a rule names. An IPv4 address that is mapped to IPv6 (`::ffff:10.0.0.7`) is
/// compared as IPv4, in ranges as well as in connections; no other IPv6 range contains an IPv4 address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HostRange {
    /// This machine: Unix sockets, memory, and TCP from a loopback address.
    Local,
    Network(Network),
}

/// An address or a network in CIDR form. The bits after the prefix are zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Network {
    /// Never an IPv4 address mapped to IPv6.
    address: IpAddr,
    /// At most the number of bits of the address.
    prefix: u8,
}

/// The text is neither `local` nor an address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{text:?} is not an address: write one such as 10.0.0.7 or fd00::7, or local for this machine"
)]
pub struct HostError {
    /// The text as given, shortened.
    pub text: String,
}

/// The text is neither `local` nor an address or a network.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostRangeError {
    #[error(
        "{text:?} is neither an address nor a network: write one such as 10.0.0.7, 10.0.0.0/8 or fd00::/8, \
         or local for this machine; names of machines are not looked up"
    )]
    Address {
        /// The text as given, shortened.
        text: String,
    },
    /// The address has a zone, such as `%eth0`.
    #[error(
        "{text:?} has a zone after '%', which a rule cannot have: write the address without it"
    )]
    Zone {
        /// The text as given, shortened.
        text: String,
    },
    #[error(
        "{prefix:?} in {text:?} is not a prefix length: write a number of bits from 0 to {max}"
    )]
    Prefix {
        /// The text as given, shortened.
        text: String,
        /// The part after the slash, shortened.
        prefix: String,
        /// Number of bits of the address.
        max: u8,
    },
    /// Bits after the prefix are not zero.
    #[error(
        "{text:?} has bits after its prefix: write {network} for the network, or {address} for the one address"
    )]
    HostBits {
        /// The text as given, shortened.
        text: String,
        network: Network,
        address: IpAddr,
    },
}

impl HostRange {
    /// Returns true if the origin is in the range.
    pub fn contains(self, host: Host) -> bool {
        match (self, host) {
            (HostRange::Local, host) => host.is_local(),
            (HostRange::Network(network), Host::Address(address)) => network.contains(address),
            (HostRange::Network(_), Host::Local) => false,
        }
    }
}

impl Network {
    /// Creates a network from its address and the length of its prefix, in bits. An IPv4 network that is
    /// mapped to IPv6, such as `::ffff:10.0.0.0/104`, becomes an IPv4 network.
    ///
    /// # Errors
    /// [`HostRangeError::Prefix`] and [`HostRangeError::HostBits`].
    pub fn new(address: IpAddr, prefix: u8) -> Result<Self, HostRangeError> {
        Self::checked(address, prefix, || format!("{address}/{prefix}"))
    }

    fn checked(
        given: IpAddr,
        given_prefix: u8,
        text: impl Fn() -> String,
    ) -> Result<Self, HostRangeError> {
        let max = bits(given);
        if given_prefix > max {
            return Err(HostRangeError::Prefix {
                text: text(),
                prefix: given_prefix.to_string(),
                max,
            });
        }
        // A mapped address with a shorter prefix has bits after the prefix, and is refused below.
        let (address, prefix) = match (given.to_canonical(), given_prefix.checked_sub(MAPPED_BITS))
        {
            (IpAddr::V4(address), Some(prefix)) if given.is_ipv6() => (address.into(), prefix),
            (IpAddr::V4(_) | IpAddr::V6(_), _) => (given, given_prefix),
        };
        let network = Self {
            address: masked(address, prefix),
            prefix,
        };
        match network.address == address {
            true => Ok(network),
            false => Err(HostRangeError::HostBits {
                text: text(),
                network,
                address: address.to_canonical(),
            }),
        }
    }

    /// Returns true if the address is in the network.
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.prefix) == self.address
    }

    /// Returns the first address of the network.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Returns the length of the prefix, in bits.
    pub fn prefix(self) -> u8 {
        self.prefix
    }
}

/// Length of the prefix `::ffff:0:0` of IPv4 addresses mapped to IPv6, in bits.
const MAPPED_BITS: u8 = 96;

const fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Returns the address with every bit after the prefix cleared.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    let kept = u32::from(prefix);
    match address {
        IpAddr::V4(address) => {
            let host_bits = u32::MAX.checked_shr(kept).unwrap_or(0);
            IpAddr::V4((address.to_bits() & !host_bits).into())
        }
        IpAddr::V6(address) => {
            let host_bits = u128::MAX.checked_shr(kept).unwrap_or(0);
            IpAddr::V6((address.to_bits() & !host_bits).into())
        }
    }
}

/// The word for this machine, in rules.
const LOCAL: &str = "local";

impl FromStr for HostRange {
    type Err = HostRangeError;

    fn from_str(text: &str) -> Result<Self, HostRangeError> {
        if text == LOCAL {
            return Ok(HostRange::Local);
        }
        text.parse().map(HostRange::Network)
    }
}

impl FromStr for Network {
    type Err = HostRangeError;

    fn from_str(text: &str) -> Result<Self, HostRangeError> {
        let shown = || cut(text, TEXT_BYTES_MAX);
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address = parse_address(address, text)?;
        let max = bits(address);
        let Some(prefix) = prefix else {
            return Self::checked(address, max, shown);
        };
        // `parse` alone would permit a sign and leading zeros.
        let is_plain = prefix.bytes().all(|byte| byte.is_ascii_digit())
            && (prefix.len() == 1 || !prefix.starts_with('0'));
        match prefix.parse() {
            Ok(number) if is_plain && number <= max => Self::checked(address, number, shown),
            _ => Err(HostRangeError::Prefix {
                text: shown(),
                prefix: cut(prefix, TEXT_BYTES_MAX),
                max,
            }),
        }
    }
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        match (text, text.parse()) {
            (LOCAL, _) => Ok(Host::Local),
            (_, Ok(address)) => Ok(Host::Address(address)),
            (_, Err(_)) => Err(HostError {
                text: cut(text, TEXT_BYTES_MAX),
            }),
        }
    }
}

/// Parses an address that is the whole or a part of `text`.
fn parse_address(address: &str, text: &str) -> Result<IpAddr, HostRangeError> {
    address.parse().map_err(|_| {
        let before_zone = address.split_once('%').map(|(before, _)| before);
        let has_zone = before_zone.is_some_and(|before| before.parse::<IpAddr>().is_ok());
        let text = cut(text, TEXT_BYTES_MAX);
        match has_zone {
            true => HostRangeError::Zone { text },
            false => HostRangeError::Address { text },
        }
    })
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Local => f.write_str(LOCAL),
            Host::Address(address) => address.to_canonical().fmt(f),
        }
    }
}

impl fmt::Display for HostRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostRange::Local => f.write_str(LOCAL),
            HostRange::Network(network) => network.fmt(f),
        }
    }
}

/// Writes a network as `10.0.0.0/8`, and a single address without its prefix.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix == bits(self.address) {
            true => self.address.fmt(f),
            false => write!(f, "{}/{}", self.address, self.prefix),
        }
    }
}

#[cfg(test)]
mod tests;
