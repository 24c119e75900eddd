//! The file, or series of files, in which a stream is recorded.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Access, CWD, Mode, OFlags, access, openat};
use trunkline::record::{
    Backend, Closed, Displaced, Durability, ElementSeries, FailedStep, Progress, RecordError, Room,
    Segments, TdmsRecording, TdmsSeries, WriteQueue,
};

/// Progress of a recording, over all its files.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileProgress {
    /// Bytes written.
    pub(super) bytes: u64,
    /// Bytes waiting to be written.
    pub(super) queue_bytes: u64,
    /// Bytes copied on the way to the current file.
    pub(super) bytes_copied: u64,
    pub(super) room: Room,
}

impl FileProgress {
    fn of_queue(progress: &Progress, bytes_before: u64) -> Self {
        let queue_bytes = progress.accepted.saturating_sub(progress.written);
        Self {
            bytes: bytes_before + progress.written,
            queue_bytes: queue_bytes + progress.bytes_collected as u64,
            bytes_copied: progress.bytes_copied,
            room: progress.room,
        }
    }
}

/// The interface for displaying and ending a recording.
pub(super) trait StreamFile {
    /// Returns the number of elements taken.
    fn elements(&self) -> u64;

    /// Returns the progress.
    fn file_progress(&self) -> FileProgress;

    /// Returns the displacement of the current file and of its checksums, if their names no longer
    /// lead to them.
    fn displaced(&self) -> [Option<&Displaced>; 2];

    /// Returns the number of missing elements.
    fn lost(&self) -> u64;

    /// Ends the recording.
    ///
    /// # Errors
    /// [`RecordError`].
    fn end(&mut self, wait: Duration) -> Result<Came, RecordError>;
}

/// The result of a recording.
#[derive(Debug, Default)]
pub(super) struct Came {
    pub(super) files: u32,
    pub(super) bytes: u64,
    pub(super) lost: u64,
    /// True if some of it is not safe from a loss of power.
    pub(super) is_unsafe: bool,
    /// Failures of its files.
    pub(super) troubles: Vec<String>,
    /// System error number, if a file could not be truncated to its length.
    pub(super) untrimmed: Option<i32>,
    /// System error number, if a sync has failed.
    pub(super) sync_failure: Option<i32>,
    /// Failure of the only file.
    pub(super) failure: Option<String>,
}

impl Came {
    fn add(&mut self, closed: &Closed) {
        self.files += 1;
        self.bytes += closed.length;
        self.is_unsafe |= closed.durability != Durability::OnDisk;
        self.untrimmed = self.untrimmed.or(closed.untrimmed);
        if let Some(failure) = closed.failure {
            if failure.step == FailedStep::Sync {
                self.sync_failure = self.sync_failure.or(Some(failure.os_error));
            }
            self.failure.get_or_insert(failure.to_string());
        }
    }
}

impl<B: Backend> StreamFile for TdmsRecording<B> {
    fn elements(&self) -> u64 {
        self.rows()
    }

    fn file_progress(&self) -> FileProgress {
        FileProgress::of_queue(&self.progress(), 0)
    }

    fn displaced(&self) -> [Option<&Displaced>; 2] {
        [self.queue().displaced(), self.queue().sums_displaced()]
    }

    fn lost(&self) -> u64 {
        self.lost()
    }

    fn end(&mut self, wait: Duration) -> Result<Came, RecordError> {
        let mut came = Came::default();
        came.add(&self.close(wait)?);
        came.lost = self.lost();
        Ok(came)
    }
}

impl<B: Backend, O: FnMut(u32) -> io::Result<WriteQueue<B>>> StreamFile for TdmsSeries<B, O> {
    fn elements(&self) -> u64 {
        self.rows()
    }

    fn file_progress(&self) -> FileProgress {
        FileProgress::of_queue(&self.file().progress(), self.bytes_before())
    }

    fn displaced(&self) -> [Option<&Displaced>; 2] {
        let queue = self.file().queue();
        [queue.displaced(), queue.sums_displaced()]
    }

    fn lost(&self) -> u64 {
        self.rows_lost()
    }

