//! The file, or the series of files, to which a stream is recorded.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Access, CWD, Mode, OFlags, access, openat};
use trunkline::record::{
    Closed, Durability, ElementSeries, FailedStep, FreeSpace, MovedFile, Progress, RecordError,
    Segments, TdmsRecording, TdmsSeries, WriteQueue,
};

use super::running::Figures;
use crate::counted;
use crate::replace::folder_of;

pub(super) trait StreamFile {
    /// Returns the state of the recording over all its files, excluding the rate.
    fn figures(&self) -> Figures;

    /// Returns the free space on the disk of the current file.
    fn free_space(&self) -> FreeSpace;

    /// Returns the number of bytes copied in memory before they were written to the current file.
    fn bytes_copied(&self) -> u64;

    /// Returns where the current file and its checksum file are, if they are no longer at their
    /// original paths.
    fn moved_files(&self) -> [Option<&MovedFile>; 2];

    /// Closes the current file, and returns the result over all files.
    fn end(&mut self, timeout: Duration) -> Result<RecordedFiles, RecordError>;
}

fn figures(rows: u64, lost: u64, progress: &Progress, earlier_bytes: u64) -> Figures {
    let queue_bytes = progress.accepted.saturating_sub(progress.written);
    Figures {
        rows,
        bytes: earlier_bytes + progress.written,
        queue_bytes: queue_bytes + progress.bytes_collected as u64,
        lost,
        ..Figures::default()
    }
}

/// The result of recording a stream, over all files.
#[derive(Debug, Default)]
pub(super) struct RecordedFiles {
    pub(super) count: u32,
    pub(super) bytes: u64,
    pub(super) lost: u64,
    /// True if a part of the data may not survive a loss of power.
    pub(super) is_unsafe: bool,
    /// Errors that concern single files of a series, one sentence each.
    pub(super) errors: Vec<String>,
    /// System error number, if a file could not be truncated to its length.
    pub(super) untrimmed: Option<i32>,
    /// System error number, if a sync has failed.
    pub(super) sync_failure: Option<i32>,
    /// Reason why a recording to a single file failed.
    pub(super) failure: Option<String>,
}

impl RecordedFiles {
    fn add(&mut self, closed: &Closed) {
        self.count += 1;
        self.bytes += closed.length;
        self.is_unsafe |= closed.durability != Durability::OnDisk;
        self.untrimmed = self.untrimmed.or(closed.truncate_error);
        if let Some(failure) = closed.failure {
            if failure.step == FailedStep::Sync {
                self.sync_failure = self.sync_failure.or(Some(failure.os_error));
            }
            self.failure.get_or_insert(failure.to_string());
        }
    }
}

impl StreamFile for TdmsRecording {
    fn figures(&self) -> Figures {
        figures(self.rows(), self.lost(), &self.progress(), 0)
    }

    fn free_space(&self) -> FreeSpace {
        self.progress().free_space
    }

    fn bytes_copied(&self) -> u64 {
        self.progress().bytes_copied
    }

    fn moved_files(&self) -> [Option<&MovedFile>; 2] {
        [self.queue().moved_file(), self.queue().moved_sums_file()]
    }

    fn end(&mut self, timeout: Duration) -> Result<RecordedFiles, RecordError> {
        let mut files = RecordedFiles::default();
        files.add(&self.close(timeout)?);
        files.lost = self.lost();
        Ok(files)
    }
}

impl<O: FnMut(u32) -> io::Result<WriteQueue>> StreamFile for TdmsSeries<O> {
    fn figures(&self) -> Figures {
        let progress = self.file().progress();
        figures(
            self.rows(),
            self.rows_lost(),
            &progress,
            self.bytes_before(),
        )
    }

    fn free_space(&self) -> FreeSpace {
        self.file().progress().free_space
    }

    fn bytes_copied(&self) -> u64 {
        self.file().progress().bytes_copied
    }

    fn moved_files(&self) -> [Option<&MovedFile>; 2] {
        let queue = self.file().queue();
        [queue.moved_file(), queue.moved_sums_file()]
    }

    fn end(&mut self, _: Duration) -> Result<RecordedFiles, RecordError> {
        // The series uses the timeout that was given at its start.
        let last = self.close()?;
        let omitted = self.discarded_results();
        let mut files = RecordedFiles {
            count: omitted.files,
            bytes: omitted.bytes,
            lost: omitted.rows_lost,
            is_unsafe: omitted.not_on_disk > 0,
            untrimmed: omitted.truncate_error,
            sync_failure: omitted.sync_failure,
            ..RecordedFiles::default()
        };
        if omitted.failed > 0 {
            let failed = counted(u64::from(omitted.failed), "earlier file");
            files.errors.push(format!("{failed} failed"));
        }
        let earlier = std::iter::from_fn(|| self.take_ended());
        for ended in earlier.collect::<Vec<_>>().iter().chain([&last]) {
            files.add(&ended.closed);
            files.lost += ended.rows_lost;
            if let Some(failure) = files.failure.take() {
                files
                    .errors
                    .push(format!("file {}: {failure}", ended.number));
            }
        }
        Ok(files)
    }
}

