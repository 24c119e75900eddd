use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};

use super::*;
use crate::certificate::{DAY, Validity, later};

/// 2026-07-01T12:00:00Z.
const NOW: Timestamp = Timestamp::from_nanos(1_782_907_200_000_000_000);

fn subject() -> EngineSubject {
    EngineSubject {
        name: "plant7".to_owned(),
        host_names: vec!["plant7.example".parse().unwrap()],
    }
}

struct Made {
    _outer: tempfile::TempDir,
    sut: SecurityFolder,
}

fn made() -> Made {
    let outer = tempfile::tempdir().unwrap();
    let path = outer.path().join("security");
    let sut = SecurityFolder::create(&path, &subject(), NOW).unwrap();
    Made { _outer: outer, sut }
}

impl Made {
    fn file(&self, name: &str) -> PathBuf {
        self.sut.path().join(name)
    }

    fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.file(name), Permissions::from_mode(mode)).unwrap();
    }

    fn refusal(&self) -> String {
        SecurityFolder::open(self.sut.path())
            .unwrap_err()
            .to_string()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

const FILES: [(&str, u32); 5] = [
    (ACCESS, 0o600),
    (AUTHORITY_KEY, 0o600),
    (AUTHORITY_CERTIFICATE, 0o644),
    (ENGINE_KEY, 0o600),
    (ENGINE_CERTIFICATE, 0o644),
];

/// B-81: no default password exists: a new folder has no accounts.
#[test]
fn created_folder_has_the_five_files_with_their_permissions() {
    let made = made();
    assert_eq!(mode(made.sut.path()), 0o700);
    for (name, expected) in FILES {
        assert_eq!(mode(&made.file(name)), expected, "{name}");
    }
    assert_eq!(fs::read_dir(made.sut.path()).unwrap().count(), FILES.len());
    let opened = SecurityFolder::open(made.sut.path()).unwrap();
    assert_eq!(opened, made.sut);
    let engine = opened.engine().unwrap();
    assert_eq!(engine.certificate.validity(NOW), Validity::Valid);
    assert_eq!(engine.certificate.names()[0].to_string(), "plant7.example");
    let authority = opened.authority().unwrap();
    assert_eq!(engine.authority, *authority.certificate());
    assert_ne!(engine.key.fingerprint(), authority.key().fingerprint());
    let access = fs::read_to_string(opened.access_file()).unwrap();
    assert!(access.lines().all(|line| line.starts_with('#')), "{access}");
}

#[test]
fn existing_files_are_never_overwritten() {
    let made = made();
    let before = fs::read(made.file(AUTHORITY_KEY)).unwrap();
    let refused = SecurityFolder::create(made.sut.path(), &subject(), NOW).unwrap_err();
    assert!(matches!(refused, FolderError::NotEmpty(_)), "{refused}");
    assert_eq!(fs::read(made.file(AUTHORITY_KEY)).unwrap(), before);
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("notes"), "x").unwrap();
    let refused = SecurityFolder::create(other.path(), &subject(), NOW).unwrap_err();
    assert!(matches!(refused, FolderError::NotEmpty(_)), "{refused}");
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1);
    // An empty folder, such as a new volume, is used.
    let empty = tempfile::tempdir().unwrap();
    SecurityFolder::create(empty.path(), &subject(), NOW).unwrap();
    SecurityFolder::open(empty.path()).unwrap();
}

#[test]
fn nothing_is_created_if_the_subject_or_the_clock_is_wrong() {
    let outer = tempfile::tempdir().unwrap();
    let path = outer.path().join("security");
    let refused = SecurityFolder::create(&path, &subject(), Timestamp::UNIX_EPOCH).unwrap_err();
    assert!(refused.to_string().contains("set the clock"), "{refused}");
    let nameless = EngineSubject {
        name: String::new(),
        ..subject()
    };
    assert!(SecurityFolder::create(&path, &nameless, NOW).is_err());
    assert!(!path.exists());
    let missing = SecurityFolder::open(&path).unwrap_err().to_string();
    assert!(
        missing.contains("create it with `trunkline init`"),
        "{missing}"
    );
}

