//! Mutual authentication of the two ends of a stream.
//!
//! When two endpoints connect for the first time, each sends a share of 32 random bytes. The two
//! shares determine the secret of the pair, which no other program has and which is never sent.
//! From then on, an endpoint that claims to be the previous peer must prove that it has the secret.
//! The proof is a MAC over the incarnation of the sender, the lineage of the receiver and the number
//! of the dial, so that each proof is valid only once.
//!
//! ```text
//! first    S_HELLO  share A          -->
//!                                    <--  S_WELCOME  share B        secret = HMAC(A, B)
//! again    S_HELLO  proof, share A'  -->
//!                                    <--  S_WELCOME  proof
//! ```
//!
//! The answer of the dialled endpoint may be lost. A dialling endpoint without a pair therefore
//! offers the same share each time, and can also be recognised by that share.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::meeting::lineage;
use crate::message::stream::Incarnation;

/// A secret of 32 bytes. Secrets are compared in constant time and never shown.
#[derive(Clone, Copy, Default)]
pub struct Secret(pub [u8; 32]);

/// An endpoint's record of the peer with which it shares a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// The part of the peer's incarnation that is the same in all incarnations of an endpoint with
    /// a journal.
    pub lineage: [u8; 8],
    pub secret: Secret,
    /// The share that the peer offered when it first dialled; `None` if this endpoint dialled.
    pub offered: Option<Secret>,
}

/// The purpose of a MAC. The MAC covers its purpose, so that it cannot be used for another purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// A share sent with a hello.
    Offer = 1,
    /// A share sent with a welcome.
    Answer = 2,
    /// The secret of a pair.
    Pair = 3,
    /// Proof that the dialling endpoint is the previous peer.
    Hello = 4,
    /// Proof that the dialled endpoint is the previous peer.
    Welcome = 5,
    /// The next secret of an endpoint whose journal begins another stream.
    Next = 6,
}

impl Secret {
    /// Derives the secret of an endpoint of this lineage whose journal begins another stream.
    #[must_use]
    pub fn next(&self, lineage: [u8; 8]) -> Self {
        self.mac(Purpose::Next, &[&lineage])
    }

    /// Derives the share to offer in the hello of the dial with this number.
    pub(super) fn offer(&self, number: u64) -> Self {
        self.mac(Purpose::Offer, &[&number.to_le_bytes()])
    }

    /// Derives the share for the welcome to an endpoint that connects for the first time.
    pub(super) fn answer(&self, peer: Incarnation, attempt: u64, offered: &Secret) -> Self {
        let parts = [&peer.0[..], &attempt.to_le_bytes(), &offered.0];
        self.mac(Purpose::Answer, &parts)
    }

    /// Derives the secret of the pair from the two shares.
    pub(super) fn of_pair(offered: &Secret, answered: &Secret) -> Self {
        offered.mac(Purpose::Pair, &[&answered.0])
    }

    /// Computes the proof, for one dial, that `from` has the secret; it is valid only for the
    /// lineage of `to`.
    pub(super) fn proof(
        &self,
        purpose: Purpose,
        from: Incarnation,
        to: Incarnation,
        attempt: u64,
    ) -> Self {
        let to = lineage(to);
        self.mac(purpose, &[&from.0, &to, &attempt.to_le_bytes()])
    }

    fn mac(&self, purpose: Purpose, parts: &[&[u8]]) -> Self {
        // HMAC accepts keys of any length, so this cannot fail.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            return Self::default();
        };
        mac.update(b"trunkline stream");
        mac.update(&[purpose as u8]);
        // The parts have fixed lengths for each purpose, so the concatenation is unambiguous.
        parts.iter().for_each(|part| mac.update(part));
        Self(mac.finalize().into_bytes().into())
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The MAC is HMAC-SHA-256 over the bytes given in the protocol reference: two implementations
    /// must compute the same bytes.
    #[test]
    fn proof_covers_the_bytes_of_the_protocol_reference() {
        let secret = Secret([7; 32]);
        let (from, to) = (Incarnation([1; 16]), Incarnation([2; 16]));
        let mut bytes = b"trunkline stream\x04".to_vec();
        bytes.extend_from_slice(&[1; 16]);
        bytes.extend_from_slice(&[2; 8]);
        bytes.extend_from_slice(&[5, 0, 0, 0, 0, 0, 0, 0]);
        let mut mac = Hmac::<Sha256>::new_from_slice(&[7; 32]).unwrap();
        mac.update(&bytes);
        let expected = Secret(mac.finalize().into_bytes().into());
        assert_eq!(secret.proof(Purpose::Hello, from, to, 5), expected);
    }

    #[test]
    fn proof_depends_on_incarnations_dial_direction_and_secret() {
        let secret = Secret([7; 32]);
        let (a, b) = (Incarnation([1; 16]), Incarnation([2; 16]));
        let proof = secret.proof(Purpose::Hello, a, b, 5);
        assert_eq!(proof, secret.proof(Purpose::Hello, a, b, 5));
        assert_ne!(proof, secret.proof(Purpose::Hello, a, b, 6));
        assert_ne!(proof, secret.proof(Purpose::Hello, b, a, 5));
        assert_ne!(proof, secret.proof(Purpose::Welcome, a, b, 5));
        assert_ne!(proof, Secret([8; 32]).proof(Purpose::Hello, a, b, 5));
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret([7; 32])), "Secret(..)");
    }
}
