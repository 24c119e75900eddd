//! The hosts under which the server may be addressed.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap};
use hyper::http::uri::Authority;
use hyper::{StatusCode, Uri};

/// Longest DNS name, in bytes.
const NAME_BYTES_MAX: usize = 253;

/// The names and addresses that the `Host` of a request may contain: `localhost`, `127.0.0.1`,
/// `[::1]`, the address at which the server listens, and configured names. Ports do not matter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowedHosts(Vec<String>);

/// The error for a configured name that is not a DNS name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "\"{name}\" is not a host name; use letters, digits, `-` and `.`, without a port, such as \
     plant7.example"
)]
pub struct HostNameError {
    /// The name as configured.
    pub name: String,
}

impl AllowedHosts {
    /// Permits the names of this machine's loopback addresses, and `names`.
    ///
    /// # Errors
    /// A name is not a DNS name.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self, HostNameError> {
        let mut allowed: Vec<String> = ["localhost", "127.0.0.1", "[::1]"]
            .map(str::to_owned)
            .into();
        for name in names {
            if !is_host_name(name) {
                let name = name.to_owned();
                return Err(HostNameError { name });
            }
            allowed.push(name.to_ascii_lowercase());
        }
        Ok(Self(allowed))
    }

    /// Also permits the address at which the server listens.
    pub(crate) fn with_address(mut self, address: IpAddr) -> Self {
        self.0.push(match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        });
        self
    }

    fn contains(&self, host: &str) -> bool {
        self.0
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(host))
    }

    /// Checks the target and the `Host` of a request. Returns the status and the sentence of a
    /// refusal.
    pub(crate) fn check(
        &self,
        target: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), (StatusCode, &'static str)> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            let sentence = "a request must have one Host header";
            return Err((StatusCode::BAD_REQUEST, sentence));
        };
        let host: Option<Authority> = host.to_str().ok().and_then(|host| host.parse().ok());
        // The target contains a host only if the client takes the server for a proxy.
        let hosts = [host.as_ref(), target.authority()];
        let is_allowed = |host: &Authority| {
            // User names before the host are not sent by any client.
            !host.as_str().contains('@') && self.contains(host.host())
        };
        match host.is_some() && hosts.into_iter().flatten().all(is_allowed) {
            true => Ok(()),
            false => {
                let sentence = "this server does not answer for that host; use localhost or an \
                                address of this machine, or add the name to `http_hosts` in the \
                                engine's configuration";
                Err((StatusCode::MISDIRECTED_REQUEST, sentence))
            }
        }
    }
}

fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_permitted = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(is_permitted)
    };
    name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn status(target: &str, hosts: &[&str]) -> Option<u16> {
        let sut = AllowedHosts::new(["Plant7.example"]).unwrap();
        let sut = sut.with_address("127.0.0.5".parse().unwrap());
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_str(host).unwrap());
        }
        let checked = sut.check(&target.parse().unwrap(), &headers);
        checked.err().map(|(status, _)| status.as_u16())
    }

    #[test]
    fn hosts_of_this_machine_and_configured_names_are_permitted() {
        for host in [
            "localhost",
            "LOCALHOST:8420",
            "127.0.0.1:8420",
            "127.0.0.5",
            "[::1]",
            "[::1]:8420",
            "plant7.EXAMPLE:80",
        ] {
            assert_eq!(status("/metrics", &[host]), None, "{host}");
        }
    }

    #[test]
    fn other_hosts_are_refused() {
        for host in [
            "",
            "evil.example",
            "evil.example:8420",
            "localhost.evil.example",
            "127.0.0.2",
            "[::2]",
            "localhost@evil.example",
            "evil.example@localhost",
            "local host",
        ] {
            assert_eq!(status("/metrics", &[host]), Some(421), "{host}");
        }
        assert_eq!(
            status("http://evil.example/metrics", &["localhost"]),
            Some(421)
        );
        assert_eq!(
            status("http://localhost/metrics", &["evil.example"]),
            Some(421)
        );
        assert_eq!(status("http://localhost/metrics", &["localhost"]), None);
    }

    #[test]
    fn requests_without_exactly_one_host_are_malformed() {
        assert_eq!(status("/metrics", &[]), Some(400));
        assert_eq!(status("/metrics", &["localhost", "localhost"]), Some(400));
    }

    #[test]
    fn configured_names_are_names_without_a_port() {
        for name in [
            "",
            "a..b",
            "plant:80",
            "http://plant",
            "*",
            "pl ant",
            "*.example",
        ] {
            let error = AllowedHosts::new([name]).unwrap_err();
            assert!(error.to_string().contains("is not a host name"), "{error}");
        }
        assert!(AllowedHosts::new(["a".repeat(64).as_str()]).is_err());
        assert!(AllowedHosts::new(["plant", "a-b.example", "x_1"]).is_ok());
    }
}
