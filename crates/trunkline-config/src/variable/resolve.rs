//! Converts the draft of a variable to its properties, and checks that they fit the type and each other.

use std::collections::HashSet;

use trunkline_types::alarm::AlarmDefinition;
use trunkline_types::fifo::FifoElement;
use trunkline_types::wire::{VALUE_BYTES_MAX, encode_value, encoded_len};
use trunkline_types::{AuditMode, DataType, Fifo, Name, Properties, Scaling, Scope};

use super::{Draft, Layer, Located, alarm, initial};
use crate::display::grouped;
use crate::error::ConfigErrorKind as Kind;
use crate::fields::{Braces, Values};
use crate::keys::Section;
use crate::placeholder::Env;
use crate::report::Report;
use crate::source::Place;

/// Turns drafts into properties.
#[derive(Debug)]
pub(crate) struct Resolver<'d, 'r> {
    pub draft: &'d Draft<'d>,
    /// Parameters that fill in the placeholders of this variable.
    pub env: &'d Env,
    /// Place of the variable's table, for errors about the variable as a whole.
    pub place: Place,
    pub report: &'r mut Report,
}

/// The I/O servers that a source may name.
#[derive(Debug)]
pub(crate) struct IoNames {
    pub known: HashSet<String>,
    /// True if a source may also name a server that is not in `known`.
    pub accepts_others: bool,
}

/// Returns true if `source` has the form `SERVER:ITEM` and names a server that exists; otherwise
/// reports it.
pub(crate) fn check_source(source: &str, place: Place, io: &IoNames, report: &mut Report) -> bool {
    match source.split_once(':') {
        Some((server, item)) if !server.is_empty() && !item.is_empty() => {
            if io.accepts_others || io.known.contains(server) {
                return true;
            }
            let (name, names) = (server.to_owned(), io.known.iter().map(String::as_str));
            report.error_with_suggestion(place, Kind::UnknownIo { name }, server, names);
        }
        _ => report.error(
            place,
            Kind::InvalidSource {
                source_text: source.to_owned(),
            },
        ),
    }
    false
}

impl Resolver<'_, '_> {
    /// Returns the properties, or `None` if an error was reported.
    pub fn properties(mut self, origin: &str) -> Option<Properties> {
        if self.draft.is_broken {
            return None;
        }
        let Some(data_type) = &self.draft.data_type else {
            let section = Section::Variable.header();
            self.report.error(
                self.place,
                Kind::KeyMissing {
                    section,
                    key: "type",
                },
            );
            return None;
        };
        let data_type = &data_type.value;
        let draft = self.draft;
        let scale = self.scaling(data_type);
        let (range, coerce) = self.range(data_type);
        let precision = self.precision(data_type);
        let deadband = self.deadband(data_type);
        let timestamps = self.timestamps();
        let mut properties = Properties::new(data_type.clone());
        properties.timestamps = timestamps.unwrap_or(true);
        let alias = self.alias();
        let fifo = match &alias {
            Some(target) if !target.is_empty() => Some(Fifo::Off),
            _ => self.fifo(&properties),
        };
        properties.fifo = fifo.unwrap_or_default();
        let range = range?;
        let initial = self.initial(&properties, range);

        properties.scaling = scale?;
        properties.range = range.map(|[low, high]| (low, high));
        properties.coerce = coerce?;
        properties.precision = precision?;
        properties.deadband = deadband?;
        fifo?;
        timestamps?;
        properties.initial = initial?;
        properties.description = text(&draft.description);
        properties.units = text(&draft.units);
        properties.source = text(&draft.source);
        properties.alias = alias?;
        properties.origin = origin.to_owned();
        properties.access = draft
            .access
            .as_ref()
            .map(|property| property.value)
            .unwrap_or_default();
        properties.scope = draft
            .scope
            .as_ref()
            .map(|property| property.value)
            .unwrap_or_default();
        properties.stall = draft
            .stall
            .as_ref()
            .map(|property| property.value)
            .unwrap_or_default();
        properties.number = draft.number.as_ref().map(|property| property.value);
        properties.single_writer = draft
            .single_writer
            .as_ref()
            .is_some_and(|property| property.value);
        properties.audit = draft
            .audit
            .as_ref()
            .map_or(AuditMode::Off, |property| property.value);
        properties.retain = draft.retain.as_ref().is_some_and(|property| property.value)
            && properties.alias.is_empty();
        properties.max_age = draft.max_age.as_ref().and_then(|property| property.value);
        properties.alarms = self.alarms(&properties)?;
        Some(properties)
    }

