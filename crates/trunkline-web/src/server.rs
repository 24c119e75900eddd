//! The server: one thread that accepts connections and answers their requests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::health::HealthSource;
use crate::hosts::AllowedHosts;
use crate::{metrics, readiness};

/// Maximum number of connections at the same time. One more closes the oldest, so that clients that send
/// nothing do not keep others out. A complete request is answered at once, so only a client that is slow to
/// send it, or to receive the response, can be the oldest.
pub const CONNECTIONS_MAX: usize = 32;
/// Longest time of a connection, from its acceptance to the end of the response. A connection
/// carries one request.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum size of the first line and the headers of a request.
pub const HEADER_BYTES_MAX: usize = 8192;

/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 64;
/// Pause after the system had no descriptor or memory for a connection.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

/// The reason why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Other machines could reach the address.
    #[error(
        "other machines can reach {address}, and HTTP requests are not authenticated or encrypted yet; use \
         127.0.0.1 or [::1] for HTTP"
    )]
    NotLoopback {
        /// The address as configured.
        address: SocketAddr,
    },
    /// Another program listens there.
    #[error(
        "port {} on {} is in use by another program; stop it, or choose another port for HTTP",
        address.port(), address.ip()
    )]
    PortInUse {
        /// The address as configured.
        address: SocketAddr,
    },
    /// The system does not let this user listen there.
    #[error(
        "this user has no permission to listen on port {} of {}; choose a port above 1023 for HTTP",
        address.port(), address.ip()
    )]
    PortDenied {
        /// The address as configured.
        address: SocketAddr,
    },
    /// Listening failed for another reason.
    #[error("listening on {address} for HTTP failed: {source}")]
    Io {
        /// The address as configured.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The system cannot start another thread.
    #[error(
        "the thread of the HTTP server cannot be started ({0}); raise the system's limit on threads"
    )]
    Thread(#[source] io::Error),
}

/// A running server. Dropping it closes all connections and ends its thread.
pub struct HttpServer {
    address: SocketAddr,
    site: Arc<Site>,
    /// Ends the thread when it is dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// A port that is reserved, but does not answer yet: connections wait.
#[derive(Debug)]
pub struct HttpListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl HttpListener {
    /// Reserves a loopback address; port 0 is any free port.
    ///
    /// # Errors
    /// The address is not a loopback address, or the system does not permit to listen there.
    pub fn bind(address: SocketAddr) -> Result<Self, HttpError> {
        if !address.ip().to_canonical().is_loopback() {
            return Err(HttpError::NotLoopback { address });
        }
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        listen().map_err(|source: io::Error| match source.kind() {
            ErrorKind::AddrInUse => HttpError::PortInUse { address },
            ErrorKind::PermissionDenied => HttpError::PortDenied { address },
            _ => HttpError::Io { address, source },
        })
    }

    /// Uses a socket that listens already, such as one of a service manager.
    ///
    /// # Errors
    /// The address is not a loopback address, or the socket cannot be used.
    pub fn adopt(listener: TcpListener, address: SocketAddr) -> Result<Self, HttpError> {
        if !address.ip().to_canonical().is_loopback() {
            return Err(HttpError::NotLoopback { address });
        }
        let prepared = listener.set_nonblocking(true);
        prepared.map_err(|source| HttpError::Io { address, source })?;
        Ok(Self { listener, address })
    }

