//! Loads files or texts into a plan.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use trunkline_types::name::{NUMBERS_LIBRARY, check_segment, escape_segment, is_reserved};

use crate::error::{ConfigErrorKind as Kind, ConfigErrors};
use crate::expand::{Expansion, Override, PreparedTable, Target};
use crate::fields::{Braces, Values};
use crate::keys::Section;
use crate::libraries::Libraries;
use crate::node::{Node, Table};
use crate::plan::{DeploymentPlan, EngineConfig, HistoryConfig, IoConfig, history_folder};
use crate::report::Report;
use crate::sections::{check_keys, required, table, tables};
use crate::source::{Place, Source, files_of};
use crate::template::{self, Template};
use crate::variable::{Draft, IoNames, Layer, TextMode};
use crate::{engine, history, io};

/// Information that the calling program has, and that configuration files do not contain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LoadOptions {
    /// Names of I/O servers without an `[[io]]` section, which `source = "NAME:ITEM"` may refer to.
    pub io_servers: Vec<String>,
    /// Accepts sources of unknown I/O servers. A library that is deployed to a running engine needs
    /// this, because its files do not name the engine's I/O servers.
    pub accepts_unknown_io_servers: bool,
}

/// Returns a commented configuration in which every setting of the engine has its default.
///
/// It can be used unchanged, or as the start of a configuration.
pub fn default_config_text() -> &'static str {
    include_str!("default.toml")
}

/// Loads configuration files. A path may be a file, or a directory whose `*.toml` files are read in
/// the order of their names; subdirectories are not searched.
///
/// # Errors
/// [`ConfigErrors`] with all errors of all files.
pub fn load(paths: &[PathBuf]) -> Result<DeploymentPlan, ConfigErrors> {
    load_with(paths, &LoadOptions::default())
}

/// Same as [`load`], with additional information from the program.
///
/// # Errors
/// Same as [`load`].
pub fn load_with(paths: &[PathBuf], options: &LoadOptions) -> Result<DeploymentPlan, ConfigErrors> {
    let mut report = Report::default();
    let mut files_read = HashSet::new();
    for path in paths {
        let files = files_of(path).unwrap_or_else(|kind| {
            report.file_error(path.display().to_string(), None, kind);
            Vec::new()
        });
        for file in files {
            // Read a file once, even if the paths contain both the file and its directory.
            if files_read.insert(file.canonicalize().unwrap_or_else(|_| file.clone())) {
                add_file(&file, &mut report);
            }
        }
    }
    plan(report, options)
}

/// Reads a configuration from a text instead of a file. Messages show `file_name`. If the text does
/// not name its library, the library is named `file_name` without the extension.
///
/// # Errors
/// [`ConfigErrors`] with all errors of the text.
pub fn parse(file_name: &str, text: &str) -> Result<DeploymentPlan, ConfigErrors> {
    parse_with(&[(file_name, text)], &LoadOptions::default())
}

/// Reads several texts, each with a file name, as if they were files that are loaded together.
///
/// # Errors
/// [`ConfigErrors`] with all errors of the texts.
pub fn parse_with(
    texts: &[(&str, &str)],
    options: &LoadOptions,
) -> Result<DeploymentPlan, ConfigErrors> {
    let mut report = Report::default();
    for (name, text) in texts {
        report.add_source(Source::of_text(name, text));
    }
    plan(report, options)
}

fn add_file(path: &Path, report: &mut Report) {
    match Source::read(path) {
        Ok(source) => {
            report.add_source(source);
        }
        Err((position, kind)) => report.file_error(path.display().to_string(), position, kind),
    }
}

/// A parsed file, and the `[defaults]` of its variables.
#[derive(Debug)]
struct File<'a> {
    document: &'a Table,
    /// Index of the file's source in the [`Report`].
    source: u32,
    defaults: Draft<'a>,
}

fn plan(mut report: Report, options: &LoadOptions) -> Result<DeploymentPlan, ConfigErrors> {
    let mut documents = Vec::new();
    for source in 0..report.source_count() {
        if let Some(document) = Node::parse(source, &mut report) {
            check_keys(&document, Section::File, &mut report);
            documents.push((source, document));
        }
    }
    let report_ref = &mut report;
    let engine = read_engine(&documents, report_ref);
    let io = read_io(&documents, report_ref);
    let rules = history::read(&documents, report_ref);
    let files: Vec<File<'_>> = documents
        .iter()
        .map(|(source, document)| {
            let defaults = read_defaults(document, report_ref);
            File {
                document,
                source: *source,
                defaults,
            }
        })
        .collect();
    let mut templates = read_templates(&files, report_ref);
    let servers = io
        .iter()
        .map(|io| io.name.clone())
        .chain(options.io_servers.iter().cloned());
    let mut expansion = Expansion {
        report: report_ref,
        io: IoNames {
            known: servers.collect(),
            accepts_others: options.accepts_unknown_io_servers,
        },
        variable_count: 0,
        variables_max: engine.limits.variables_max,
        interner: Default::default(),
    };
    let mut libraries = Libraries::default();
    for file in &files {
        read_library(file, &mut templates, &mut libraries, &mut expansion);
    }
    let libraries = libraries.finish(&mut report);
    let sources = report.finish()?;
    let sources: Vec<PathBuf> = sources
        .into_iter()
        .filter_map(|source| source.path)
        .collect();
    let history = rules.map(|rules| HistoryConfig {
        folder: history_folder(&engine, &sources),
        spool: engine.history_spool.clone(),
        rules,
    });
    Ok(DeploymentPlan {
        engine,
        libraries,
        io,
        history,
        sources,
    })
}