    /// Reports an error of a property. If the property was inherited, the report also names the
    /// variable.
    fn report_property_error<T>(&mut self, location: (Place, Layer), kind: Kind) -> Option<T> {
        let (place, layer) = location;
        if layer == Layer::Own {
            self.report.error(place, kind);
        } else {
            let previous = self.report.set_used_at(Some(self.place));
            self.report.error(place, kind);
            self.report.set_used_at(previous);
        }
        None
    }

    fn not_for_type<T, U>(
        &mut self,
        key: &'static str,
        property: &Located<U>,
        data_type: &DataType,
        reason: impl Into<String>,
    ) -> Option<T> {
        let (data_type, reason) = (data_type.to_string(), reason.into());
        self.report_property_error(
            (property.place, property.layer),
            Kind::NotForType {
                key,
                data_type,
                reason,
            },
        )
    }

    fn scaling(&mut self, data_type: &DataType) -> Option<Option<Scaling>> {
        let Some(Located {
            place,
            layer,
            value: Some(form),
        }) = self.draft.scale
        else {
            return Some(None);
        };
        let has_source = self.draft.source.is_some() || self.draft.alias.is_some();
        let kind = match form.scaling.check(data_type) {
            Ok(()) if has_source => return Some(Some(form.scaling)),
            Ok(()) => Kind::ScaleWithoutSource,
            Err(error) => Kind::InvalidScale {
                reason: error.to_string(),
            },
        };
        if layer == Layer::Defaults {
            Some(None)
        } else {
            self.report_property_error((place, layer), kind)
        }
    }

    /// Returns the range, and whether values are coerced to the range. A scale with `clamp = true`
    /// sets both.
    fn range(&mut self, data_type: &DataType) -> (Option<Option<[f64; 2]>>, Option<bool>) {
        let clamp = self.clamp(data_type);
        let range = match (self.explicit_range(data_type), clamp) {
            (Some(None), Some(property)) => self
                .check_range(&property, property.value, data_type)
                .map(Some),
            (explicit, _) => explicit,
        };
        let has_range = range.is_none_or(|range| range.is_some());
        let coerce = match &self.draft.coerce {
            None => Some(clamp.is_some()),
            Some(property) if property.value && !has_range => match property.layer {
                Layer::Defaults => Some(false),
                layer => {
                    self.report_property_error((property.place, layer), Kind::CoerceWithoutRange)
                }
            },
            Some(property)
                if !property.value && clamp.is_some() && property.layer != Layer::Defaults =>
            {
                self.report_property_error(
                    (property.place, property.layer),
                    Kind::ClampContradicted,
                )
            }
            Some(property) => Some(property.value || clamp.is_some()),
        };
        (range, coerce)
    }

    /// Returns the engineering limits of a scale with `clamp = true`, if the variable has a number
    /// type and a source.
    fn clamp(&self, data_type: &DataType) -> Option<Located<[f64; 2]>> {
        let scale = self.draft.scale?;
        let value = scale.value?.clamp?;
        let applies = data_type.is_numeric() && self.draft.source.is_some();
        applies.then_some(Located {
            place: scale.place,
            layer: scale.layer,
            value,
        })
    }

    fn explicit_range(&mut self, data_type: &DataType) -> Option<Option<[f64; 2]>> {
        let Some(property) = self.draft.range else {
            return Some(None);
        };
        let Some(range) = property.value else {
            return Some(None);
        };
        if data_type.is_numeric() {
            return self.check_range(&property, range, data_type).map(Some);
        }
        match property.layer {
            Layer::Defaults => Some(None),
            _ => self.not_for_type(
                "range",
                &property,
                data_type,
                "only numeric types have a range",
            ),
        }
    }

