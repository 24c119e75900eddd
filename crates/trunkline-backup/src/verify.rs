//! Compares the files of a backup with its manifest.

use std::path::Path;

use crate::Watch;
use crate::error::Error;
use crate::files::{Meter, Sum, sum_of};
use crate::manifest::{Entry, Finding, Manifest};

/// The result of [`verify`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    /// The manifest of the backup.
    pub manifest: Manifest,
    /// Files that are damaged in or missing from the backup, and files that were damaged when they
    /// were copied.
    pub findings: Vec<Finding>,
}

/// Reads all files of a backup, and compares them with the manifest.
///
/// # Errors
/// Returns an [`Error`] if there is no backup, if its manifest cannot be read, or if the caller interrupts the
/// command.
pub fn verify(backup: &Path, watch: &mut Watch<'_>) -> Result<Verified, Error> {
    let manifest = Manifest::read(backup)?.ok_or_else(|| Error::NoBackup(backup.to_owned()))?;
    let mut findings = compare(backup, &manifest, watch)?;
    findings.extend(manifest.damage.iter().cloned());
    Ok(Verified { manifest, findings })
}

/// Returns a finding for each file that does not match the manifest.
pub(crate) fn compare(
    backup: &Path,
    manifest: &Manifest,
    watch: &mut Watch<'_>,
) -> Result<Vec<Finding>, Error> {
    let mut meter = Meter::new(Some(manifest.bytes()), watch);
    let mut findings = Vec::new();
    for entry in &manifest.files {
        let what = damage_of(&entry.place(backup), entry, &mut meter)?;
        findings.extend(what.map(|what| Finding {
            path: entry.path.clone(),
            what,
        }));
    }
    Ok(findings)
}

/// Reads a file, and describes how it differs from its entry. Returns `None` if they match.
pub(crate) fn damage_of(
    place: &Path,
    entry: &Entry,
    meter: &mut Meter<'_, '_>,
) -> Result<Option<String>, Error> {
    let what = match sum_of(place, meter) {
        Ok(sum) => difference(entry, sum),
        Err(error) if error.is_not_found() => Some("it is missing".to_owned()),
        Err(Error::Io { error, .. }) => Some(format!("it cannot be read: {error}")),
        Err(error) => return Err(error),
    };
    meter.end_file();
    Ok(what)
}

/// Describes how the length and checksum of a file differ from its entry. Returns `None` if they match.
pub(crate) fn difference(entry: &Entry, sum: Sum) -> Option<String> {
    if sum.bytes != entry.bytes {
        let (found, expected) = (sum.bytes, entry.bytes);
        return Some(format!(
            "it has {found} bytes, but had {expected} when it was copied"
        ));
    }
    let is_same = sum.crc32c == entry.crc32c;
    (!is_same).then(|| "its checksum does not match".to_owned())
}