fn read_engine(documents: &[(u32, Table)], report: &mut Report) -> EngineConfig {
    let mut found: Option<(Place, EngineConfig)> = None;
    for (_, document) in documents {
        let Some(section) = table(document, "engine", report) else {
            continue;
        };
        if let Some((first, _)) = &found {
            let (section_name, other) = (Section::Engine.header(), report.format_place(*first));
            let kind = Kind::SectionTwice {
                section: section_name,
                other,
            };
            report.error(section.place, kind);
        } else {
            found = Some((section.place, engine::read(section, report)));
        }
    }
    found.map(|(_, engine)| engine).unwrap_or_default()
}

fn read_io(documents: &[(u32, Table)], report: &mut Report) -> Vec<IoConfig> {
    let mut servers: Vec<IoConfig> = Vec::new();
    let mut places: HashMap<String, Place> = HashMap::new();
    for (_, document) in documents {
        for section in tables(document, "io", report) {
            let Some(io) = io::read(section, report) else {
                continue;
            };
            let place = section
                .node("name")
                .map_or(section.place, |node| node.place);
            match places.get(&io.name) {
                Some(first) => {
                    let (name, other) = (io.name, report.format_place(*first));
                    report.error(place, Kind::IoTwice { name, other });
                }
                None => {
                    places.insert(io.name.clone(), place);
                    servers.push(io);
                }
            }
        }
    }
    servers
}

fn read_defaults<'a>(document: &'a Table, report: &mut Report) -> Draft<'a> {
    let Some(section) = table(document, "defaults", report) else {
        return Draft::default();
    };
    check_keys(section, Section::Defaults, report);
    let braces = Braces::Reject(Section::Defaults);
    Draft::read(section, Layer::Defaults, braces, TextMode::Fill, report)
}

fn read_templates<'a>(files: &[File<'a>], report: &mut Report) -> BTreeMap<String, Template<'a>> {
    let mut templates: BTreeMap<String, Template<'a>> = BTreeMap::new();
    for file in files {
        for section in tables(file.document, "template", report) {
            let Some(template) = Template::read(section, &file.defaults, report) else {
                continue;
            };
            match templates.get(&template.name) {
                Some(first) => {
                    let (name, other) = (template.name, report.format_place(first.place));
                    report.error(template.place, Kind::TemplateTwice { name, other });
                }
                None => {
                    templates.insert(template.name.clone(), template);
                }
            }
        }
    }
    templates
}

/// Adds the variables of one file to the file's library.
fn read_library<'a>(
    file: &File<'a>,
    templates: &mut BTreeMap<String, Template<'a>>,
    libraries: &mut Libraries,
    expansion: &mut Expansion<'_>,
) {
    let section = table(file.document, "library", expansion.report);
    let variables = tables(file.document, "variable", expansion.report);
    let uses = tables(file.document, "use", expansion.report);
    let overrides = tables(file.document, "override", expansion.report);
    let name = match section {
        Some(section) => {
            check_keys(section, Section::Library, expansion.report);
            library_name(section, expansion.report)
        }
        // A file without variables defines no library.
        None if variables.is_empty() && uses.is_empty() && overrides.is_empty() => return,
        None => {
            let first = [&variables, &uses, &overrides].into_iter().flatten().next();
            let place = first.map_or(file.document.place, |table| table.place);
            let name = name_after_file(file.source, expansion.report);
            checked_library(name, place, expansion.report)
        }
    };
    let mut target = Target {
        is_incomplete: name.is_none(),
        library: name.clone().unwrap_or_else(|| "library".to_owned()),
        overrides: overrides
            .into_iter()
            .map(|table| Override::read(table, expansion.report))
            .collect(),
        variables: Vec::new(),
        file: file.source,
    };
    for table in variables {
        let mut variable = PreparedTable::read(table, &file.defaults, expansion.report);
        variable.expand(&Default::default(), None, &mut target, expansion);
    }
    for table in uses {
        template::apply(table, templates, &mut target, expansion);
    }
    target.check_overrides(expansion.report);
    if let Some(name) = name {
        libraries.add(name, section, target.variables, expansion.report);
    }
}

fn library_name(section: &Table, report: &mut Report) -> Option<String> {
    let node = required(section, Section::Library, "name", report)?;
    let name = Values::plain(report).text("name", node)?;
    checked_library(name, node.place, report)
}

fn checked_library(name: String, place: Place, report: &mut Report) -> Option<String> {
    match check_library(&name) {
        Ok(()) => Some(name),
        Err(reason) => {
            report.error(place, Kind::InvalidName { name, reason });
            None
        }
    }
}

/// Checks that a file may define a library of this name. Returns the reason if it may not.
fn check_library(name: &str) -> Result<(), String> {
    check_segment(name).map_err(|error| error.to_string())?;
    if name == NUMBERS_LIBRARY {
        return Err(format!(
            "names that begin with {name}/ are register numbers"
        ));
    }
    if is_reserved(name) {
        let rule = "names that begin with _ are reserved for the engine";
        return Err(format!("{rule}; choose another name in [library]"));
    }
    Ok(())
}

/// Returns the name of the library of a file without a `[library]` section: the name of the file
/// (DP-02).
fn name_after_file(source: u32, report: &Report) -> String {
    let name = report
        .source(source)
        .map(|source| source.name.as_str())
        .unwrap_or_default();
    let stem = Path::new(name)
        .file_stem()
        .map(|stem| stem.to_string_lossy());
    let stem = stem.unwrap_or_default();
    let name = escape_segment(&stem).into_owned();
    if check_segment(&name).is_ok() {
        name
    } else {
        "library".to_owned()
    }
}