    /// Returns the range if it is valid and the type can represent both limits.
    fn check_range<T>(
        &mut self,
        property: &Located<T>,
        [low, high]: [f64; 2],
        data_type: &DataType,
    ) -> Option<[f64; 2]> {
        if low >= high {
            let (low, high) = (low.to_string(), high.to_string());
            return self.report_property_error(
                (property.place, property.layer),
                Kind::RangeEmpty { low, high },
            );
        }
        let Some([type_min, type_max]) = limits(data_type) else {
            return Some([low, high]);
        };
        for limit in [low, high] {
            if !data_type.is_float() && limit.fract() != 0.0 {
                let reason = format!("{limit} is not a whole number");
                return self.not_for_type("range", property, data_type, reason);
            }
            if !(type_min..=type_max).contains(&limit) {
                let reason = format!("{limit} is outside {type_min} to {type_max}");
                return self.not_for_type("range", property, data_type, reason);
            }
        }
        Some([low, high])
    }

    fn precision(&mut self, data_type: &DataType) -> Option<Option<u8>> {
        let Some(property) = self.draft.precision else {
            return Some(None);
        };
        if property.value.is_none() || has_numbers(data_type) {
            return Some(property.value);
        }
        match property.layer {
            Layer::Defaults => Some(None),
            _ => self.not_for_type(
                "precision",
                &property,
                data_type,
                "only numeric types have a precision",
            ),
        }
    }

    fn alarms(&mut self, properties: &Properties) -> Option<Vec<AlarmDefinition>> {
        let Some(property) = &self.draft.alarm else {
            return Some(Vec::new());
        };
        match alarm::resolve(&property.value, properties) {
            Ok(alarms) => Some(alarms),
            Err(reason) => self.report_property_error(
                (property.place, property.layer),
                Kind::AlarmRefused { reason },
            ),
        }
    }

    fn deadband(&mut self, data_type: &DataType) -> Option<trunkline_types::Deadband> {
        let Some(property) = self.draft.deadband else {
            return Some(Default::default());
        };
        if data_type.is_float() || property.value == Default::default() {
            return Some(property.value);
        }
        match property.layer {
            Layer::Defaults => Some(Default::default()),
            _ => self.not_for_type(
                "deadband",
                &property,
                data_type,
                "only f32 and f64 have a deadband",
            ),
        }
    }

    /// Returns the name of the alias's target, or an empty text if the variable is not an alias.
    /// Reports an alias that also has a property such as `source` or `retain`, because an alias has
    /// no value of its own.
    fn alias(&mut self) -> Option<String> {
        let draft = self.draft;
        let Some(property) = &draft.alias else {
            return Some(String::new());
        };
        let conflicts = [
            (
                draft.source.as_ref().map(|property| property.layer),
                "source",
            ),
            (
                draft.initial.as_ref().map(|property| property.layer),
                "initial",
            ),
            (
                draft
                    .retain
                    .filter(|property| property.value)
                    .map(|property| property.layer),
                "retain",
            ),
            (
                draft
                    .fifo
                    .filter(|property| property.value.is_some())
                    .map(|property| property.layer),
                "fifo",
            ),
        ];
        // A default that does not apply to a variable is ignored, so it is not a conflict.
        let mut conflicts = conflicts
            .into_iter()
            .filter(|(layer, _)| layer.is_some_and(|layer| layer != Layer::Defaults));
        if let Some((_, key)) = conflicts.next() {
            return self.report_property_error(
                (property.place, property.layer),
                Kind::AliasContradicted { key },
            );
        }
        let text = &property.value;
        let reason = match Name::parse(text) {
            _ if text.contains("://") => {
                "an alias refers to a variable of the same engine; write library/path".to_owned()
            }
            Ok(name) if name.field().is_some() => {
                "an alias refers to a whole variable; write library/path".to_owned()
            }
            Ok(name) => return Some(name.as_str().to_owned()),
            Err(error) => error.to_string(),
        };
        let text = text.clone();
        self.report_property_error(
            (property.place, property.layer),
            Kind::InvalidAlias { text, reason },
        )
    }

