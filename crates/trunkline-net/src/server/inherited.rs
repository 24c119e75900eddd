//! Listening sockets that a service manager has opened for this process (socket activation).
//!
//! The manager passes sockets from descriptor 3 on, and describes them in `LISTEN_FDS` (their number),
//! `LISTEN_PID` (the process they are for) and `LISTEN_FDNAMES` (their names, separated by `:`), as
//! systemd documents in sd_listen_fds(3).

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};
use socket2::Socket;
use trunkline_types::{ListenAddress, SocketPath};

use crate::sync::{Arc, Mutex, lock};

/// The descriptor of the first socket.
const FIRST: RawFd = 3;
/// Maximum number of sockets.
const SOCKETS_MAX: usize = 64;
const VARIABLES: [&str; 3] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"];

/// A listening socket of the service manager.
#[derive(Debug)]
struct InheritedSocket {
    /// The name in the manager's configuration; empty if there is none.
    name: String,
    address: ListenAddress,
    listener: Listener,
}

/// A socket that listens. The manager may continue to listen with it after this is dropped.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The reason why a socket of the service manager cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InheritedError {
    #[error("LISTEN_FDS is {text:?}, but must be a number from 0 to {SOCKETS_MAX}")]
    Count { text: OsString },
    #[error(
        "LISTEN_FDNAMES has {names} names for {sockets} sockets; let the service manager set both \
         variables"
    )]
    Names { names: usize, sockets: usize },
    #[error(
        "descriptor {descriptor} was not passed by the service manager ({reason}); unset \
         LISTEN_FDS, or start the program with a systemd socket unit"
    )]
    NotInherited {
        descriptor: RawFd,
        reason: &'static str,
    },
    #[error(
        "descriptor {descriptor} of the service manager cannot be used ({reason}); pass only stream \
         sockets that listen on TCP addresses or on Unix sockets with an absolute path ending in .sock \
         (ListenStream= and Accept=no)"
    )]
    NotAListener { descriptor: RawFd, reason: String },
    #[error("the sockets of the service manager must be claimed before the program starts threads")]
    TooLate,
}

/// The sockets that a service manager has passed to this process, until a server takes them. Copies
/// share them.
#[derive(Clone, Debug, Default)]
pub struct InheritedSockets(Arc<Mutex<Vec<InheritedSocket>>>);

impl InheritedSockets {
    /// Takes over the sockets that the service manager has passed to this process, and removes the
    /// variables that describe them. There are none if the variables are missing or are for another
    /// process.
    ///
    /// Call it at the start of the program, before it starts threads: changing the environment is not
    /// safe while another thread reads it.
    ///
    /// # Errors
    /// [`InheritedError`] if the variables or a socket cannot be used. The variables are removed then
    /// as well, unless there are other threads.
    pub fn claim() -> Result<Self, InheritedError> {
        let variable = |name: &str| std::env::var_os(name);
        let pid = variable("LISTEN_PID");
        if pid.is_none_or(|pid| pid != *std::process::id().to_string()) {
            return Ok(Self::default());
        }
        let (count, names) = (variable("LISTEN_FDS"), variable("LISTEN_FDNAMES"));
        remove_variables()?;
        let names = parse(count.unwrap_or_default(), names)?;
        let claimed = (FIRST..)
            .zip(names)
            .map(|(descriptor, name)| claim(descriptor, name));
        let sockets: Vec<InheritedSocket> = claimed.collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Mutex::new(sockets))))
    }

    /// Returns the name and the address of each socket that was not taken yet.
    pub fn addresses(&self) -> Vec<(String, ListenAddress)> {
        let sockets = lock(&self.0);
        let described = sockets
            .iter()
            .map(|socket| (socket.name.clone(), socket.address.clone()));
        described.collect()
    }

    /// Takes the socket that listens at a TCP address, for another server than that of this crate.
    pub fn take_tcp(&self, address: SocketAddr) -> Option<TcpListener> {
        match self.take(&address.into())? {
            Listener::Tcp(listener) => Some(listener),
            Listener::Unix(_) => None,
        }
    }

    pub(super) fn take(&self, address: &ListenAddress) -> Option<Listener> {
        let mut sockets = lock(&self.0);
        let place = sockets.iter().position(|one| one.address == *address)?;
        Some(sockets.swap_remove(place).listener)
    }
}

/// Returns the name of each socket.
fn parse(count: OsString, names: Option<OsString>) -> Result<Vec<String>, InheritedError> {
    let number = count.to_str().and_then(|text| text.parse::<usize>().ok());
    let Some(sockets) = number.filter(|number| *number <= SOCKETS_MAX) else {
        return Err(InheritedError::Count { text: count });
    };
    let Some(names) = names.filter(|names| !names.is_empty()) else {
        return Ok(vec![String::new(); sockets]);
    };
    let names: Vec<String> = names
        .to_string_lossy()
        .split(':')
        .map(str::to_owned)
        .collect();
    match names.len() == sockets {
        true => Ok(names),
        false => Err(InheritedError::Names {
            names: names.len(),
            sockets,
        }),
    }
}

