//! The JSON Schema of all output for programs, derived from the types of the lines.

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value as Json, json};

use super::rates::RateEvent;
use super::reading::Reading;
use super::readings::Written;
use crate::Problem;
use crate::verbs::{
    access, alarm, audit, backup, control, ctx, engine, force, history, info, io, join, library,
    limits, ls, monitor, pair, serve, snapshot, stream, tdms, user, why,
};
#[cfg(target_os = "linux")]
use crate::verbs::{play, record};

/// Events other than readings. `monitor` prints connection changes and ended subscriptions on
/// standard error. On standard output, `monitor --rate` prints rates, `serve` and `demo` print what
/// they serve, and `io run` prints its state.
#[derive(JsonSchema)]
#[schemars(untagged, title = "Trunkline event, version 1")]
#[expect(dead_code, reason = "for the schema only")]
enum Event {
    Monitor(monitor::MonitorEvent),
    Rate(RateEvent),
    Serve(serve::ServeEvent),
    Provider(io::ProviderEvent),
}

/// Returns the schema of a reading. The schemas of the other lines are under `$defs`.
pub(crate) fn schema() -> Json {
    let definitions = [
        ("error", schema_of::<Problem>()),
        ("write", schema_of::<Written>()),
        ("entry", schema_of::<ls::Entry>()),
        ("info", schema_of::<info::record::Info>()),
        ("step", schema_of::<why::Finding>()),
        ("saved", schema_of::<snapshot::SavedLine>()),
        ("difference", schema_of::<snapshot::compare::Difference>()),
        ("restored", schema_of::<snapshot::restore::Restored>()),
        ("library", schema_of::<library::Outcome>()),
        ("forced", schema_of::<force::Forced>()),
        ("forcing", schema_of::<force::Forcing>()),
        ("token", schema_of::<pair::Token>()),
        ("joined", schema_of::<join::Joined>()),
        ("context", schema_of::<ctx::Listed>()),
        ("context_info", schema_of::<ctx::Info>()),
        ("context_added", schema_of::<ctx::Added>()),
        ("account", schema_of::<user::Account>()),
        ("account_removed", schema_of::<user::Removed>()),
        ("rule", schema_of::<access::ListedRule>()),
        ("permission", schema_of::<access::Permission>()),
        ("action", schema_of::<access::ActionOfRoles>()),
        ("alarm", schema_of::<alarm::Alarm>()),
        ("alarm_action", schema_of::<alarm::Acted>()),
        ("alarm_entry", schema_of::<alarm::Entry>()),
        ("alarm_report", schema_of::<alarm::Report>()),
        ("control", schema_of::<control::Controlled>()),
        ("control_ended", schema_of::<control::Ended>()),
        ("control_event", schema_of::<control::ControlEvent>()),
        ("audit", schema_of::<audit::Entry>()),
        ("audit_verified", schema_of::<audit::Verified>()),
        ("history_interval", schema_of::<history::Bucket>()),
        ("history_coverage", schema_of::<history::Coverage>()),
        ("history_event", schema_of::<history::Event>()),
        ("history_series", schema_of::<history::Listed>()),
        ("history_folder", schema_of::<history::Totals>()),
        ("history_finding", schema_of::<history::Found>()),
        ("history_done", schema_of::<history::FolderEvent>()),
        ("backup", schema_of::<backup::Done>()),
        ("backup_finding", schema_of::<backup::Found>()),
        ("driver", schema_of::<io::Driver>()),
        ("limit", schema_of::<limits::Limit>()),
        ("engine", schema_of::<engine::info::Engine>()),
        ("ping", schema_of::<engine::ping::PingEvent>()),
        ("stopping", schema_of::<engine::stop::Stopping>()),
        ("reloaded", schema_of::<engine::reload::Reloaded>()),
        ("event", schema_of::<Event>()),
        ("stream", schema_of::<stream::events::StreamEvent>()),
        ("stream_bench", schema_of::<stream::bench::BenchEvent>()),
        ("stream_endpoint", schema_of::<stream::list::Endpoint>()),
        ("tdms_file", schema_of::<tdms::info::Contents>()),
        ("tdms_row", schema_of::<tdms::text::Row>()),
        ("tdms_finding", schema_of::<tdms::verify::Found>()),
        ("tdms_event", schema_of::<tdms::events::TdmsEvent>()),
        #[cfg(target_os = "linux")]
        ("recording", schema_of::<record::recorded::RecordingEvent>()),
        #[cfg(target_os = "linux")]
        ("recorded", schema_of::<record::recorded::Recorded>()),
        #[cfg(target_os = "linux")]
        ("record_notice", schema_of::<record::notices::Notice>()),
        #[cfg(target_os = "linux")]
        ("record_listed", schema_of::<record::list::Listed>()),
        #[cfg(target_os = "linux")]
        ("record_content", schema_of::<record::info::Content>()),
        #[cfg(target_os = "linux")]
        ("record_bench", schema_of::<record::bench::BenchedEvent>()),
        #[cfg(target_os = "linux")]
        ("played", schema_of::<play::Played>()),
    ];
    let mut root = schema_of::<Reading>();
    let dialect = "https://json-schema.org/draft/2020-12/schema";
    root.shift_insert(0, "$schema".to_owned(), dialect.into());
    let definitions = definitions.map(|(name, schema)| (name.to_owned(), schema.into()));
    let definitions: Map<String, Json> = definitions.into_iter().collect();
    root.insert("$defs".to_owned(), definitions.into());
    root.into()
}

fn schema_of<R: JsonSchema>() -> Map<String, Json> {
    let settings = SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
    let settings = settings.with_transform(tidy);
    let schema = settings.into_generator().into_root_schema_for::<R>();
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    // Every line begins with the version.
    let version = json!({ "const": 1, "description": "Version of this structure." });
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.shift_insert(0, "v".to_owned(), version);
    }
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Some(required) = required.as_array_mut() {
        required.insert(0, "v".into());
    }
    schema.entry("type").or_insert("object".into());
    for key in ["description", "title"] {
        if let Some(text) = schema.shift_remove(key) {
            schema.shift_insert(0, key.to_owned(), text);
        }
    }
    schema
}

/// Converts a derived schema to the published form: descriptions have no line breaks, numbers have
/// no format, and an optional key is left out instead of null, unless it is marked `x-nullable`.
fn tidy(schema: &mut Schema) {
    transform_subschemas(&mut tidy, schema);
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if let Some(Json::String(text)) = object.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if object
        .get("format")
        .is_some_and(|format| format != "date-time")
    {
        object.shift_remove("format");
    }
    let required = object.get("required").cloned().unwrap_or_default();
    let required = required.as_array().map_or(&[][..], Vec::as_slice);
    let properties = object.get_mut("properties").and_then(Json::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        let Some(property) = property.as_object_mut() else {
            continue;
        };
        if property.shift_remove("x-nullable").is_some() || required.contains(&name.as_str().into())
        {
            continue;
        }
        let Some(Json::Array(types)) = property.get_mut("type") else {
            continue;
        };
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            property.insert("type".to_owned(), only);
        }
    }
}