    fn end(&mut self, _: Duration) -> Result<Came, RecordError> {
        // The wait given at its start applies, not this one.
        let last = self.close()?;
        let mut came = Came::default();
        let before = std::iter::from_fn(|| self.take_ended());
        for ended in before.collect::<Vec<_>>().iter().chain([&last]) {
            came.add(&ended.closed);
            came.lost += ended.rows_lost;
            if let Some(failure) = came.failure.take() {
                came.troubles
                    .push(format!("file {}: {failure}", ended.number));
            }
        }
        Ok(came)
    }
}

/// For elements that vary in size or have parts. Their recording has already ended.
impl<S: Segments, O: FnMut(u32) -> io::Result<S>> StreamFile for ElementSeries<S, O> {
    fn elements(&self) -> u64 {
        self.progress().updates
    }

    fn file_progress(&self) -> FileProgress {
        let progress = self.progress();
        FileProgress {
            bytes: progress.bytes,
            queue_bytes: progress.waiting_bytes as u64,
            bytes_copied: progress.bytes,
            room: self.room(),
        }
    }

    fn displaced(&self) -> [Option<&Displaced>; 2] {
        [self.displaced(), self.sums_displaced()]
    }

    fn lost(&self) -> u64 {
        self.progress().lost
    }

    fn end(&mut self, _: Duration) -> Result<Came, RecordError> {
        let progress = self.progress();
        let mut came = Came {
            files: self.number(),
            bytes: progress.bytes,
            lost: progress.lost,
            is_unsafe: progress.on_disk < progress.updates,
            sync_failure: progress.sync_failure,
            ..Came::default()
        };
        while let Some(ended) = self.take_ended() {
            if !ended.is_on_disk {
                let number = ended.number;
                let trouble = format!("file {number}: not all of it is safe from a loss of power");
                came.troubles.push(trouble);
            }
        }
        Ok(came)
    }
}

/// Checks that a file can be created in the folder of this path, before waiting for the other end.
///
/// # Errors
/// The error of the system.
pub(super) fn check_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    // A file without a name, which leaves nothing behind.
    match openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => {
            drop(File::from(file));
            Ok(())
        }
        // The file system does not support that.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {
            Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use trunkline::record::{QueueOptions, SimDisk, TdmsLayout};
    use trunkline::tdms::TdmsType;

    use super::super::{put_failures, untrimmed_text};
    use super::*;
    use crate::output::json::Object;

    /// Returns the result of a recording whose file can, or cannot, be truncated.
    fn came_of(fault: Option<i32>) -> Came {
        let disk = SimDisk::new(1, 512);
        let queue = WriteQueue::new(disk.clone(), QueueOptions::default(), Vec::new());
        let layout = TdmsLayout {
            timestamps: Vec::new(),
            group: "g".into(),
            channels: vec![("a".into(), TdmsType::I64)],
            waveform: None,
        };
        let wait = Duration::from_secs(5);
        let mut sut = TdmsRecording::start(queue, &layout, wait).unwrap();
        disk.set_trim_fault(fault);
        sut.end(wait).unwrap()
    }

    /// Behaviour: B-70.
    #[test]
    fn what_went_wrong_with_a_file_is_told_at_the_end() {
        let came = came_of(None);
        assert_eq!((came.failure, came.untrimmed), (None, None));
        assert_eq!((came.files, came.sync_failure), (1, None));
        let came = came_of(Some(30));
        assert_eq!(came.untrimmed, Some(30));
        assert!(came.failure.is_some());
        let mut object = Object::new();
        put_failures(&mut object, came.sync_failure, came.untrimmed);
        let object = object.into_json();
        let said = object["untrimmed"].as_str().unwrap();
        assert!(said.contains("os error 30"), "{said}");
        assert_eq!(object.get("sync_failure"), None);
        let said = untrimmed_text(30);
        assert!(
            said.contains("os error 30") && said.contains("repair"),
            "{said}"
        );
    }

    #[test]
    fn a_folder_that_takes_no_file_is_found_out_and_nothing_is_left_in_one_that_does() {
        let folder = tempfile::tempdir().unwrap();
        check_folder(&folder.path().join("x.tdms")).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(check_folder(&folder.path().join("nowhere/x.tdms")).is_err());
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(check_folder(&file.join("x.tdms")).is_err());
    }
}
