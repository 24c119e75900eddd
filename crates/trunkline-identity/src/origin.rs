//! Where the attempts of a peer to prove an identity come from.

use std::net::{IpAddr, Ipv6Addr};

use trunkline_access::Host;

/// Where a peer is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    /// On this machine. Its attempts are not limited, so nobody on the network can lock out the console.
    Local,
    /// On the network.
    Network(NetworkOrigin),
}

/// The part of an address that an attacker cannot change at will.
///
/// It is the whole address, but for IPv6 addresses of the internet only the first 64 bits: one machine can use
/// every address of such a network. Addresses of a link (`fe80::/10`) and of an organization (`fc00::/7`)
/// count in full, because otherwise one machine of a plant could delay the logins of all others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NetworkOrigin(IpAddr);

impl Origin {
    /// Returns the origin of a peer with this address.
    pub fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        if address.is_loopback() {
            return Self::Local;
        }
        Self::Network(NetworkOrigin(match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(v6) if v6.is_unicast_link_local() || v6.is_unique_local() => address,
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64))),
        }))
    }
}

impl From<Host> for Origin {
    fn from(host: Host) -> Self {
        match host {
            Host::Local => Self::Local,
            Host::Address(address) => Self::of(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str) -> Origin {
        Origin::of(address.parse().unwrap())
    }

    #[test]
    fn loopback_addresses_are_local() {
        for address in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(of(address), Origin::Local, "{address}");
            let host = Host::Address(address.parse().unwrap());
            assert_eq!(Origin::from(host), Origin::Local);
        }
        assert_eq!(Origin::from(Host::Local), Origin::Local);
        let host = Host::Address("192.0.2.1".parse().unwrap());
        assert_eq!(Origin::from(host), of("192.0.2.1"));
    }

    #[test]
    fn one_machine_cannot_appear_as_many_origins() {
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_ne!(of("fe80::1"), of("fe80::2"));
        assert_ne!(of("fd00::1"), of("fd00::2"));
    }
}
