//! Orders to an engine, its audit, and providers.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::time::Duration;
use trunkline_proto::message::audit::{Audit, AuditPageBuilder, AuditPageFrame, AuditPageHead};
use trunkline_proto::message::forcing::{
    Forced, ForcedBuilder, ForcedEntry, ForcedHead, Forcing, ForcingVerb,
};
use trunkline_proto::message::library::{
    Deploy, DeployBuilder, DeployHead, LibraryAfter, LibraryOrder, LibraryReport, LibraryVerb,
};
use trunkline_proto::message::provider::{
    Provide, ProvideBuilder, ProviderAnswer, ProviderAnswers, ProviderAnswersBuilder, ProviderBind,
    ProviderBindBuilder, ProviderOutcome, ReadBack,
};
use trunkline_types::{
    AuditAction, AuditEntry, AuditOutcome, DataType, Position, Timestamp, Value, VariableDefinition,
};

use super::{
    access, all, bytes, data_type, fault, fault_ref, frame, handle, number, quality, text, time,
};

proptest! {
    #[test]
    fn deploy(library in "[ -~]{0,40}", description in "[ -~]{0,40}", replace: bool, more: bool,
        variables in vec(("[ -~]{0,40}", data_type()), 0..20)) {
        let mut out = Vec::new();
        let head = DeployHead { library: &library, description: &description, replace };
        let mut builder = DeployBuilder::begin(&mut out, 1, &head);
        let variables: Vec<_> = variables.into_iter()
            .map(|(path, ty)| VariableDefinition::new(path, ty)).collect();
        variables.iter().for_each(|variable| builder.push(variable));
        builder.finish(more);
        let deploy = Deploy::decode(&frame(&out)).unwrap();
        prop_assert_eq!(deploy.head(), head);
        prop_assert_eq!(all(deploy), variables);
    }

    #[test]
    fn library_order_and_report(library in "[ -~]{0,40}", verb in 0..4_u8, after in 0..3_u8,
        numbers in any::<[u64; 4]>()) {
        let verb = match verb {
            0 => LibraryVerb::Undeploy { force: false },
            1 => LibraryVerb::Undeploy { force: true },
            2 => LibraryVerb::Start,
            _ => LibraryVerb::Stop,
        };
        let (mut out, order) = (Vec::new(), LibraryOrder { verb, library: &library });
        order.encode(1, &mut out);
        prop_assert_eq!(LibraryOrder::decode(&frame(&out)).unwrap(), order);
        out.clear();
        let after = [LibraryAfter::Undeployed, LibraryAfter::Running, LibraryAfter::Stopped]
            [usize::from(after)];
        let [added, changed, kept, removed] = numbers;
        let report = LibraryReport { after, added, changed, kept, removed };
        report.encode(1, &mut out);
        prop_assert_eq!(LibraryReport::decode(&frame(&out)).unwrap(), report);
    }

    #[test]
    fn audit(
        from in proptest::option::of(any::<u64>()), since in proptest::option::of(any::<i64>()),
        texts in ["[ -~]{0,40}", "[ -~]{0,40}"], newest_first: bool, limit: u32,
        next in proptest::option::of(1_u64..), removed: u64,
        items in vec((any::<(u64, i64, u8, u64, u64)>(), vec("[ -~]{0,20}", 7), 1..7_u8), 0..6),
    ) {
        let mut out = Vec::new();
        let [pattern, who] = &texts;
        let since = since.map(Timestamp::from_nanos);
        let audit = Audit { from, since, pattern, who, newest_first, limit };
        audit.encode(1, &mut out);
        prop_assert_eq!(Audit::decode(&frame(&out)).unwrap(), audit);
        out.clear();
        let entries: Vec<_> = items.into_iter().map(|((number, when, action, a, b), texts, kind)| {
            let [who, from, name, data_type, old, new, sentence] = texts.try_into().unwrap();
            let position = Position { epoch: a, sequence: b };
            let outcome = match kind {
                1 => AuditOutcome::Done,
                2 => AuditOutcome::Applied(position),
                3 => AuditOutcome::Unchanged(position),
                4 => AuditOutcome::Refused(sentence),
                5 => AuditOutcome::Unknown(sentence),
                _ => AuditOutcome::Lost(a),
            };
            AuditEntry {
                number, when: Timestamp::from_nanos(when), who, from,
                action: AuditAction::from_number(action), name, data_type, old, new, outcome,
            }
        }).collect();
        let head = AuditPageHead { next, removed, state: pattern };
        let mut builder = AuditPageBuilder::begin(&mut out, 1, &head);
        entries.iter().for_each(|entry| builder.push(entry));
        builder.finish(true);
        let page = frame(&out);
        prop_assert!(page.has_more());
        let page = AuditPageFrame::decode(&page).unwrap();
        prop_assert_eq!(page.head(), head);
        prop_assert_eq!(all(page), entries);
    }

    #[test]
    fn forcing_and_forced(verb in 0..4_u8, cursor: u32, limit: u32, is_on: bool, total: u32,
        entries in vec(("[ -~]{0,40}", any::<(i64, i64)>(), time(), quality(), any::<bool>()),
        0..6)) {
        let verb = [ForcingVerb::List, ForcingVerb::On, ForcingVerb::Off, ForcingVerb::Clear]
            [usize::from(verb)];
        let (mut out, forcing) = (Vec::new(), Forcing { verb, cursor, limit });
        forcing.encode(1, &mut out);
        prop_assert_eq!(Forcing::decode(&frame(&out)).unwrap(), forcing);
        out.clear();
        let entries: Vec<_> = entries.into_iter()
            .map(|(name, (value, behind), since, quality, is_known)| ForcedEntry {
                by: name.clone(), name, data_type: DataType::I64, value: Value::I64(value), since,
                behind: is_known.then_some((Value::I64(behind), quality)),
            }).collect();
        let head = ForcedHead { is_on, total, next_cursor: cursor };
        let mut builder = ForcedBuilder::begin(&mut out, 1);
        entries.iter().for_each(|entry| builder.push(entry));
        builder.finish(&head);
        let forced = Forced::decode(&frame(&out)).unwrap();
        prop_assert_eq!(forced.head(), head);
        prop_assert_eq!(all(forced), entries);
    }

    #[test]
    fn provider(lease: u32, provider in "[ -~]{0,40}", names in vec(text(), 0..5), items in vec((
        number(), 0..3_u8, fault(), option::of(time()), option::of(quality()), option::of(bytes())
    ), 1..6)) {
        let lease = Duration::from_millis(lease.into());
        let mut out = Vec::new();
        let mut builder = ProvideBuilder::begin(&mut out, 1, lease, &provider);
        names.iter().for_each(|name| builder.push(name));
        builder.finish(false);
        let provide = Provide::decode(&frame(&out)).unwrap();
        prop_assert_eq!((provide.lease(), provide.provider()), (lease, provider.as_str()));
        prop_assert_eq!(all(provide), names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>());
        out.clear();
        let answers: Vec<ProviderAnswer<'_>> = items.iter()
            .map(|(ticket, kind, fault, source_timestamp, quality, value)| ProviderAnswer {
                ticket: *ticket,
                outcome: match kind {
                    0 => ProviderOutcome::Applied(ReadBack {
                        source_timestamp: *source_timestamp, quality: *quality,
                        value: value.as_deref(),
                    }),
                    1 => ProviderOutcome::Refused(fault_ref(fault)),
                    _ => ProviderOutcome::Unknown(fault_ref(fault)),
                },
            }).collect();
        let mut builder = ProviderAnswersBuilder::begin(&mut out);
        answers.iter().for_each(|answer| builder.push(answer));
        builder.finish();
        prop_assert_eq!(all(ProviderAnswers::decode(&frame(&out)).unwrap()), answers);
    }

    #[test]
    fn provider_bind(items in vec((handle(), data_type(), access(), "[ -~]{0,40}"), 1..20)) {
        let mut out = Vec::new();
        let mut builder = ProviderBindBuilder::begin(&mut out);
        for (handle, data_type, access, item) in &items {
            builder.push(*handle, data_type, *access, item);
        }
        builder.finish();
        let found: Vec<_> = all(ProviderBind::decode(&frame(&out)).unwrap()).into_iter()
            .map(|bound| (bound.handle, bound.data_type, bound.access, bound.item.to_owned()))
            .collect();
        prop_assert_eq!(found, items);
    }
}
