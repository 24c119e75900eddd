//! Simulates a disk for tests: operations complete in random order and fail on demand, and a crash
//! can happen at any point.

use std::io;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use trunkline_simdisk::{Content, put};

use super::{Backend, BackendKind, Completed, FallbackReason, Read, Span, Token, Wait, Write};
use crate::watched_path::MovedFile;

/// Size in bytes of a sector, which a disk writes completely or not at all.
const SECTOR_BYTES: usize = 512;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SimFault {
    /// The operation fails with this system error number and has no effect.
    Fails(i32),
    /// Only this many bytes are written or read.
    Short(usize),
    /// The operation never completes.
    Stalls,
    /// The operation is refused with this system error number and is not started.
    NotStarted(i32),
}

/// A handle to the simulated disk. The test keeps one and gives the queue a
/// [`clone`](Clone::clone).
#[derive(Clone, Debug)]
pub struct SimDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: fastrand::Rng,
    now: Duration,
    block_bytes: usize,
    content: Content,
    pending: Vec<PendingOperation>,
    faults: Vec<(u64, SimFault)>,
    operations: u64,
    reserved_to: u64,
    /// The length to which the file was extended ahead of its writes.
    length: usize,
    capacity_bytes: u64,
    trim_fault: Option<i32>,
    moved_file: Option<MovedFile>,
}

#[derive(Clone, Debug)]
struct PendingOperation {
    operation: Operation,
    /// Content of the write's memory when the write was started; empty for other operations.
    initial_bytes: Vec<u8>,
    fault: Option<SimFault>,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Write(Write),
    Read(Read),
    /// A sync with this token, which makes this number of changes durable.
    Sync(Token, usize),
}

impl SimDisk {
    /// Creates an empty disk. The seed determines the order in which operations complete.
    /// Operations that are not aligned to whole blocks fail, as with direct I/O.
    pub fn new(seed: u64, block_bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            random: fastrand::Rng::with_seed(seed),
            now: Duration::ZERO,
            block_bytes,
            content: Content::default(),
            pending: Vec::new(),
            faults: Vec::new(),
            operations: 0,
            reserved_to: 0,
            length: 0,
            capacity_bytes: u64::MAX,
            trim_fault: None,
            moved_file: None,
        })))
    }

    /// Replaces the file's content with `bytes`, already durable.
    pub fn set_file(&self, bytes: Vec<u8>) {
        self.state().content = Content::new(bytes);
    }

    /// Makes operation `number` fail in the given way. Writes, reads and syncs count together, from
    /// 0.
    pub fn fault(&self, number: u64, fault: SimFault) {
        self.state().faults.push((number, fault));
    }

    /// Makes truncating the file fail with this system error number from now on; `None` lets it
    /// succeed again.
    pub fn set_trim_fault(&self, fault: Option<i32>) {
        self.state().trim_fault = fault;
    }

    /// Simulates that the file was moved to another location; `None` moves it back.
    pub fn set_moved_file(&self, moved_file: Option<MovedFile>) {
        self.state().moved_file = moved_file;
    }

    /// Sets the capacity of the disk in bytes.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity_bytes = bytes;
    }

    /// Advances the simulated clock.
    pub fn pass(&self, time: Duration) {
        self.state().now += time;
    }

    /// Returns the number of operations started so far, including refused ones.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Returns the position up to which space is reserved.
    pub fn reserved_to(&self) -> u64 {
        self.state().reserved_to
    }

    /// Returns the content of the file, with all completed writes.
    pub fn file(&self) -> Vec<u8> {
        self.state().file()
    }

    /// Returns every possible content of the file if the program is killed now. Each contains all
    /// completed writes, and nothing, the first half, or all of each running write.
    pub fn files_after_kill(&self) -> Vec<Vec<u8>> {
        let state = self.state();
        let mut files = vec![state.file()];
        for PendingOperation {
            operation,
            initial_bytes,
            ..
        } in &state.pending
        {
            let Operation::Write(Write { position, .. }) = *operation else {
                continue;
            };
            for index in 0..files.len() {
                for bytes in [half_of(initial_bytes.len()), initial_bytes.len()] {
                    let mut file = files[index].clone();
                    put(&mut file, position, &initial_bytes[..bytes]);
                    files.push(file);
                }
            }
        }
        files
    }

    /// Returns one possible content of the file if power is lost now. It contains all synced
    /// writes, and nothing, the first half, or all of every other write, as the seed determines.
    /// The extended length may be lost too.
    pub fn file_after_power_loss(&self, seed: u64) -> Vec<u8> {
        let state = self.state();
        let mut random = fastrand::Rng::with_seed(seed);
        let keeps_length = random.bool();
        let mut file = state
            .content
            .after_power_loss(|bytes| match random.u8(0..3) {
                0 => None,
                1 => Some(half_of(bytes)),
                _ => Some(bytes),
            });
        if keeps_length && file.len() < state.length {
            file.resize(state.length, 0);
        }
        file
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, operation: Operation, initial_bytes: Vec<u8>) -> io::Result<()> {
        let mut state = self.state();
        let number = state.operations;
        state.operations += 1;
        let fault = state.faults.iter().find(|(faulty, _)| *faulty == number);
        let fault = fault.map(|(_, fault)| *fault);
        if let Some(SimFault::NotStarted(number)) = fault {
            return Err(io::Error::from_raw_os_error(number));
        }
        let is_misaligned = match operation {
            Operation::Write(write) => state.is_misaligned(write.position, write.memory),
            Operation::Read(read) => state.is_misaligned(read.position, read.memory),
            Operation::Sync(..) => false,
        };
        let fault = match is_misaligned {
            true => Some(SimFault::Fails(rustix::io::Errno::INVAL.raw_os_error())),
            false => fault,
        };
        state.pending.push(PendingOperation {
            operation,
            initial_bytes,
            fault,
        });
        Ok(())
    }
}

