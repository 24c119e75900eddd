//! Remembers the libraries of the configuration files, to find out what has changed in the files.
//!
//! Only digests are kept, because the definitions of a large library need much memory. A digest does
//! not cover the place of the definition in the files, so a variable that only moved is unchanged.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

use trunkline_types::wire::VariablesEncoder;
use trunkline_types::{LibraryDefinition, Properties, VariableDefinition};

/// The libraries of the files.
#[derive(Default)]
pub(crate) struct FileLibraries {
    keys: RandomState,
    libraries: HashMap<String, FileLibrary>,
}

#[derive(PartialEq, Eq)]
struct FileLibrary {
    description: String,
    /// Digests of the variables, in ascending order.
    variables: Box<[u64]>,
    /// False once an order has changed the library, which is then no longer that of the files.
    is_intact: bool,
}

impl FileLibraries {
    /// Returns the libraries of files that were read after `earlier`.
    pub(crate) fn of(libraries: &[LibraryDefinition], earlier: &Self) -> Self {
        let mut files = Self {
            keys: earlier.keys.clone(),
            libraries: HashMap::new(),
        };
        for library in libraries {
            // Variables that were created from one table share their properties.
            let mut last: Option<(&Arc<Properties>, u64)> = None;
            let digests = library.variables.iter().map(|definition| {
                let properties = &definition.properties;
                let digest = match last {
                    Some((known, digest)) if Arc::ptr_eq(known, properties) => digest,
                    _ => files.digest_of_properties(properties),
                };
                last = Some((properties, digest));
                files.digest(&definition.path, digest)
            });
            let mut variables: Box<[u64]> = digests.collect();
            variables.sort_unstable();
            let entry = FileLibrary {
                description: library.description.clone(),
                variables,
                is_intact: true,
            };
            files.libraries.insert(library.name.clone(), entry);
        }
        files
    }

    /// Returns the names of the libraries that are not among `libraries`, in alphabetical order.
    pub(crate) fn names_without(&self, libraries: &[LibraryDefinition]) -> Vec<String> {
        let is_gone = |name: &&String| libraries.iter().all(|library| library.name != **name);
        let mut names: Vec<String> = self.libraries.keys().filter(is_gone).cloned().collect();
        names.sort_unstable();
        names
    }

    /// Returns true if a library is the same in the files that were read later, and no order has
    /// changed it.
    pub(crate) fn has_all_of(&self, library: &str, later: &Self) -> bool {
        let own = self.libraries.get(library);
        own.is_some() && own == later.libraries.get(library)
    }

    /// Returns true if a library has this variable, and no order has changed the library.
    pub(crate) fn contains(&self, library: &str, definition: &VariableDefinition) -> bool {
        let library = self.libraries.get(library).filter(|one| one.is_intact);
        library.is_some_and(|library| {
            let properties = self.digest_of_properties(&definition.properties);
            let digest = self.digest(&definition.path, properties);
            library.variables.binary_search(&digest).is_ok()
        })
    }

    /// Notes that an order has changed a library.
    pub(crate) fn forget(&mut self, library: &str) {
        if let Some(library) = self.libraries.get_mut(library) {
            library.is_intact = false;
        }
    }

    fn digest(&self, path: &str, properties: u64) -> u64 {
        let mut hasher = self.keys.build_hasher();
        path.hash(&mut hasher);
        hasher.write_u64(properties);
        hasher.finish()
    }

    fn digest_of_properties(&self, properties: &Properties) -> u64 {
        let mut properties = properties.clone();
        properties.origin.clear();
        let definition = VariableDefinition {
            path: String::new(),
            properties: Arc::new(properties),
        };
        let mut bytes = Vec::new();
        VariablesEncoder::default().put(&definition, &mut bytes);
        self.keys.hash_one(&bytes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use trunkline_config::parse;

    use super::*;

    fn libraries(text: &str) -> Vec<LibraryDefinition> {
        parse("rig.toml", text).unwrap().libraries
    }

    const TEXT: &str = "
[[variable]]
name = \"x\"
type = \"f64\"
units = \"V\"

[[variable]]
name = \"ch{n}\"
each = { n = \"1..3\" }
type = \"f64\"
";

    #[test]
    fn library_that_only_moved_in_its_file_is_the_same() {
        let sut = FileLibraries::of(&libraries(TEXT), &FileLibraries::default());
        let moved = libraries(&format!("# one more line\n{TEXT}"));
        assert!(sut.has_all_of("rig", &FileLibraries::of(&moved, &sut)));
        assert!(!sut.has_all_of("other", &FileLibraries::of(&moved, &sut)));
        assert!(
            moved[0]
                .variables
                .iter()
                .all(|one| sut.contains("rig", one))
        );
    }

    #[test]
    fn changed_variable_is_found_and_the_others_are_unchanged() {
        let sut = FileLibraries::of(&libraries(TEXT), &FileLibraries::default());
        let changed = libraries(&TEXT.replace("\"V\"", "\"mV\""));
        assert!(!sut.has_all_of("rig", &FileLibraries::of(&changed, &sut)));
        let unchanged: Vec<bool> = changed[0]
            .variables
            .iter()
            .map(|one| sut.contains("rig", one))
            .collect();
        assert_eq!(unchanged, [false, true, true, true]);
        let fewer = libraries(&TEXT.replace("1..3", "1..2"));
        assert!(!sut.has_all_of("rig", &FileLibraries::of(&fewer, &sut)));
    }

    #[test]
    fn library_that_an_order_changed_counts_as_changed() {
        let all = libraries(TEXT);
        let mut sut = FileLibraries::of(&all, &FileLibraries::default());
        sut.forget("rig");
        assert!(!sut.has_all_of("rig", &FileLibraries::of(&all, &sut)));
        assert!(!sut.contains("rig", &all[0].variables[0]));
        assert_eq!(sut.names_without(&[]), ["rig"]);
        assert_eq!(sut.names_without(&all), Vec::<String>::new());
    }
}
