use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, mknodat};

use super::*;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn written_file_is_private_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.key");
    write(&path, b"secret", Secrecy::Private, Existing::Refuse).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(*read(&path, Secrecy::Private, 6).unwrap(), "secret");
    let public = folder.path().join("a.crt");
    write(&public, b"public", Secrecy::Public, Existing::Refuse).unwrap();
    assert_eq!(mode(&public), 0o644);
    assert_eq!(*read(&public, Secrecy::Public, 6).unwrap(), "public");
    let names = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 2, "no temporary file is left");
}

#[test]
fn existing_file_is_replaced_only_with_permission() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    write(&path, b"one", Secrecy::Private, Existing::Refuse).unwrap();
    let refused = write(&path, b"two", Secrecy::Private, Existing::Refuse).unwrap_err();
    assert!(matches!(refused, FileError::Exists(_)), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), b"one");
    // The old permissions do not survive: a private file is private after it has been replaced.
    set_mode(&path, 0o644);
    write(&path, b"two", Secrecy::Private, Existing::Replace).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn private_file_that_others_can_access_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.key");
    write(&path, b"secret", Secrecy::Private, Existing::Refuse).unwrap();
    for bad in [
        0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o660, 0o666,
    ] {
        set_mode(&path, bad);
        let refused = read(&path, Secrecy::Private, 100).unwrap_err().to_string();
        let remedy = format!("`chmod 600 {}`", path.display());
        assert!(refused.contains(&remedy), "{refused}");
        assert!(refused.contains(&format!("{bad:04o}")), "{refused}");
    }
    for good in [0o600, 0o400, 0o700] {
        set_mode(&path, good);
        read(&path, Secrecy::Private, 100).unwrap();
    }
}

#[test]
fn public_file_may_be_readable_but_not_writable_by_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.crt");
    write(&path, b"public", Secrecy::Public, Existing::Refuse).unwrap();
    for bad in [0o664, 0o646, 0o622] {
        set_mode(&path, bad);
        let refused = read(&path, Secrecy::Public, 100).unwrap_err();
        let is_right = matches!(refused, FileError::WritableByOthers { mode, .. } if mode == bad);
        assert!(
            is_right && refused.to_string().contains("chmod go-w"),
            "{refused}"
        );
    }
    set_mode(&path, 0o644);
    read(&path, Secrecy::Public, 100).unwrap();
}

#[test]
fn owner_is_this_user_or_root() {
    let path = Path::new("a.key");
    let facts = |owner, user| Facts {
        mode: 0o600,
        owner,
        user,
    };
    for secrecy in [Secrecy::Private, Secrecy::Public] {
        facts(1000, 1000).check(path, secrecy).unwrap();
        facts(0, 1000).check(path, secrecy).unwrap();
        let refused = facts(1001, 1000).check(path, secrecy).unwrap_err();
        let expected = "a.key belongs to the user id 1001, but this program runs as 1000; run the \
                        program as that user, or run `chown 1000 a.key`";
        assert_eq!(refused.to_string(), expected);
        // Even root refuses a file that another user could replace.
        assert!(facts(1000, 0).check(path, secrecy).is_err());
    }
}

#[test]
fn file_of_another_user_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.key");
    write(&path, b"secret", Secrecy::Private, Existing::Refuse).unwrap();
    if std::os::unix::fs::chown(&path, Some(own_user() + 1), None).is_err() {
        println!("skipped: only root can give a file to another user");
        return;
    }
    let refused = read(&path, Secrecy::Private, 100).unwrap_err();
    assert!(matches!(refused, FileError::OtherOwner { .. }), "{refused}");
}

#[test]
fn symbolic_links_are_refused_and_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("a"), folder.path().join("link"));
    write(&path, b"one", Secrecy::Private, Existing::Refuse).unwrap();
    symlink(&path, &link).unwrap();
    let refused = read(&link, Secrecy::Private, 100).unwrap_err();
    assert!(matches!(refused, FileError::SymbolicLink(_)), "{refused}");
    for existing in [Existing::Refuse, Existing::Replace] {
        assert!(write(&link, b"two", Secrecy::Private, existing).is_err());
    }
    assert_eq!(fs::read(&path).unwrap(), b"one");
    // A link to a folder is followed.
    let elsewhere = folder.path().join("elsewhere");
    symlink(folder.path(), &elsewhere).unwrap();
    assert_eq!(
        *read(&elsewhere.join("a"), Secrecy::Private, 9).unwrap(),
        "one"
    );
}

#[test]
fn pipes_folders_and_sockets_are_refused_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from(0o600), 0).unwrap();
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in [&pipe, &socket, folder.path()] {
        let refused = read(path, Secrecy::Private, 100).unwrap_err();
        assert!(matches!(refused, FileError::NotAFile(_)), "{refused}");
    }
}