impl State {
    fn file(&self) -> Vec<u8> {
        let mut file = self.content.bytes().to_vec();
        file.resize(file.len().max(self.length), 0);
        file
    }

    /// Returns true if a disk with this block size refuses the operation.
    fn is_misaligned(&self, position: u64, memory: Span) -> bool {
        let address = memory.start.as_ptr().addr();
        // The file is a `Vec`, so positions in it fit in a `usize`.
        let numbers = [position as usize, memory.bytes, address];
        let mut numbers = numbers.into_iter();
        numbers.any(|number| !number.is_multiple_of(self.block_bytes))
    }

    /// Completes one of the pending operations, chosen at random.
    fn step(&mut self) -> Option<Completed> {
        let completable: Vec<usize> = (0..self.pending.len())
            .filter(|index| self.pending[*index].fault != Some(SimFault::Stalls))
            .collect();
        let index = *self.random.choice(&completable)?;
        let PendingOperation {
            operation, fault, ..
        } = self.pending.remove(index);
        let token = match operation {
            Operation::Write(write) => write.token,
            Operation::Read(read) => read.token,
            Operation::Sync(token, _) => token,
        };
        let result = match (operation, fault) {
            (_, Some(SimFault::Fails(number))) => Err(io::Error::from_raw_os_error(number)),
            (Operation::Write(write), fault) => {
                let bytes = match fault {
                    Some(SimFault::Short(bytes)) => bytes.min(write.memory.bytes),
                    _ => write.memory.bytes,
                };
                // SAFETY: the write's completion has not been returned, so the memory is mapped, as
                // the caller of `submit` guarantees.
                let written = unsafe { bytes_of(write.memory, bytes) };
                self.content.write(write.position, written);
                Ok(bytes)
            }
            (Operation::Read(read), fault) => {
                let bytes = match fault {
                    Some(SimFault::Short(bytes)) => bytes.min(read.memory.bytes),
                    _ => read.memory.bytes,
                };
                let file = self.file();
                let start = file.len().min(read.position as usize);
                let source = &file[start..file.len().min(start + bytes)];
                // SAFETY: the read's completion has not been returned, so the memory is mapped and
                // exclusive, as the caller of `submit_read` guarantees; `source` is at most as long
                // as the memory.
                unsafe {
                    let memory = read.memory.start.as_ptr();
                    std::ptr::copy_nonoverlapping(source.as_ptr(), memory, source.len());
                }
                Ok(source.len())
            }
            (Operation::Sync(_, changes), _) => {
                self.content.sync_to(changes);
                Ok(0)
            }
        };
        Some(Completed { token, result })
    }
}

impl Backend for SimDisk {
    fn kind(&self) -> BackendKind {
        BackendKind::PlainWrites
    }

    fn block_bytes(&self) -> usize {
        self.state().block_bytes
    }

    fn now(&self) -> Duration {
        self.state().now
    }

    unsafe fn register(&mut self, _: &[Span]) -> Option<FallbackReason> {
        None
    }

    unsafe fn submit(&mut self, write: Write) -> io::Result<()> {
        // SAFETY: the memory is mapped now, as the caller guarantees.
        let initial_bytes = unsafe { bytes_of(write.memory, write.memory.bytes) };
        self.begin(Operation::Write(write), initial_bytes.to_vec())
    }

    unsafe fn submit_read(&mut self, read: Read) -> io::Result<()> {
        self.begin(Operation::Read(read), Vec::new())
    }

    fn submit_sync(&mut self, token: Token) -> io::Result<()> {
        let changes = self.state().content.changes();
        self.begin(Operation::Sync(token, changes), Vec::new())
    }

    fn completed(&mut self, wait: Wait) -> io::Result<Option<Completed>> {
        let mut state = self.state();
        if wait == Wait::No && state.random.bool() {
            return Ok(None);
        }
        let completed = state.step();
        if let (None, Wait::Until(time)) = (&completed, wait) {
            state.now = state.now.max(time);
        }
        Ok(completed)
    }

    fn reserve(&mut self, position: u64, bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        let end = position.saturating_add(bytes);
        if end > state.capacity_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.reserved_to = end;
        Ok(())
    }

    fn extend(&mut self, length: u64) -> io::Result<()> {
        let mut state = self.state();
        // The file is a `Vec`, so its length fits in a `usize`.
        state.length = state.length.max(length as usize);
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let state = self.state();
        Ok(state.capacity_bytes.saturating_sub(state.reserved_to))
    }

    fn moved_file(&self) -> Option<MovedFile> {
        self.state().moved_file.clone()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut state = self.state();
        if let Some(number) = state.trim_fault {
            return Err(io::Error::from_raw_os_error(number));
        }
        state.content.set_length(length);
        state.length = 0;
        state.reserved_to = length;
        Ok(())
    }
}

/// Returns about half of `bytes`, rounded up to whole sectors.
fn half_of(bytes: usize) -> usize {
    (bytes / 2).next_multiple_of(SECTOR_BYTES).min(bytes)
}

/// # Safety
/// The memory is mapped, `bytes` is at most its length, and no code writes to the memory while the
/// result lives.
unsafe fn bytes_of<'a>(memory: Span, bytes: usize) -> &'a [u8] {
    // SAFETY: the caller guarantees the conditions above.
    unsafe { slice::from_raw_parts(memory.start.as_ptr(), bytes) }
}
