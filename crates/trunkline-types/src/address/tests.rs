use super::*;

#[test]
fn address_is_a_port_or_a_socket_and_round_trips() {
    for text in [
        "127.0.0.1:5850",
        "[::1]:0",
        "unix:/run/user/1000/trunkline/5850.sock",
        "unix:/tmp/Motor Halle 3.sock",
    ] {
        let address: ListenAddress = text.parse().unwrap();
        assert_eq!(address.to_string(), text);
    }
    let tcp: ListenAddress = "127.0.0.1:5850".parse().unwrap();
    assert_eq!(tcp.tcp().map(|address| address.port()), Some(5850));
}

#[test]
fn invalid_socket_path_is_refused_with_the_reason() {
    let long = format!("/{}.sock", "a".repeat(SOCKET_PATH_BYTES_MAX - 5));
    for (text, expected) in [
        ("plant.sock", "is not an absolute path"),
        ("/run/plant", "does not end in .sock"),
        ("/run/.sock", "does not end in .sock"),
        ("/run/../plant.sock", r#"contains ".", ".." or "//""#),
        ("/run//plant.sock", r#"contains ".", ".." or "//""#),
        ("/run/plant#1.sock", "'#', which is reserved"),
        ("/run/a\0.sock", "which is reserved"),
        (long.as_str(), "is 108 bytes long, and the limit is 107"),
    ] {
        let error = SocketPath::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let longest = format!("/{}.sock", "a".repeat(SOCKET_PATH_BYTES_MAX - 6));
    assert!(SocketPath::parse(&longest).is_ok());
}

#[test]
fn invalid_address_is_refused_with_the_syntax() {
    let error = "plant7".parse::<ListenAddress>().unwrap_err().to_string();
    assert!(
        error.contains("127.0.0.1:5850") && error.contains("unix:/path"),
        "{error}"
    );
    let error = "unix:plant.sock".parse::<ListenAddress>().unwrap_err();
    assert!(matches!(error, ListenAddressError::Socket(_)));
}
