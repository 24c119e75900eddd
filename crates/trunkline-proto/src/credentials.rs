//! How a client, or an endpoint of a stream, proves its identity to an engine.

use std::fmt;
use std::sync::Arc;

use crate::Channel;
use crate::message::hello::Hello;
use crate::message::login::{KeyProof, Password, TokenSecret};

/// The proof of a client's identity.
///
/// A key and a token need TLS, because the proof is bound to the keying material of the
/// connection. A password needs TLS or a Unix socket, so that nobody else can read it. Over any
/// other connection, the client sends no proof.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// A key that the engine knows.
    Key(Arc<dyn LoginKey>),
    /// A joining token, with which the engine gets to know the key. Once a session was accepted,
    /// the key alone is used.
    Token {
        secret: TokenSecret,
        key: Arc<dyn LoginKey>,
    },
    /// The password of a person.
    Password { account: String, password: Password },
}

/// The private key of a program.
pub trait LoginKey: Send + Sync {
    /// Returns the Ed25519 public key.
    fn public_key(&self) -> [u8; 32];

    /// Returns the Ed25519 signature over `trunkline login 1`, a zero byte and `binding`, which is
    /// the keying material of the connection.
    fn sign_login(&self, binding: &[u8; 32]) -> [u8; 64];
}

impl fmt::Debug for dyn LoginKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginKey")
            .field("public_key", &self.public_key())
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// Adds the proof to `hello`, if the channel permits it. `has_joined` is true if the engine has
    /// accepted the key already, so that a token is not needed any more.
    pub fn prove(&self, channel: &Channel, has_joined: bool, hello: &mut Hello) {
        match self {
            Credentials::Key(key) => hello.key = proof(&**key, channel),
            Credentials::Token { secret, key } => {
                hello.key = proof(&**key, channel);
                let is_needed = hello.key.is_some() && !has_joined;
                hello.token = is_needed.then(|| secret.clone());
            }
            Credentials::Password { account, password } if channel.is_private => {
                hello.account.clone_from(account);
                hello.password = password.clone();
            }
            Credentials::Password { .. } => {}
        }
    }
}

fn proof(key: &dyn LoginKey, channel: &Channel) -> Option<KeyProof> {
    let binding = channel.binding?;
    Some(KeyProof {
        public_key: key.public_key(),
        signature: key.sign_login(&binding),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestKey;

    impl LoginKey for TestKey {
        fn public_key(&self) -> [u8; 32] {
            [7; 32]
        }

        fn sign_login(&self, binding: &[u8; 32]) -> [u8; 64] {
            let mut signature = [0; 64];
            signature[..32].copy_from_slice(binding);
            signature
        }
    }

    fn tls() -> Channel {
        Channel {
            is_private: true,
            binding: Some([9; 32]),
            ..Channel::default()
        }
    }

    fn hello(credentials: &Credentials, channel: &Channel, has_joined: bool) -> Hello {
        let mut hello = Hello::default();
        credentials.prove(channel, has_joined, &mut hello);
        hello
    }

    fn password() -> Credentials {
        Credentials::Password {
            account: "anna".to_owned(),
            password: Password::new("correct horse battery".to_owned()).unwrap(),
        }
    }

    /// B-81.
    #[test]
    fn token_is_sent_until_the_engine_has_accepted_the_key() {
        let token = Credentials::Token {
            secret: TokenSecret([3; 10]),
            key: Arc::new(TestKey),
        };
        let first = hello(&token, &tls(), false);
        assert_eq!(first.token, Some(TokenSecret([3; 10])));
        assert_eq!(
            first.key.map(|key| key.signature[..32].to_vec()),
            Some(vec![9; 32])
        );
        let later = hello(&token, &tls(), true);
        assert_eq!(later.token, None);
        assert!(later.key.is_some());
    }

    /// B-80: no proof leaves the program over a connection that others can read.
    #[test]
    fn nothing_is_proved_over_a_plain_connection() {
        let plain = Channel::default();
        for credentials in [Credentials::Key(Arc::new(TestKey)), password()] {
            assert_eq!(hello(&credentials, &plain, false), Hello::default());
        }
        let unix_socket = Channel {
            is_private: true,
            ..Channel::default()
        };
        assert_eq!(hello(&password(), &unix_socket, false).account, "anna");
    }

    #[test]
    fn debug_output_contains_no_secret() {
        let text = format!("{:?}", (password(), TokenSecret(*b"ABCDEFGHIJ")));
        assert!(!text.contains("horse"), "{text}");
        assert!(!text.contains("65"), "{text}");
    }
}