#[test]
fn large_binary_and_missing_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    write(&path, b"1234567", Secrecy::Private, Existing::Refuse).unwrap();
    let refused = read(&path, Secrecy::Private, 6).unwrap_err();
    assert!(
        matches!(refused, FileError::TooLarge { max: 6, .. }),
        "{refused}"
    );
    // A sparse file of 1 TiB needs no memory.
    File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(matches!(
        read(&path, Secrecy::Private, 1 << 20),
        Err(FileError::TooLarge { .. })
    ));
    write(&path, b"\xff\xfe", Secrecy::Private, Existing::Replace).unwrap();
    assert!(matches!(
        read(&path, Secrecy::Private, 9),
        Err(FileError::NotText(_))
    ));
    let missing = folder.path().join("none/b");
    assert!(matches!(
        read(&missing, Secrecy::Private, 9),
        Err(FileError::Missing(_))
    ));
    let refused = write(&missing, b"", Secrecy::Private, Existing::Refuse).unwrap_err();
    assert!(matches!(refused, FileError::Missing(folder) if folder.ends_with("none")));
}

#[test]
fn folder_is_created_private_and_refused_if_others_can_write_it() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("a/b");
    create_folder(&folder).unwrap();
    assert_eq!(mode(&folder), 0o700);
    check_folder(&folder).unwrap();
    for bad in [0o770, 0o702, 0o1777] {
        set_mode(&folder, bad);
        let refused = check_folder(&folder).unwrap_err();
        assert!(
            matches!(refused, FileError::WritableByOthers { .. }),
            "{refused}"
        );
    }
    set_mode(&folder, 0o755);
    check_folder(&folder).unwrap();
    let file = folder.join("file");
    write(&file, b"", Secrecy::Private, Existing::Refuse).unwrap();
    assert!(matches!(check_folder(&file), Err(FileError::NotAFolder(_))));
    assert!(matches!(
        create_folder(&file),
        Err(FileError::NotAFolder(_))
    ));
    assert!(matches!(
        create_folder(&file.join("c")),
        Err(FileError::NotAFolder(_))
    ));
    assert!(matches!(
        check_folder(&outer.path().join("x")),
        Err(FileError::Missing(_))
    ));
}

#[test]
fn paths_in_messages_are_one_word_of_the_shell() {
    let shown = |path: &str| ShellWord(Path::new(path)).to_string();
    assert_eq!(shown("/etc/trunkline/a.key"), "/etc/trunkline/a.key");
    assert_eq!(shown("my keys/it's"), r"'my keys/it'\''s'");
    assert_eq!(shown("$(reboot)"), "'$(reboot)'");
    assert_eq!(shown("a\u{1b}[2Jb"), r"'a\u{1b}[2Jb'");
    assert_eq!(shown(""), "''");
}

/// Failure mode: F17.
#[test]
fn trusted_file_is_refused_if_others_can_change_or_replace_it() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let path = inner.join("a.toml");
    fs::write(&path, "trusted").unwrap();
    for (place, good) in [(&path, 0o644), (&inner, 0o755)] {
        for bad in [0o666, 0o622, 0o775, 0o777, 0o757] {
            set_mode(place, bad);
            let refused = read_trusted(&path, 100).unwrap_err().to_string();
            let remedy = format!("`chmod go-w {}`", place.display());
            assert!(refused.contains(&remedy), "{bad:o}: {refused}");
        }
        set_mode(place, good);
        assert_eq!(*read_trusted(&path, 100).unwrap(), "trusted");
    }
    // Others cannot replace a file of this user in a sticky folder.
    set_mode(&inner, 0o1777);
    assert_eq!(*read_trusted(&path, 100).unwrap(), "trusted");
    set_mode(&inner, 0o755);
}

#[test]
fn folder_behind_a_link_is_checked_as_well_as_the_folder_of_the_link() {
    let folder = tempfile::tempdir().unwrap();
    let (links, files) = (folder.path().join("links"), folder.path().join("files"));
    fs::create_dir(&links).unwrap();
    fs::create_dir(&files).unwrap();
    fs::write(files.join("a.toml"), "trusted").unwrap();
    let path = links.join("a.toml");
    symlink(files.join("a.toml"), &path).unwrap();
    assert_eq!(*read_trusted(&path, 100).unwrap(), "trusted");
    for place in [&links, &files] {
        set_mode(place, 0o777);
        let refused = read_trusted(&path, 100).unwrap_err();
        let at = |path: &Path| path == fs::canonicalize(place).unwrap() || path == place;
        assert!(
            matches!(&refused, FileError::WritableByOthers { path, .. } if at(path)),
            "{refused}"
        );
        set_mode(place, 0o755);
    }
}

#[test]
fn pipe_in_place_of_a_trusted_file_is_refused_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.toml");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let refused = read_trusted(&path, 100).unwrap_err();
    assert!(matches!(refused, FileError::NotAFile(_)), "{refused}");
}
