//! Reads the table of a variable once, and expands it for each row of its parameters.

use std::collections::HashMap;
use std::sync::Arc;

use trunkline_types::{Name, Properties, VariableDefinition};

use super::templated_text::TemplatedText;
use super::{Expansion, Target, Variable, repeat};
use crate::error::ConfigErrorKind as Kind;
use crate::fields::Braces;
use crate::keys::Section;
use crate::node::Table;
use crate::placeholder::Env;
use crate::report::Report;
use crate::sections::{check_keys, required};
use crate::source::Place;
use crate::variable::{
    DESCRIPTION_BYTES_MAX, Draft, Layer, Resolver, SOURCE_BYTES_MAX, TextMode, check_source,
};

/// A variable's table. Properties that all variables of the table share are read only once.
#[derive(Debug)]
pub(crate) struct PreparedTable<'a> {
    table: &'a Table,
    defaults: Draft<'a>,
    /// Properties of the table; `None` if placeholders make them differ between variables.
    own: Option<Draft<'a>>,
    name: Option<TemplatedText>,
    description: Option<TemplatedText>,
    source: Option<TemplatedText>,
    origin: String,
    /// Properties for each combination of overrides: by file, and indices of the file's overrides.
    resolved: HashMap<(u32, Vec<usize>), Option<Resolved>>,
}

/// Properties that several variables share, up to the placeholders in two of the texts.
#[derive(Clone, Debug)]
struct Resolved {
    properties: Arc<Properties>,
    /// True if the placeholders of the description must be filled in for each variable.
    fills_description: bool,
    /// True if the placeholders of the source must be filled in for each variable.
    fills_source: bool,
}

impl<'a> PreparedTable<'a> {
    /// Reads a variable's table. `defaults` are the defaults of the file.
    pub fn read(table: &'a Table, defaults: &Draft<'a>, report: &mut Report) -> Self {
        check_keys(table, Section::Variable, report);
        let name = required(table, Section::Variable, "name", report)
            .and_then(|node| TemplatedText::read("name", node, report));
        let mut templated = |key: &str| {
            let node = table.node(key).filter(|node| node.has_braces())?;
            TemplatedText::read(key, node, report)
        };
        let (description, source) = (templated("description"), templated("source"));
        let differs = |key: &str| !["name", "description", "source", "each", "zip"].contains(&key);
        let is_dynamic = table
            .entries
            .iter()
            .any(|e| differs(&e.key) && e.node.has_braces());
        let own = (!is_dynamic).then(|| {
            let env = Env::default();
            Draft::read(
                table,
                Layer::Own,
                Braces::Fill(&env),
                TextMode::AsWritten,
                report,
            )
        });
        let origin = report.format_origin(table.place);
        let (defaults, resolved) = (defaults.clone(), HashMap::new());
        Self {
            table,
            defaults,
            own,
            name,
            description,
            source,
            origin,
            resolved,
        }
    }

    /// Reports invalid properties, even if no variable is created from the table.
    pub fn check(&self, report: &mut Report) {
        if let Some(own) = &self.own {
            let draft = self.defaults.overlaid(own);
            let (env, place) = (Env::default(), self.table.place);
            Resolver {
                draft: &draft,
                env: &env,
                place,
                report,
            }
            .properties(&self.origin);
        }
    }

    /// Adds the variables of this table to `target`. Placeholders can use the parameters of `base`,
    /// and every name begins with `prefix`.
    pub fn expand(
        &mut self,
        base: &Env,
        prefix: Option<&str>,
        target: &mut Target<'a>,
        expansion: &mut Expansion<'_>,
    ) {
        let Some(rows) = repeat::rows(self.table, base, expansion.report) else {
            target.is_incomplete = true;
            return;
        };
        if !expansion.reserve_variables(rows.len(), self.place_of("each")) {
            target.is_incomplete = true;
            return;
        }
        rows.for_each(base, |env| {
            self.add_variable(env, prefix, target, expansion);
            true
        });
    }

    fn place_of(&self, key: &str) -> Place {
        self.table
            .entry(key)
            .map_or(self.table.place, |entry| entry.node.place)
    }

    fn add_variable(
        &mut self,
        env: &Env,
        prefix: Option<&str>,
        target: &mut Target<'a>,
        expansion: &mut Expansion<'_>,
    ) {
        let Some(path) = self.path(env, prefix, &target.library, expansion.report) else {
            target.is_incomplete = true;
            return;
        };
        let mut override_indices = Vec::new();
        for (index, rule) in target.overrides.iter_mut().enumerate() {
            if rule
                .pattern
                .as_ref()
                .is_some_and(|pattern| pattern.matches(&path))
            {
                rule.has_matched = true;
                override_indices.push(index);
            }
        }
        let properties = match &self.own {
            Some(_) => self.shared_properties(env, override_indices, target, expansion),
            None => self.individual_properties(env, &override_indices, target, expansion),
        };
        if let Some(properties) = properties {
            let definition = VariableDefinition { path, properties };
            target.variables.push(Variable {
                definition,
                place: self.place_of("name"),
            });
        }
    }