/// Files of elements that vary in size or have several parts. The recording has already ended when `end`
/// is called.
impl<S: Segments, O: FnMut(u32) -> io::Result<S>> StreamFile for ElementSeries<S, O> {
    fn figures(&self) -> Figures {
        let progress = self.progress();
        Figures {
            rows: progress.updates,
            bytes: progress.bytes,
            queue_bytes: progress.waiting_bytes as u64,
            lost: progress.lost,
            ..Figures::default()
        }
    }

    fn free_space(&self) -> FreeSpace {
        (**self).free_space()
    }

    fn bytes_copied(&self) -> u64 {
        self.progress().bytes
    }

    fn moved_files(&self) -> [Option<&MovedFile>; 2] {
        [(**self).moved_file(), self.moved_sums_file()]
    }

    fn end(&mut self, _: Duration) -> Result<RecordedFiles, RecordError> {
        let progress = self.progress();
        let mut files = RecordedFiles {
            count: self.number(),
            bytes: progress.bytes,
            lost: progress.lost,
            is_unsafe: progress.on_disk < progress.updates,
            sync_failure: progress.sync_failure,
            ..RecordedFiles::default()
        };
        let omitted = self.discarded_results().not_on_disk;
        if omitted > 0 {
            let earlier = counted(u64::from(omitted), "earlier file");
            let error = format!("not all data in {earlier} would survive a loss of power");
            files.errors.push(error);
        }
        while let Some(ended) = self.take_ended() {
            if !ended.is_on_disk {
                let number = ended.number;
                let error =
                    format!("file {number}: not all of its data would survive a loss of power");
                files.errors.push(error);
            }
        }
        Ok(files)
    }
}

/// Checks that a file can be created in the folder of this path, before the command waits for its peer.
pub(super) fn check_folder(path: &Path) -> io::Result<()> {
    let folder = folder_of(path);
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    // An unnamed temporary file leaves nothing behind.
    match openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => {
            drop(File::from(file));
            Ok(())
        }
        // The file system does not support unnamed temporary files.
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

    use super::super::recorded::{Amounts, Recorded, system_error};
    use super::super::untrimmed_text;
    use super::*;
    use crate::output::record::object;

    /// Returns the result of a recording. With `fault`, its file cannot be truncated.
    fn recorded_with(fault: Option<i32>) -> RecordedFiles {
        let disk = SimDisk::new(1, 512);
        let queue = WriteQueue::new(Box::new(disk.clone()), QueueOptions::default(), Vec::new());
        let layout = TdmsLayout {
            timestamps: Vec::new(),
            group: "g".into(),
            channels: vec![("a".into(), TdmsType::I64)],
            waveform: None,
        };
        let timeout = Duration::from_secs(5);
        let mut sut = TdmsRecording::start(queue, &layout, timeout).unwrap();
        disk.set_trim_fault(fault);
        sut.end(timeout).unwrap()
    }

    /// Behaviour: B-70.
    #[test]
    fn file_errors_are_reported_at_the_end() {
        let files = recorded_with(None);
        assert_eq!((files.failure, files.untrimmed), (None, None));
        assert_eq!((files.count, files.sync_failure), (1, None));
        let files = recorded_with(Some(30));
        assert_eq!(files.untrimmed, Some(30));
        assert!(files.failure.is_some());
        let amounts = Amounts::Elements {
            files: None,
            elements: 0,
            lost: 0,
        };
        let object = object(&Recorded {
            sync_failure: files.sync_failure.map(system_error),
            untrimmed: files.untrimmed.map(system_error),
            ..Recorded::without_file(String::new(), amounts, String::new())
        });
        let message = object["untrimmed"].as_str().unwrap();
        assert!(message.contains("os error 30"), "{message}");
        assert_eq!(object.get("sync_failure"), None);
        let message = untrimmed_text(30);
        assert!(
            message.contains("os error 30") && message.contains("repair"),
            "{message}"
        );
    }

    #[test]
    fn unusable_folder_is_detected_and_the_check_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        check_folder(&folder.path().join("x.tdms")).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(check_folder(&folder.path().join("nowhere/x.tdms")).is_err());
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(check_folder(&file.join("x.tdms")).is_err());
    }
}