#[allow(unsafe_code, reason = "the environment belongs to the whole process")]
fn remove_variables() -> Result<(), InheritedError> {
    // Linux lists the threads of a process; elsewhere, nothing passes sockets in this way.
    let threads = std::fs::read_dir("/proc/self/task").map(Iterator::count);
    if !matches!(threads, Ok(1)) {
        return Err(InheritedError::TooLate);
    }
    for name in VARIABLES {
        // SAFETY: this is the only thread of the process, so no other thread reads the environment.
        unsafe { std::env::remove_var(name) };
    }
    Ok(())
}

fn claim(descriptor: RawFd, name: String) -> Result<InheritedSocket, InheritedError> {
    let socket = own(descriptor)?;
    let unusable = |reason: String| InheritedError::NotAListener { descriptor, reason };
    let failed = |error: rustix::io::Errno| unusable(error.to_string());
    if socket_type(&socket).map_err(failed)? != SocketType::STREAM {
        return Err(unusable("it is not a stream socket".to_owned()));
    }
    if !socket_acceptconn(&socket).map_err(failed)? {
        return Err(unusable("it does not listen".to_owned()));
    }
    let domain = socket_domain(&socket).map_err(failed)?;
    let socket = Socket::from(socket);
    let io_failed = |error: io::Error| unusable(error.to_string());
    socket.set_nonblocking(true).map_err(io_failed)?;
    let address = socket.local_addr().map_err(io_failed)?;
    let (address, listener) = match domain {
        AddressFamily::INET | AddressFamily::INET6 => {
            let address = address
                .as_socket()
                .ok_or_else(|| unusable("it has no address".to_owned()))?;
            (
                ListenAddress::Tcp(address),
                Listener::Tcp(TcpListener::from(socket)),
            )
        }
        AddressFamily::UNIX => {
            let path = address.as_pathname().and_then(|path| path.to_str());
            let path = path.ok_or_else(|| unusable("it has no path".to_owned()))?;
            let path = SocketPath::parse(path).map_err(|error| unusable(error.to_string()))?;
            let listener = UnixListener::from(OwnedFd::from(socket));
            (ListenAddress::Unix(path), Listener::Unix(listener))
        }
        other => {
            return Err(unusable(format!(
                "its address family is {}",
                other.as_raw()
            )));
        }
    };
    Ok(InheritedSocket {
        name,
        address,
        listener,
    })
}

/// Takes over a descriptor that this process has inherited.
#[allow(unsafe_code, reason = "an inherited descriptor is only a number")]
fn own(descriptor: RawFd) -> Result<OwnedFd, InheritedError> {
    let foreign = |reason| InheritedError::NotInherited { descriptor, reason };
    // SAFETY: the reference is used only by two calls that report a number that is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let flags = fcntl_getfd(borrowed).map_err(|_| foreign("it is not open"))?;
    // Everything that this program opens closes on execution, so it cannot have been inherited; and a
    // socket that was claimed cannot be claimed again.
    if flags.contains(FdFlags::CLOEXEC) {
        return Err(foreign("it belongs to this program"));
    }
    fcntl_setfd(borrowed, FdFlags::CLOEXEC).map_err(|_| foreign("it is not open"))?;
    // SAFETY: the descriptor is open, and nothing in this process owns it: it stayed open when the
    // program was executed, and was not claimed since.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_must_fit() {
        let parsed = |count: &str, names: Option<&str>| {
            parse(count.into(), names.map(OsString::from)).map_err(|error| error.to_string())
        };
        assert_eq!(parsed("0", None), Ok(vec![]));
        assert_eq!(parsed("2", None), Ok(vec![String::new(); 2]));
        assert_eq!(
            parsed("2", Some("listen:http")),
            Ok(vec!["listen".to_owned(), "http".to_owned()])
        );
        for count in ["", "-1", "65", "many", "18446744073709551616"] {
            let error = parsed(count, None).unwrap_err();
            assert!(error.contains("LISTEN_FDS is"), "{error}");
        }
        let error = parsed("2", Some("listen")).unwrap_err();
        assert!(error.contains("1 names for 2 sockets"), "{error}");
    }

    /// What this program has opened itself is never taken over, whatever the variables say.
    #[test]
    fn descriptors_of_this_program_are_refused() {
        use std::os::fd::AsRawFd;
        let own = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = claim(own.as_raw_fd(), String::new()).unwrap_err();
        assert!(
            error.to_string().contains("belongs to this program"),
            "{error}"
        );
        let error = claim(1_000_000, String::new()).unwrap_err();
        assert!(error.to_string().contains("is not open"), "{error}");
    }

    /// The environment of a process with several threads stays as it is.
    #[test]
    fn variables_are_not_removed_while_there_are_threads() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || ended.recv());
        assert!(matches!(remove_variables(), Err(InheritedError::TooLate)));
        drop(end);
        let _ended = thread.join();
    }
}