    fn path(
        &self,
        env: &Env,
        prefix: Option<&str>,
        library: &str,
        report: &mut Report,
    ) -> Option<String> {
        let text = self.name.as_ref()?;
        let name = text.expand(env, report)?;
        let path = match prefix {
            Some(prefix) => format!("{prefix}/{name}"),
            None => name,
        };
        let refuse = |reason: String, report: &mut Report| {
            let name = format!("{library}/{path}");
            report.error(text.place, Kind::InvalidName { name, reason });
            None
        };
        match Name::join(library, &path) {
            Ok(name) if name.field().is_some() => refuse(
                "# addresses a field; write %23 for a literal #".to_owned(),
                report,
            ),
            Ok(name) => Some(name.path().to_owned()),
            Err(error) => refuse(error.to_string(), report),
        }
    }

    /// Returns the properties of a table whose variables differ at most in description and source.
    fn shared_properties(
        &mut self,
        env: &Env,
        override_indices: Vec<usize>,
        target: &Target<'a>,
        expansion: &mut Expansion<'_>,
    ) -> Option<Arc<Properties>> {
        let key = (target.file, override_indices);
        if !self.resolved.contains_key(&key) {
            let resolved = self.resolve(&key.1, target, expansion);
            self.resolved.insert(key.clone(), resolved);
        }
        let resolved = self.resolved.get(&key)?.clone()?;
        if !resolved.fills_description && !resolved.fills_source {
            return Some(resolved.properties);
        }
        let mut properties = Properties::clone(&resolved.properties);
        if let Some(text) = self
            .description
            .as_ref()
            .filter(|_| resolved.fills_description)
        {
            let (key, max) = ("description", DESCRIPTION_BYTES_MAX);
            properties.description = text.expand_within(key, max, env, expansion.report)?;
        }
        if let Some(text) = self.source.as_ref().filter(|_| resolved.fills_source) {
            let (key, max) = ("source", SOURCE_BYTES_MAX);
            let source = text.expand_within(key, max, env, expansion.report)?;
            check_source(&source, text.place, &expansion.io, expansion.report).then_some(())?;
            properties.source = source;
        }
        Some(expansion.interner.share(properties))
    }

    fn resolve(
        &self,
        override_indices: &[usize],
        target: &Target<'a>,
        expansion: &mut Expansion<'_>,
    ) -> Option<Resolved> {
        // An error here affects every row, so the report names no row.
        let previous = expansion.report.set_used_at(None);
        let draft = self.draft(self.own.as_ref()?, override_indices, target);
        let env = Env::default();
        let fills = |place: Option<Place>, text: &Option<TemplatedText>| {
            text.as_ref().is_some_and(|text| Some(text.place) == place)
        };
        let fills_description = fills(
            draft
                .description
                .as_ref()
                .map(|description| description.place),
            &self.description,
        );
        let fills_source = fills(
            draft.source.as_ref().map(|source| source.place),
            &self.source,
        );
        let properties = self.properties(&draft, &env, !fills_source, expansion);
        expansion.report.set_used_at(previous);
        let properties = expansion.interner.share(properties?);
        Some(Resolved {
            properties,
            fills_description,
            fills_source,
        })
    }

    /// Returns the properties of one variable of a table with placeholders in other properties than
    /// description and source.
    fn individual_properties(
        &self,
        env: &Env,
        override_indices: &[usize],
        target: &Target<'a>,
        expansion: &mut Expansion<'_>,
    ) -> Option<Arc<Properties>> {
        let braces = Braces::Fill(env);
        let own = Draft::read(
            self.table,
            Layer::Own,
            braces,
            TextMode::Fill,
            expansion.report,
        );
        let draft = self.draft(&own, override_indices, target);
        let properties = self.properties(&draft, env, true, expansion)?;
        Some(expansion.interner.share(properties))
    }

    fn draft(&self, own: &Draft<'a>, override_indices: &[usize], target: &Target<'a>) -> Draft<'a> {
        let overrides = override_indices
            .iter()
            .filter_map(|index| target.overrides.get(*index));
        overrides.fold(self.defaults.overlaid(own), |draft, rule| {
            draft.overlaid(&rule.draft)
        })
    }

    fn properties(
        &self,
        draft: &Draft<'_>,
        env: &Env,
        checks_source: bool,
        expansion: &mut Expansion<'_>,
    ) -> Option<Properties> {
        let source = draft.source.as_ref().filter(|_| checks_source);
        let is_known = source.is_none_or(|source| {
            check_source(&source.value, source.place, &expansion.io, expansion.report)
        });
        let (place, report) = (self.table.place, &mut *expansion.report);
        let properties = Resolver {
            draft,
            env,
            place,
            report,
        }
        .properties(&self.origin);
        properties.filter(|_| is_known)
    }
}
