//! The packages of `Cargo.lock`.

use toml_edit::{DocumentMut, Table};

/// The content of `Cargo.lock`.
#[derive(Debug)]
pub(super) struct Lock {
    /// In the order of the file: by name, then by version.
    pub packages: Vec<LockedPackage>,
}

/// One version of one package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LockedPackage {
    pub name: String,
    pub version: String,
    /// Where it comes from; `None` for a crate of this repository.
    pub source: Option<String>,
    /// SHA-256 of the published archive, in hexadecimal; `None` for a crate of this repository.
    pub checksum: Option<String>,
    /// Its dependencies, as `Cargo.lock` writes them: `name`, or `name version` if there are several
    /// versions.
    pub dependencies: Vec<String>,
}

impl Lock {
    /// Parses the text of `Cargo.lock`, in version 3 or 4 of its format.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let document: DocumentMut = text
            .parse()
            .map_err(|e| format!("Cargo.lock is not TOML: {e}"))?;
        let version = document.get("version").and_then(|v| v.as_integer());
        if !matches!(version, Some(3 | 4)) {
            return Err(format!(
                "Cargo.lock has format {version:?}; this command reads 3 and 4"
            ));
        }
        let tables = document.get("package").and_then(|p| p.as_array_of_tables());
        let tables = tables.ok_or("Cargo.lock names no package")?;
        let packages: Result<Vec<_>, String> = tables.iter().map(package).collect();
        Ok(Self {
            packages: packages?,
        })
    }

    /// The package that a line of `dependencies` means.
    pub(super) fn find(&self, dependency: &str) -> Option<&LockedPackage> {
        let mut words = dependency.split(' ');
        let (name, version) = (words.next()?, words.next());
        self.packages
            .iter()
            .find(|p| p.name == name && version.is_none_or(|version| p.version == version))
    }
}

fn package(table: &Table) -> Result<LockedPackage, String> {
    let text = |key: &str| Some(table.get(key)?.as_str()?.to_owned());
    let required = |key: &str| text(key).ok_or(format!("a package in Cargo.lock has no {key}"));
    let dependencies = table.get("dependencies").and_then(|d| d.as_array());
    Ok(LockedPackage {
        name: required("name")?,
        version: required("version")?,
        source: text("source"),
        checksum: text("checksum"),
        dependencies: dependencies
            .into_iter()
            .flatten()
            .filter_map(|d| Some(d.as_str()?.to_owned()))
            .collect(),
    })
}