    /// Returns the address with the port that is in use.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts to answer requests, with snapshots of `source`.
    ///
    /// # Errors
    /// The system cannot start a thread, or has no descriptor left.
    pub fn serve(
        self,
        hosts: AllowedHosts,
        source: Arc<dyn HealthSource>,
    ) -> Result<HttpServer, HttpError> {
        let Self { listener, address } = self;
        let site = Arc::new(Site {
            hosts: RwLock::new(hosts.with_address(address.ip())),
            source,
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(HttpError::Thread)?;
        let listener = {
            let _context = runtime.enter();
            tokio::net::TcpListener::from_std(listener)
                .map_err(|source| HttpError::Io { address, source })?
        };
        let (stop, stopped) = oneshot::channel();
        let own_site = Arc::clone(&site);
        let body = move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = accept(listener, site) => {}
                }
            });
            // Dropping the runtime here drops all connections.
        };
        let thread = thread::Builder::new().name("trunkline-http".to_owned());
        let thread = thread.spawn(body).map_err(HttpError::Thread)?;
        Ok(HttpServer {
            address,
            site: own_site,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl HttpServer {
    /// Returns the address with the port that is in use.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the hosts for which the server answers. The next request is checked against them.
    pub fn set_hosts(&self, hosts: AllowedHosts) {
        let mut own = self
            .site
            .hosts
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *own = hosts.with_address(self.address.ip());
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, it has ended already.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// What the server serves, and under which hosts.
struct Site {
    hosts: RwLock<AllowedHosts>,
    source: Arc<dyn HealthSource>,
}

/// Accepts connections for ever.
async fn accept(listener: tokio::net::TcpListener, site: Arc<Site>) {
    // Oldest first.
    let mut connections: VecDeque<JoinHandle<()>> = VecDeque::with_capacity(CONNECTIONS_MAX);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.retain(|connection| !connection.is_finished());
                if connections.len() >= CONNECTIONS_MAX
                    && let Some(oldest) = connections.pop_front()
                {
                    oldest.abort();
                }
                let site = Arc::clone(&site);
                connections.push_back(tokio::spawn(async move {
                    // A connection that takes too long, or breaks, is closed without an answer.
                    let _ = tokio::time::timeout(REQUEST_TIME_MAX, serve(stream, site)).await;
                }));
            }
            Err(error) if is_of_connection(&error) => {}
            Err(_) => tokio::time::sleep(SHORTAGE_PAUSE).await,
        }
    }
}

/// Returns true if only the connection that was to be accepted has failed.
fn is_of_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

/// Answers the one request of a connection.
async fn serve(stream: TcpStream, site: Arc<Site>) -> hyper::Result<()> {
    let answer = service_fn(|request: Request<Incoming>| {
        let response = site.answer(&request);
        async move { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_header_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        // The time of the whole connection is limited instead.
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), answer)
        .await
}

impl Site {
    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let checked = {
            let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
            hosts.check(request.uri(), request.headers())
        };
        if let Err((status, sentence)) = checked {
            return text(status, sentence);
        }
        // Of a response to HEAD, only the headers are sent.
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let sentence = "this resource can only be read; use GET or HEAD";
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, sentence);
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
            return response;
        }
        match request.uri().path() {
            "/metrics" => match metrics::exposition(self.source.snapshot()) {
                Ok(body) => response(StatusCode::OK, metrics::CONTENT_TYPE, body),
                Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
            },
            "/healthz" => match readiness::liveness_fault(&self.source.snapshot()) {
                None => text(StatusCode::OK, "ok"),
                Some(fault) => text(StatusCode::SERVICE_UNAVAILABLE, &fault),
            },
            "/readyz" => {
                let readiness = readiness::readiness(&self.source.snapshot());
                let status = match readiness.ready {
                    true => StatusCode::OK,
                    false => StatusCode::SERVICE_UNAVAILABLE,
                };
                json(status, &readiness)
            }
            _ => {
                let sentence = "there is nothing here; see /metrics, /healthz and /readyz";
                text(StatusCode::NOT_FOUND, sentence)
            }
        }
    }
}

fn text(status: StatusCode, sentence: &str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", format!("{sentence}\n"))
}

fn json(status: StatusCode, body: &impl Serialize) -> Response<Full<Bytes>> {
    match serde_json::to_string(body) {
        Ok(body) => response(status, "application/json", format!("{body}\n")),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
