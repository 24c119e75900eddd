//! Implements the disk operations of a journal for the simulated disk of the tests and the simulator.

use std::io;
use std::path::Path;
use std::sync::Arc;

use trunkline_simdisk::SimFile;
pub use trunkline_simdisk::{Crash, Failure, SimDisk, Tail, Tear};

use super::disk::{Disk, DiskFile};

impl Disk for SimDisk {
    fn folder(&self) -> &Path {
        self.folder()
    }

    fn boot(&self) -> u32 {
        self.boot()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(self.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(self.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.remove(name)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.sync_folder()
    }
}

impl DiskFile for SimFile {
    fn size(&self) -> io::Result<u64> {
        self.size()
    }

    fn write_at(&self, offset: u64, pieces: [&[u8]; 2]) -> io::Result<()> {
        self.write_at(offset, pieces)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, bytes)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.truncate(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync()
    }
}