#[test]
fn folder_that_others_can_write_is_refused() {
    let made = made();
    for bad in [0o770, 0o707, 0o1777] {
        made.set_mode("", bad);
        let refused = made.refusal();
        assert!(refused.contains("`chmod go-w "), "{refused}");
        let other = made.sut.path().join("new");
        fs::create_dir(&other).unwrap();
        fs::set_permissions(&other, Permissions::from_mode(bad)).unwrap();
        assert!(SecurityFolder::create(&other, &subject(), NOW).is_err());
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
        fs::remove_dir(&other).unwrap();
    }
    made.set_mode("", 0o755);
    SecurityFolder::open(made.sut.path()).unwrap();
}

#[test]
fn files_that_others_can_read_or_write_are_refused() {
    let made = made();
    for (name, good) in FILES {
        let bad: &[u32] = match good {
            0o600 => &[0o640, 0o604, 0o644, 0o620],
            _ => &[0o664, 0o646],
        };
        for bad in bad {
            made.set_mode(name, *bad);
            let refused = made.refusal();
            assert!(
                refused.contains(name) && refused.contains("run `chmod"),
                "{refused}"
            );
        }
        made.set_mode(name, good);
        SecurityFolder::open(made.sut.path()).unwrap();
    }
}

#[test]
fn missing_linked_and_large_files_are_refused() {
    let required = FILES.iter().filter(|(name, _)| *name != AUTHORITY_KEY);
    for (name, _) in required {
        let made = made();
        let (file, aside) = (made.file(name), made.sut.path().with_extension("aside"));
        fs::rename(&file, &aside).unwrap();
        let refused = made.refusal();
        assert!(refused.contains(&format!("has no {name};")), "{refused}");
        symlink(&aside, &file).unwrap();
        let refused = made.refusal();
        assert!(refused.contains("is a symbolic link"), "{refused}");
        fs::remove_file(&file).unwrap();
        fs::rename(&aside, &file).unwrap();
        fs::OpenOptions::new()
            .write(true)
            .open(&file)
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        let refused = made.refusal();
        assert!(refused.contains("bytes, the most"), "{refused}");
    }
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    for (name, expected) in [
        (AUTHORITY_KEY, "does not belong to the certificate"),
        (AUTHORITY_CERTIFICATE, "does not belong to the certificate"),
        (ENGINE_KEY, "does not belong to the certificate"),
        (ENGINE_CERTIFICATE, "does not belong to the certificate"),
    ] {
        let (made, other) = (made(), made());
        fs::write(made.file(name), fs::read(other.file(name)).unwrap()).unwrap();
        let refused = made.refusal();
        assert!(refused.contains(expected), "{name}: {refused}");
    }
    let (made, other) = (made(), made());
    for name in [ENGINE_KEY, ENGINE_CERTIFICATE] {
        fs::write(made.file(name), fs::read(other.file(name)).unwrap()).unwrap();
    }
    let refused = made.refusal();
    assert!(
        refused.contains("was not issued by the authority"),
        "{refused}"
    );
    for (name, _) in FILES {
        let made = self::made();
        fs::write(made.file(name), "").unwrap();
        let opened = SecurityFolder::open(made.sut.path());
        assert_eq!(opened.is_ok(), name == ACCESS, "{name}");
    }
}

/// Creates a certificate with a key on P-384, issued by `issuer` or by itself.
fn certificate_of_a_company(
    name: &str,
    is_authority: bool,
    issuer: Option<&rcgen::Issuer<'_, &KeyPair>>,
) -> (CertificateParams, KeyPair, String) {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let mut params = CertificateParams::new(vec!["plant7.example".to_owned()]).unwrap();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    if is_authority {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    }
    let certificate = match issuer {
        Some(issuer) => params.signed_by(&key, issuer).unwrap(),
        None => params.self_signed(&key).unwrap(),
    };
    let text = crate::pem::encode(CERTIFICATE, certificate.der());
    (params, key, text.as_str().to_owned())
}

