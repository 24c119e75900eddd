//! Files with mistakes: those in `tests/errors`, and those that need several files.

use std::fs;
use std::path::{Path, PathBuf};

use trunkline_config::{ConfigErrors, load, parse, parse_with};

pub fn errors_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors")
}

/// Returns the files with mistakes: name and text.
pub fn mistakes() -> Vec<(String, String)> {
    let mut files: Vec<PathBuf> = fs::read_dir(errors_dir())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "toml")
    });
    files.sort();
    let name = |file: &Path| file.file_name().unwrap().to_string_lossy().into_owned();
    files
        .iter()
        .map(|file| (name(file), fs::read_to_string(file).unwrap()))
        .collect()
}

/// Returns the errors of mistakes that involve two files.
pub fn between_files() -> ConfigErrors {
    let first = "[engine]\nname = \"a\"\n[library]\nname = \"plant\"\ndescription = \"One\"\n\
                 [[variable]]\nname = \"level\"\ntype = \"f64\"\n[[io]]\nname = \"plc1\"\n\
                 driver = \"sim\"\n[[template]]\nname = \"t\"\nvariable = []\n";
    let second = first.replace("One", "Two");
    parse_with(
        &[("a.toml", first), ("b.toml", &second)],
        &Default::default(),
    )
    .unwrap_err()
}

/// Returns the errors of files and directories that cannot be used.
pub fn on_disk() -> ConfigErrors {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("empty")).unwrap();
    fs::create_dir(at("folder.toml")).unwrap();
    fs::write(at("latin1.toml"), b"[library]\nname = \"b\xf6iler\"\n").unwrap();
    fs::File::create(at("big.toml"))
        .unwrap()
        .set_len((16 << 20) + 1)
        .unwrap();
    fs::write(at("rows.csv"), "tag\n\"A\n").unwrap();
    let text = "[[template]]\nname = \"t\"\nparams = { tag = \"string\" }\n\
                variable = [{ name = \"{tag}\", type = \"bool\" }]\n\
                [[use]]\ntemplate = \"t\"\ncsv = \"rows.csv\"\n\
                [[use]]\ntemplate = \"t\"\ncsv = \"../rows.csv\"\n\
                [[use]]\ntemplate = \"t\"\ncsv = \"none.csv\"\n";
    fs::write(at("plant.toml"), text).unwrap();
    let paths = [
        "missing.toml",
        "empty",
        "latin1.toml",
        "big.toml",
        "plant.toml",
        "plant.toml/x",
    ]
    .map(at);
    let mut errors = load(&paths).unwrap_err();
    let prefix = format!("{}/", dir.path().display());
    for error in &mut errors.errors {
        error.file = error.file.replace(&prefix, "");
    }
    errors
}

/// Returns the errors of all of these.
pub fn all_errors() -> Vec<ConfigErrors> {
    let of_files = mistakes()
        .into_iter()
        .map(|(name, text)| parse(&name, &text).unwrap_err());
    of_files.chain([between_files(), on_disk()]).collect()
}
