//! Tells the service manager (systemd) how the engine is: ready, stopping, alive.
//!
//! The manager names a datagram socket in `NOTIFY_SOCKET`. Without that variable, nothing is sent.
//! `WATCHDOG_USEC` and `WATCHDOG_PID` ask for keep-alive notifications.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use trunkline::figures::HealthMonitor;
use trunkline_web::HOUSEKEEPING_AGE_MAX;

use crate::Problem;

/// Time to wait for a manager that does not take its messages.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// The connection to the service manager, if there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct ServiceManager {
    socket: Option<Arc<(UnixDatagram, SocketAddr)>>,
    /// The manager kills the service if no notification arrives for this long.
    watchdog: Option<Duration>,
}

/// The thread that sends notifications. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Watchdog {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ServiceManager {
    /// Finds the manager in the environment of this process.
    ///
    /// # Errors
    /// The variables name a socket that cannot exist, or no duration.
    pub(super) fn of_this_process() -> Result<Self, Problem> {
        Self::new(|name| std::env::var_os(name), std::process::id())
    }

    fn new(variable: impl Fn(&str) -> Option<OsString>, pid: u32) -> Result<Self, Problem> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let Some(name) = variable("NOTIFY_SOCKET") else {
            return Ok(Self::default());
        };
        let unusable = |error: &dyn std::fmt::Display| {
            let sentence = format!(
                "NOTIFY_SOCKET is {}, which is not a socket that this program can use ({error}); \
                 unset it, or start the program as a systemd service",
                name.display()
            );
            Problem::failed("service-manager", sentence)
        };
        let address = address_of(&name).map_err(|error| unusable(&error))?;
        let socket = UnixDatagram::unbound().map_err(|error| unusable(&error))?;
        let timeout = socket.set_write_timeout(Some(SEND_TIMEOUT));
        timeout.map_err(|error| unusable(&error))?;
        // The watchdog of another process, which this one was started by, is not ours.
        let is_ours = variable("WATCHDOG_PID").is_none_or(|of| of == *pid.to_string());
        let watchdog = match variable("WATCHDOG_USEC").filter(|_| is_ours) {
            Some(text) => Some(microseconds(&text).ok_or_else(|| {
                let sentence = format!(
                    "WATCHDOG_USEC is {}, but must be a number of microseconds, at least 1",
                    text.display()
                );
                Problem::failed("service-manager", sentence)
            })?),
            None => None,
        };
        Ok(Self {
            socket: Some(Arc::new((socket, address))),
            watchdog,
        })
    }

    pub(super) fn wants_signs_of_life(&self) -> bool {
        self.watchdog.is_some()
    }

    /// Reports that clients can use the engine.
    pub(super) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", line(status)));
    }

    /// Reports that the engine has begun to read its configuration again. [`ready`](Self::ready)
    /// reports the end.
    pub(super) fn reloading(&self) {
        // systemd compares this time with that of its own signal.
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// Reports that the engine has begun to stop.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=Stopping");
    }

    /// Sets the sentence that `systemctl status` shows.
    pub(super) fn status(&self, status: &str) {
        self.send(&format!("STATUS={}", line(status)));
    }

    /// Starts to send notifications, if the manager asks for them: twice within its time limit, as
    /// long as the housekeeping of the engine runs.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub(super) fn watch(&self, monitor: HealthMonitor) -> Result<Option<Watchdog>, Problem> {
        let Some(limit) = self.watchdog else {
            return Ok(None);
        };
        self.watch_with(limit, move || monitor.housekeeping_age())
            .map(Some)
    }

    fn watch_with(
        &self,
        limit: Duration,
        housekeeping_age: impl Fn() -> Duration + Send + 'static,
    ) -> Result<Watchdog, Problem> {
        let (end, ended) = mpsc::channel::<()>();
        let manager = self.clone();
        let send = move || {
            loop {
                if housekeeping_age() <= HOUSEKEEPING_AGE_MAX {
                    manager.send("WATCHDOG=1");
                }
                if ended.recv_timeout(limit / 2) != Err(mpsc::RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("watchdog".to_owned());
        let thread = thread.spawn(send).map_err(|error| {
            let sentence = format!("the operating system cannot start another thread: {error}");
            Problem::failed("system", sentence)
        })?;
        Ok(Watchdog {
            end: Some(end),
            thread: Some(thread),
        })
    }

    fn send(&self, message: &str) {
        if let Some(of) = &self.socket {
            let (socket, address) = &**of;
            // A manager that cannot be reached is no reason to stop serving. It takes its own
            // measures if it misses a message.
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, it has ended already.
            let _ = thread.join();
        }
    }
}

/// Returns the address of a socket: a path, or a name in the abstract namespace after `@`.
fn address_of(name: &OsStr) -> std::io::Result<SocketAddr> {
    match name.as_bytes() {
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => {
            use std::os::linux::net::SocketAddrExt;
            SocketAddr::from_abstract_name(name)
        }
        [b'/', ..] => SocketAddr::from_pathname(Path::new(name)),
        _ => {
            let sentence = "it must begin with / or, on Linux, with @";
            Err(std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                sentence,
            ))
        }
    }
}

fn microseconds(text: &OsStr) -> Option<Duration> {
    let microseconds: u64 = text.to_str()?.parse().ok()?;
    (microseconds > 0).then(|| Duration::from_micros(microseconds))
}

/// Joins lines, because a line break would begin another message.
fn line(text: &str) -> String {
    text.split(['\n', '\r']).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::sync::Mutex;

    use super::*;

    const CUT_OFF: Duration = Duration::from_secs(60);

    fn manager(variables: &[(&str, &OsStr)]) -> Result<ServiceManager, Problem> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        ServiceManager::new(variable, 42)
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 4096];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn messages_reach_sockets_with_a_path_and_abstract_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        let name = format!("trunkline-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        let by_name = UnixDatagram::bind_addr(&abstract_name).unwrap();
        let name = OsString::from(format!("@{name}"));
        for (socket, name) in [(by_path, path.as_os_str()), (by_name, &name)] {
            socket.set_read_timeout(Some(CUT_OFF)).unwrap();
            let sut = manager(&[("NOTIFY_SOCKET", name)]).unwrap();
            sut.ready("Listening on\na");
            sut.status("b");
            sut.reloading();
            sut.stopping();
            assert_eq!(received(&socket), "READY=1\nSTATUS=Listening on a");
            assert_eq!(received(&socket), "STATUS=b");
            let reloading = received(&socket);
            let micros = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
            let micros = micros.and_then(|micros| micros.parse::<u64>().ok());
            assert!(micros.is_some_and(|micros| micros > 0), "{reloading}");
            assert_eq!(received(&socket), "STOPPING=1\nSTATUS=Stopping");
            assert!(!sut.wants_signs_of_life());
        }
    }

    #[test]
    fn without_a_manager_nothing_is_sent() {
        let sut = manager(&[("WATCHDOG_USEC", OsStr::new("1000"))]).unwrap();
        assert!(!sut.wants_signs_of_life());
        sut.ready("nothing");
    }

    #[test]
    fn unusable_variables_are_errors() {
        for socket in ["relative", "vsock:2:1234"] {
            let problem = manager(&[("NOTIFY_SOCKET", OsStr::new(socket))]).unwrap_err();
            assert!(problem.message.contains(socket), "{problem:?}");
        }
        for time in ["0", "-1", "soon"] {
            let variables = [
                ("NOTIFY_SOCKET", OsStr::new("/run/none")),
                ("WATCHDOG_USEC", OsStr::new(time)),
            ];
            let problem = manager(&variables).unwrap_err();
            assert!(problem.message.contains("WATCHDOG_USEC"), "{problem:?}");
        }
    }

    #[test]
    fn watchdog_of_another_process_is_ignored() {
        let with_pid = |pid: &'static str| {
            let variables = [
                ("NOTIFY_SOCKET", OsStr::new("/run/none")),
                ("WATCHDOG_USEC", OsStr::new("2000000")),
                ("WATCHDOG_PID", OsStr::new(pid)),
            ];
            manager(&variables).unwrap().watchdog
        };
        assert_eq!(with_pid("42"), Some(Duration::from_secs(2)));
        assert_eq!(with_pid("43"), None);
    }

    /// The age is asked before every sign. After the one that is too old, the next sign must come
    /// after an age that is not.
    #[test]
    fn signs_of_life_stop_while_the_housekeeping_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(CUT_OFF)).unwrap();
        let sut = manager(&[("NOTIFY_SOCKET", path.as_os_str())]).unwrap();
        let too_old = HOUSEKEEPING_AGE_MAX + Duration::from_nanos(1);
        let asked = Arc::new(Mutex::new(0));
        let count = Arc::clone(&asked);
        let age = move || {
            let mut asked = count.lock().unwrap();
            *asked += 1;
            match *asked {
                1 | 5.. => Duration::ZERO,
                _ => too_old,
            }
        };
        let watchdog = sut.watch_with(Duration::from_millis(2), age).unwrap();
        assert_eq!(received(&socket), "WATCHDOG=1");
        assert_eq!(received(&socket), "WATCHDOG=1");
        assert!(*asked.lock().unwrap() >= 5);
        drop(watchdog);
    }
}
