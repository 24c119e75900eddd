//! Authorities and certificates for tests.
#![allow(dead_code, reason = "each test program uses its own part")]

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, date_time_ymd,
};
use sha2::{Digest, Sha256};
use trunkline_net::TlsIdentity;

/// The names under which tests reach a server.
pub const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub der: Vec<u8>,
    pub fingerprint: [u8; 10],
}

/// A certificate with its key, DER.
pub struct Certificate {
    pub der: Vec<u8>,
    pub key: Vec<u8>,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        Self::valid(name, [2020, 2100])
    }

    pub fn valid(name: &str, years: [i32; 2]) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.not_before = date_time_ymd(years[0], 1, 1);
        params.not_after = date_time_ymd(years[1], 1, 1);
        let key = KeyPair::generate().unwrap();
        let digest = Sha256::digest(key.subject_public_key_info());
        let certificate = params.self_signed(&key).unwrap();
        Self {
            der: certificate.der().to_vec(),
            fingerprint: digest[..10].try_into().unwrap(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Issues a certificate of a server for [`NAMES`].
    pub fn issue(&self) -> Certificate {
        self.issue_with(|_| {})
    }

    pub fn issue_with(&self, change: impl FnOnce(&mut CertificateParams)) -> Certificate {
        let mut params = CertificateParams::new(NAMES.map(str::to_owned)).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2100, 1, 1);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Certificate {
            der: certificate.der().to_vec(),
            key: key.serialize_der(),
        }
    }

    /// The identity of a server, with the authority's certificate in its chain.
    pub fn identity(&self) -> TlsIdentity {
        self.identity_of(self.issue())
    }

    pub fn identity_of(&self, certificate: Certificate) -> TlsIdentity {
        TlsIdentity {
            chain: vec![certificate.der, self.der.clone()],
            key: certificate.key,
        }
    }
}

/// A certificate that is its own issuer, as a client without an authority makes one.
pub fn self_signed() -> Certificate {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["anyone".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Certificate {
        der: certificate.der().to_vec(),
        key: key.serialize_der(),
    }
}

impl Certificate {
    pub fn alone(self) -> TlsIdentity {
        TlsIdentity {
            chain: vec![self.der],
            key: self.key,
        }
    }
}