    fn fifo(&mut self, properties: &Properties) -> Option<Fifo> {
        let Some(Located {
            place,
            layer,
            value: Some(form),
        }) = self.draft.fifo
        else {
            return Some(Fifo::Off);
        };
        match form.fifo(properties) {
            Ok(fifo) => Some(fifo),
            Err(kind) => self.report_property_error((place, layer), kind),
        }
    }

    fn timestamps(&mut self) -> Option<bool> {
        let Some(property) = self.draft.timestamps else {
            return Some(true);
        };
        let scope = self
            .draft
            .scope
            .map(|property| property.value)
            .unwrap_or_default();
        if property.value || scope == Scope::Process {
            return Some(property.value);
        }
        self.report_property_error((property.place, property.layer), Kind::TimestampsNeeded)
    }

    fn initial(
        &mut self,
        properties: &Properties,
        range: Option<[f64; 2]>,
    ) -> Option<Option<trunkline_types::Value>> {
        let Some(property) = self.draft.initial else {
            return Some(None);
        };
        let env = match property.layer {
            Layer::Own => Braces::Fill(self.env),
            Layer::Override | Layer::Defaults => Braces::Reject(Section::Override),
        };
        let mut values = Values {
            report: self.report,
            env,
        };
        let value = initial::read(property.value, &properties.data_type, &mut values)?;
        if encoded_len(&value) > VALUE_BYTES_MAX {
            let reason = format!("it has more than {} bytes", grouped(VALUE_BYTES_MAX));
            return self.report_property_error(
                (property.place, property.layer),
                Kind::InvalidInitial { reason },
            );
        }
        if let Ok(Some(element)) = FifoElement::of(properties) {
            let mut bytes = Vec::new();
            encode_value(&value, &mut bytes);
            if let Err(actual) = element.check_length(&bytes) {
                let expected = element.length;
                let reason = format!(
                    "its length is {actual}, but every value in the FIFO has length {expected}"
                );
                return self.report_property_error(
                    (property.place, property.layer),
                    Kind::InvalidInitial { reason },
                );
            }
        }
        if let (Some([low, high]), Some(number)) = (range, value.as_f64())
            && !(low..=high).contains(&number)
        {
            let (value, low, high) = (number.to_string(), low.to_string(), high.to_string());
            let kind = Kind::InitialOutOfRange { value, low, high };
            return self.report_property_error((property.place, property.layer), kind);
        }
        Some(Some(value))
    }
}

fn text(property: &Option<Located<String>>) -> String {
    property
        .as_ref()
        .map(|property| property.value.clone())
        .unwrap_or_default()
}

/// Returns true if a precision is meaningful for values of this type.
fn has_numbers(data_type: &DataType) -> bool {
    match data_type {
        DataType::Array(ty) => ty.element.data_type().is_numeric(),
        DataType::Waveform(element) => element.data_type().is_numeric(),
        DataType::Struct(ty) => ty.fields.iter().any(|(_, field)| has_numbers(field)),
        other => other.is_numeric(),
    }
}

/// Returns the smallest and largest value of a number type.
fn limits(data_type: &DataType) -> Option<[f64; 2]> {
    Some(match data_type {
        DataType::I8 => [f64::from(i8::MIN), f64::from(i8::MAX)],
        DataType::I16 => [f64::from(i16::MIN), f64::from(i16::MAX)],
        DataType::I32 => [f64::from(i32::MIN), f64::from(i32::MAX)],
        DataType::I64 => [i64::MIN as f64, i64::MAX as f64],
        DataType::U8 => [0.0, f64::from(u8::MAX)],
        DataType::U16 => [0.0, f64::from(u16::MAX)],
        DataType::U32 => [0.0, f64::from(u32::MAX)],
        DataType::U64 => [0.0, u64::MAX as f64],
        DataType::F32 => [f64::from(f32::MIN), f64::from(f32::MAX)],
        _ => return None,
    })
}