#[test]
fn certificates_of_another_authority_need_no_key_of_it() {
    let made = made();
    let (root, root_key, root_text) = certificate_of_a_company("Company", true, None);
    let root = rcgen::Issuer::from_params(&root, &root_key);
    let (middle, middle_key, middle_text) =
        certificate_of_a_company("Company plants", true, Some(&root));
    let middle = rcgen::Issuer::from_params(&middle, &middle_key);
    let (_, key, text) = certificate_of_a_company("plant7", false, Some(&middle));
    fs::write(made.file(AUTHORITY_CERTIFICATE), &root_text).unwrap();
    let key = crate::pem::encode(crate::pem::PRIVATE_KEY, key.serialized_der());
    fs::write(made.file(ENGINE_KEY), &*key).unwrap();
    fs::write(
        made.file(ENGINE_CERTIFICATE),
        format!("{text}{middle_text}"),
    )
    .unwrap();
    // The old key of the authority does not belong to the new certificate.
    assert!(made.refusal().contains("does not belong"));
    fs::remove_file(made.file(AUTHORITY_KEY)).unwrap();

    let engine = SecurityFolder::open(made.sut.path()).unwrap().engine();
    let engine = engine.unwrap();
    assert_eq!(engine.certificate.subject(), "plant7");
    assert_eq!(engine.intermediates.len(), 1);
    assert_eq!(engine.authority.subject(), "Company");
    let refused = made.sut.renew(NOW).unwrap_err();
    assert!(
        matches!(refused, FolderError::NotOurAuthority(_)),
        "{refused}"
    );

    // A chain that includes its authority is the same chain.
    fs::write(
        made.file(ENGINE_CERTIFICATE),
        format!("{text}{middle_text}{root_text}"),
    )
    .unwrap();
    assert_eq!(made.sut.engine().unwrap().intermediates.len(), 1);
    // One without its intermediate authority is none, nor one in another order.
    for wrong in [text.clone(), format!("{middle_text}{text}")] {
        fs::write(made.file(ENGINE_CERTIFICATE), wrong).unwrap();
        made.sut.engine().unwrap_err();
    }
    // The certificate of an engine cannot be the authority.
    fs::write(made.file(ENGINE_CERTIFICATE), &text).unwrap();
    fs::write(made.file(AUTHORITY_CERTIFICATE), &text).unwrap();
    let refused = made.refusal();
    assert!(refused.contains("may not sign other"), "{refused}");
}

#[test]
fn renewal_replaces_only_the_certificate_of_the_engine() {
    let made = made();
    let old = made.sut.engine().unwrap();
    let day = |count| later(NOW, Duration::from_secs(count * DAY));
    assert!(!old.certificate.needs_renewal(day(59)));
    let keys = [AUTHORITY_KEY, AUTHORITY_CERTIFICATE, ENGINE_KEY, ACCESS];
    let content = || keys.map(|name| fs::read(made.file(name)).unwrap());
    let before = content();
    // Also after the end: an engine that was off for a year must start.
    for wall in [day(60), day(400)] {
        let before = made.sut.engine().unwrap();
        assert!(before.certificate.needs_renewal(wall));
        let new = made.sut.renew(wall).unwrap();
        assert_eq!(new.certificate.names(), old.certificate.names());
        assert_eq!(new.certificate.validity(wall), Validity::Valid);
        assert!(!new.certificate.needs_renewal(wall));
        assert_eq!(made.sut.engine().unwrap().certificate, new.certificate);
        assert_eq!(mode(&made.file(ENGINE_CERTIFICATE)), 0o644);
        SecurityFolder::open(made.sut.path()).unwrap();
    }
    assert_eq!(content(), before);
    // A failed renewal leaves the certificate.
    let current = fs::read(made.file(ENGINE_CERTIFICATE)).unwrap();
    let refused = made.sut.renew(day(4000)).unwrap_err();
    assert!(refused.to_string().contains("is expired"), "{refused}");
    assert_eq!(fs::read(made.file(ENGINE_CERTIFICATE)).unwrap(), current);
}
