//! Defines the interface through which the reader gets the bytes of a file.

use std::io;

/// A source of bytes with a known length that can be read at any position, such as a slice or an
/// open file.
///
/// The reader requests a few bytes at a time and never more than it needs, so a file of any size
/// can be read without loading it.
pub trait ReadAt {
    /// Returns the current length in bytes.
    fn byte_len(&self) -> io::Result<u64>;

    /// Reads bytes from `position` on into `buffer`. Returns the number of bytes read, which is 0
    /// only at the end of the source or for an empty buffer.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Fills `buffer` with bytes from `position` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the source ends before the buffer is full, or any error
    /// of the source.
    fn read_exact_at(&self, mut buffer: &mut [u8], mut position: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, position) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    buffer = buffer.get_mut(read..).unwrap_or_default();
                    position += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl ReadAt for [u8] {
    fn byte_len(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let from = usize::try_from(position).unwrap_or(usize::MAX);
        let available = self.get(from..).unwrap_or_default();
        let read = available.len().min(buffer.len());
        buffer[..read].copy_from_slice(&available[..read]);
        Ok(read)
    }
}

impl ReadAt for Vec<u8> {
    fn byte_len(&self) -> io::Result<u64> {
        self.as_slice().byte_len()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.as_slice().read_at(buffer, position)
    }
}

impl<S: ReadAt + ?Sized> ReadAt for &S {
    fn byte_len(&self) -> io::Result<u64> {
        (**self).byte_len()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        (**self).read_at(buffer, position)
    }
}

#[cfg(unix)]
impl ReadAt for std::fs::File {
    fn byte_len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buffer, position)
    }
}
