//! What a transport knows about the connection's security and its peer.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use zeroize::Zeroizing;

/// What the transport of a connection knows about its security and its peer. The default is a
/// plain connection to an unknown peer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Channel {
    /// True if nobody except the two ends can read or change the bytes: TLS, a Unix socket, or
    /// memory of one process.
    pub is_private: bool,
    /// Keying material that both ends derive from the TLS connection (RFC 9266), different for each
    /// connection; `None` without TLS.
    pub binding: Option<[u8; 32]>,
    /// The certificate of the peer, DER; `None` without TLS, or if the peer sent none. The peer
    /// has proved that it has the private key. For a client, the certificate is also valid and
    /// issued by an authority that the client trusts.
    pub peer_certificate: Option<Arc<[u8]>>,
    /// Client only: the certificate of the authority that issued the engine's certificate, DER.
    pub authority: Option<Arc<[u8]>>,
    /// Engine only: the user id of a peer on this machine, as the system reports it.
    pub uid: Option<u32>,
    /// The address of a peer that is connected over TCP. For a client, `None` with TLS.
    pub address: Option<IpAddr>,
}

impl Channel {
    /// Returns true if other machines can read and change the bytes, or take the place of the peer: the
    /// connection leads over TCP to an address that is not loopback, without TLS.
    pub fn is_exposed(&self) -> bool {
        let is_beyond = |address: IpAddr| !address.to_canonical().is_loopback();
        !self.is_private && self.address.is_some_and(is_beyond)
    }
}

/// The seed of an Ed25519 key pair: 32 random bytes. Dropping it erases it from memory.
pub type EndSeed = Zeroizing<[u8; 32]>;

/// The keys with which two ends of a stream encrypt their connection. An engine has told each end the
/// public key of the other.
#[derive(Clone, PartialEq, Eq)]
pub struct EndKeys {
    /// Seed of the own Ed25519 key pair. `Debug` does not show it.
    pub own_seed: EndSeed,
    /// The Ed25519 public key that the peer must prove to have.
    pub peer: [u8; 32],
}

impl fmt::Debug for EndKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndKeys")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use zeroize::ZeroizeOnDrop;

    use super::*;

    #[test]
    fn plain_connections_beyond_loopback_are_exposed() {
        let channel = |address: &str, is_private| Channel {
            address: Some(address.parse().expect("it is an address")),
            is_private,
            ..Channel::default()
        };
        for address in ["192.0.2.7", "fd00::7", "::ffff:10.0.0.1"] {
            assert!(channel(address, false).is_exposed(), "{address}");
            assert!(!channel(address, true).is_exposed(), "{address}");
        }
        for address in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(!channel(address, false).is_exposed(), "{address}");
        }
        assert!(!Channel::default().is_exposed());
    }

    /// Behaviour: B-80.
    #[test]
    fn seed_of_an_end_is_erased() {
        fn is_erased_on_drop(_: &impl ZeroizeOnDrop) {}
        let keys = EndKeys {
            own_seed: [1; 32].into(),
            peer: [2; 32],
        };
        is_erased_on_drop(&keys.own_seed);
    }

    #[test]
    fn seed_of_an_end_is_not_shown() {
        let keys = EndKeys {
            own_seed: [199; 32].into(),
            peer: [7; 32],
        };
        let text = format!("{keys:?}");
        assert!(!text.contains("199"), "{text}");
        assert!(text.contains('7'), "{text}");
    }
}
