//! The file of accounts and rules.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::edit::{AccessEdit, EditError};
use super::error::AccessErrors;
use super::lookup::Accounts;
use crate::files::{self, Existing, FileError, Secrecy, ShellWord};

/// Maximum size of the file, in bytes: 4 MiB.
pub const FILE_BYTES_MAX: usize = 4 << 20;

/// The file of accounts and rules. It has mode 0600, because it contains password hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessFile {
    path: PathBuf,
}

/// An error of the file of accounts and rules.
#[derive(Debug, thiserror::Error)]
pub enum AccessFileError {
    /// The file cannot be read or written, or others can access it.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file has errors.
    #[error("{} has errors:\n{errors}", ShellWord(path))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Its errors.
        errors: AccessErrors,
    },
    /// The change is not possible. The file is unchanged.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The change would make the file invalid. The file is unchanged.
    #[error("nothing was changed, because the changed file would have errors:\n{0}")]
    Rejected(AccessErrors),
    /// Another program changes the file at this moment.
    #[error("another program is changing {}; try again", ShellWord(.0))]
    InUse(PathBuf),
    /// The file was changed by hand at the same time. It has that content.
    #[error("{} was changed by another program at the same time, and keeps that change; try again", ShellWord(.0))]
    Changed(PathBuf),
}

impl AccessFile {
    /// Names the file. It is not opened.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the accounts and rules.
    ///
    /// # Errors
    /// [`AccessFileError::File`] if the file is missing, larger than [`FILE_BYTES_MAX`], or accessible by others;
    /// [`AccessFileError::Invalid`] with its errors.
    pub fn load(&self) -> Result<Accounts, AccessFileError> {
        let text = self.read()?;
        let accounts = Accounts::parse(&self.name(), &text);
        accounts.map_err(|errors| self.invalid(errors))
    }

    /// Changes the file, and returns the result of `change` and the new accounts. After any error, and after an
    /// interruption at any point, the file has the old or the new content.
    ///
    /// Programs that change the file exclude each other by a lock of its folder.
    ///
    /// # Errors
    /// [`AccessFileError`].
    pub fn edit<T>(
        &self,
        change: impl FnOnce(&mut AccessEdit) -> Result<T, EditError>,
    ) -> Result<(T, Accounts), AccessFileError> {
        let _lock = self.lock()?;
        let old = self.read()?;
        let mut edit =
            AccessEdit::new(&self.name(), &old).map_err(|errors| self.invalid(errors))?;
        let result = change(&mut edit)?;
        let (new, accounts) = edit.finish().map_err(AccessFileError::Rejected)?;
        let new = Zeroizing::new(new);
        // A person may have saved the file in an editor, which does not know the lock.
        if *self.read()? != *old {
            return Err(AccessFileError::Changed(self.path.clone()));
        }
        if *new != *old {
            files::write(
                &self.path,
                new.as_bytes(),
                Secrecy::Private,
                Existing::Replace,
            )?;
        }
        Ok((result, accounts))
    }

    /// Locks the folder. The lock ends when the result is dropped.
    fn lock(&self) -> Result<File, AccessFileError> {
        let folder = files::folder_of(&self.path);
        let file = File::open(folder).map_err(FileError::io(folder))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(AccessFileError::InUse(self.path.clone())),
            Err(TryLockError::Error(error)) => Err(FileError::io(folder)(error).into()),
        }
    }

    fn read(&self) -> Result<Zeroizing<String>, FileError> {
        files::read(&self.path, Secrecy::Private, FILE_BYTES_MAX)
    }

    /// Returns the name of the file without its folder, for places such as `access.toml:12`.
    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }

    fn invalid(&self, errors: AccessErrors) -> AccessFileError {
        AccessFileError::Invalid {
            path: self.path.clone(),
            errors,
        }
    }
}
