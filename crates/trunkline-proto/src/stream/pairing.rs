//! How the two ends of a stream know each other again.
//!
//! When two ends meet for the first time, each sends the other a share, 32 random bytes. Both
//! shares make the secret of the pair: nobody else has it, and it is never sent. From then on an
//! end that claims to be the one of before proves that it has the secret: with a MAC over its own
//! life, the life that it means and the number of the dial, so that no proof is good twice.
//!
//! ```text
//! first    S_HELLO  share A          -->
//!                                    <--  S_WELCOME  share B        secret = HMAC(A, B)
//! again    S_HELLO  proof, share A'  -->
//!                                    <--  S_WELCOME  proof
//! ```
//!
//! The dialled end may have answered and not been heard. So one that dials and knows nothing of a
//! pair yet offers the same share each time, and counts as itself with that share too.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::meeting::lineage;
use crate::message::stream::Incarnation;

/// 32 bytes that nobody but their owners may know. Compared in constant time, and never shown.
#[derive(Clone, Copy, Default)]
pub struct Secret(pub [u8; 32]);

/// What an end keeps of the one that it has met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// The part of the peer's incarnation that stays the same through the lives of an endpoint with
    /// a journal.
    pub lineage: [u8; 8],
    /// What only the two have.
    pub secret: Secret,
    /// What the peer offered when it dialled first; `None`: this end dialled.
    pub offered: Option<Secret>,
}

/// What a MAC is of, so that none counts in the place of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// A share that goes with a hello.
    Offer = 1,
    /// A share that goes with a welcome.
    Answer = 2,
    /// The secret of a pair.
    Pair = 3,
    /// The end that dials is the one of before.
    Hello = 4,
    /// The end that is dialled is the one of before.
    Welcome = 5,
    /// The secret of an endpoint whose journal begins another stream.
    Next = 6,
}

impl Secret {
    /// The secret of an endpoint whose journal begins another stream, of this lineage.
    #[must_use]
    pub fn next(&self, lineage: [u8; 8]) -> Self {
        self.mac(Purpose::Next, &[&lineage])
    }

    /// A share to offer in the hello of the dial with this number.
    pub(super) fn offer(&self, number: u64) -> Self {
        self.mac(Purpose::Offer, &[&number.to_le_bytes()])
    }

    /// The share that answers a hello which is met for the first time.
    pub(super) fn answer(&self, peer: Incarnation, attempt: u64, offered: &Secret) -> Self {
        let parts = [&peer.0[..], &attempt.to_le_bytes(), &offered.0];
        self.mac(Purpose::Answer, &parts)
    }

    /// The secret of the pair that has these shares.
    pub(super) fn of_pair(offered: &Secret, answered: &Secret) -> Self {
        offered.mac(Purpose::Pair, &[&answered.0])
    }

    /// Proves to an end of this lineage that `from` has the secret, for one dial.
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
        // A key of any length will do, so that there is no error.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            return Self::default();
        };
        mac.update(b"trunkline stream");
        mac.update(&[purpose as u8]);
        // Each purpose has parts of its own fixed lengths.
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

    /// The MAC is HMAC-SHA-256 of what the protocol's reference says: two implementations have to
    /// come to the same bytes.
    #[test]
    fn a_proof_is_made_of_what_the_reference_says() {
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
    fn no_proof_counts_for_another_end_dial_or_direction() {
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
