//! What cargo knows of the packages: their licences, and what each is used for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{
    CargoOpt, DependencyKind, Metadata, MetadataCommand, NodeDep, PackageId, TargetKind,
};

use super::lock::LockedPackage;

/// The platform of the packages that are published.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// What a package is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// Its code is part of the program.
    Linked,
    /// It runs when the program is built: build scripts, procedural macros and what these use.
    Build,
    /// Neither: tests, development, and other platforms.
    Test,
}

impl Use {
    /// The value of the property `trunkline:use`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Linked => "linked",
            Self::Build => "build",
            Self::Test => "test",
        }
    }

    /// CycloneDX: `required` is part of the program, `excluded` is not.
    pub(super) fn scope(self) -> &'static str {
        match self {
            Self::Linked => "required",
            Self::Build | Self::Test => "excluded",
        }
    }
}

/// A name and a version.
type Key = (String, String);

/// Licences and uses by package.
#[derive(Debug, Default)]
pub(super) struct Facts {
    licences: BTreeMap<Key, String>,
    repositories: BTreeMap<Key, String>,
    uses: BTreeMap<Key, Use>,
}

impl Facts {
    /// Asks cargo about the workspace below `root` and the uses in the package `program`.
    pub(super) fn ask(root: &Path, program: &str) -> Result<Self, String> {
        // All features, all platforms: as `Cargo.lock`.
        let all = metadata(root, &[CargoOpt::AllFeatures], &[])?;
        let linux = metadata(root, &[], &["--filter-platform", PLATFORM])?;
        let mut facts = Self::default();
        for package in &all.packages {
            let key = (package.name.to_string(), package.version.to_string());
            let licence = match (&package.license, &package.license_file) {
                (Some(expression), _) => Some(expression.replace('/', " OR ")),
                (None, Some(file)) => {
                    Some(format!("LicenseRef-{}", file.as_str().replace('/', "-")))
                }
                (None, None) => None,
            };
            if let Some(licence) = licence {
                facts.licences.insert(key.clone(), licence);
            }
            if let Some(repository) = &package.repository {
                facts.repositories.insert(key, repository.clone());
            }
        }
        facts.uses = uses(&linux, program)?;
        Ok(facts)
    }

    #[cfg(test)]
    pub(super) fn of(entries: &[(&str, &str, &str, Use)]) -> Self {
        let mut facts = Self::default();
        for (name, version, licence, use_) in entries {
            let key = ((*name).to_owned(), (*version).to_owned());
            facts.licences.insert(key.clone(), (*licence).to_owned());
            facts.uses.insert(key, *use_);
        }
        facts
    }

    /// The licence of a package, as an SPDX expression.
    pub(super) fn licence_of(&self, package: &LockedPackage) -> Option<&str> {
        self.licences.get(&key(package)).map(String::as_str)
    }

    /// The address of the source of a package.
    pub(super) fn repository_of(&self, package: &LockedPackage) -> Option<&str> {
        self.repositories.get(&key(package)).map(String::as_str)
    }

    /// What a package is used for.
    pub(super) fn use_of(&self, package: &LockedPackage) -> Use {
        self.uses.get(&key(package)).copied().unwrap_or(Use::Test)
    }
}

fn key(package: &LockedPackage) -> Key {
    (package.name.clone(), package.version.clone())
}

fn metadata(root: &Path, features: &[CargoOpt], options: &[&str]) -> Result<Metadata, String> {
    let mut command = MetadataCommand::new();
    command.current_dir(root);
    for feature in features {
        command.features(feature.clone());
    }
    let locked = std::iter::once("--locked").chain(options.iter().copied());
    command.other_options(locked.map(str::to_owned).collect::<Vec<_>>());
    command
        .exec()
        .map_err(|e| format!("cargo metadata failed: {e}"))
}

/// Follows the dependencies from `program`: normal ones stay linked, build dependencies and procedural
/// macros begin what only the build uses.
fn uses(metadata: &Metadata, program: &str) -> Result<BTreeMap<Key, Use>, String> {
    let resolve = metadata.resolve.as_ref();
    let resolve = resolve.ok_or("cargo metadata resolved no dependencies")?;
    let edges: BTreeMap<&PackageId, &[NodeDep]> = resolve
        .nodes
        .iter()
        .map(|node| (&node.id, node.deps.as_slice()))
        .collect();
    let macros: BTreeSet<&PackageId> = metadata
        .packages
        .iter()
        .filter(|p| {
            p.targets
                .iter()
                .any(|t| t.kind.contains(&TargetKind::ProcMacro))
        })
        .map(|p| &p.id)
        .collect();
    let start = metadata.packages.iter().find(|p| *p.name == *program);
    let start = start.ok_or(format!("there is no package `{program}`"))?;
    let mut found: BTreeMap<&PackageId, Use> = BTreeMap::new();
    let mut open = vec![(&start.id, Use::Linked)];
    while let Some((id, use_)) = open.pop() {
        // A package is visited again only if its use is nearer to the program than found before.
        if found.get(id).is_some_and(|known| *known <= use_) {
            continue;
        }
        found.insert(id, use_);
        for edge in edges.get(id).copied().unwrap_or_default() {
            let has = |kind| edge.dep_kinds.iter().any(|k| k.kind == kind);
            let is_linked = use_ == Use::Linked && !macros.contains(&edge.pkg);
            if has(DependencyKind::Normal) {
                open.push((&edge.pkg, if is_linked { Use::Linked } else { Use::Build }));
            }
            if has(DependencyKind::Build) {
                open.push((&edge.pkg, Use::Build));
            }
        }
    }
    let by_id: BTreeMap<&PackageId, Key> = metadata
        .packages
        .iter()
        .map(|p| (&p.id, (p.name.to_string(), p.version.to_string())))
        .collect();
    Ok(found
        .into_iter()
        .filter_map(|(id, use_)| Some((by_id.get(id)?.clone(), use_)))
        .collect())
}
