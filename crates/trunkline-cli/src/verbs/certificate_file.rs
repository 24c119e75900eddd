//! Certificates in files of the user.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use trunkline_identity::Certificate;
use trunkline_identity::certificate::CERTIFICATE_BYTES_MAX;

use crate::Problem;
use crate::problem::file_reason;
use crate::terminal::escaped_path;

/// Reads a certificate from a PEM file.
pub(super) fn certificate_in(path: &Path) -> Result<Certificate, Problem> {
    let failed = |reason: String| {
        let sentence = format!("{}: {reason}", escaped_path(path));
        Problem::failed("certificate", sentence)
    };
    let read = File::open(path).and_then(|file| {
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        Ok(text)
    });
    let text = read.map_err(|error| failed(file_reason(&error)))?;
    Certificate::from_pem(&text).map_err(|error| failed(error.to_string()))
}

/// Number of bytes of a file in which a certificate is looked for. Base64 is longer than DER.
const FILE_BYTES_MAX: u64 = 4 * CERTIFICATE_BYTES_MAX as u64;
