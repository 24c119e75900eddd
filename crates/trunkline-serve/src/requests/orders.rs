//! Passes orders to the engine's host, and sends the host's answers to the client.
//!
//! Orders start, stop, deploy and undeploy libraries, stop the engine, and query the audit trail,
//! the alarm journal and the history. `deploy` receives the library of a DEPLOY, and `history`
//! decodes a HISTORY.

use std::borrow::Borrow;

use trunkline_engine::{
    AuditRoom, LibraryState, LogPage, NoAuditRoom, Order, OrderNote, Reply, Report,
};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::alarm_journal::{AlarmEntriesForm, AlarmEntriesHead, AlarmJournal};
use trunkline_proto::message::audit::{Audit, AuditPageForm, AuditPageHead};
use trunkline_proto::message::library::{
    LibraryAfter, LibraryOrder, LibraryReport, LibraryVerb, REPORT_KEYS_MAX,
};
use trunkline_proto::message::list::{ListBuilder, ListFrame};
use trunkline_proto::{Disconnect, Fault, FaultCode, Features};
use trunkline_types::alarm::{AlarmJournalQuery, AlarmState};
use trunkline_types::{AuditOutcome, AuditQuery, Pattern};

use super::{Rejection, history};
use crate::context::{Context, Progress, Request, units_of};
use crate::fault::{audit_unstored, not_agreed};
use crate::gate::Admitted;
use crate::request_budget::{Loan, MemoryUse};

/// Maximum number of unanswered orders per session.
const ORDERS_MAX: usize = 16;
/// An accepted or refused order. The audit trail has an entry in both cases (B-24), so the order
/// may have to wait until the audit trail has room.
#[derive(Debug)]
struct OrderRequest {
    request: u32,
    /// The order; `None` after it was passed to the host.
    order: Option<Order>,
    /// The reason for the refusal; `None` for an accepted order.
    refused: Option<Fault>,
    /// The memory of the order, charged to the session until the host has answered.
    loan: Option<Loan>,
}

pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Disconnect> {
    let LibraryOrder { verb, library } = LibraryOrder::decode(frame)?;
    let library = library.to_owned();
    let order = match verb {
        LibraryVerb::Undeploy { force } => Order::Undeploy { library, force },
        LibraryVerb::Start => Order::Start { library },
        LibraryVerb::Stop => Order::Stop { library },
        LibraryVerb::StopEngine if !context.features.contains(Features::ENGINE_ORDERS) => {
            let fault = not_agreed("stopping the engine", Features::ENGINE_ORDERS);
            context.put_fault(frame.request(), &fault);
            return Ok(());
        }
        LibraryVerb::StopEngine => Order::StopEngine,
        LibraryVerb::ReloadEngine if !context.features.contains(Features::RELOAD) => {
            let fault = not_agreed("reloading the configuration", Features::RELOAD);
            context.put_fault(frame.request(), &fault);
            return Ok(());
        }
        LibraryVerb::ReloadEngine => Order::ReloadEngine,
    };
    let refused = refuse_order(context, order.check_rights(&context.caller));
    queue_order(context, frame.request(), order, refused);
    Ok(())
}

pub(crate) fn handle_audit(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Rejection> {
    let audit = Audit::decode(frame)?;
    let query = AuditQuery {
        from: audit.from,
        since: audit.since,
        pattern: parse_optional_pattern(audit.pattern)?,
        who: (!audit.who.is_empty()).then(|| audit.who.to_owned()),
        newest_first: audit.newest_first,
        limit: audit.limit,
        permitted: context.caller.rights.names_in_audit(),
    };
    let order = Order::Audit(query);
    let refused = refuse_order(context, order.check_rights(&context.caller));
    queue_order(context, frame.request(), order, refused);
    Ok(())
}

pub(crate) fn handle_alarm_journal(
    context: &mut Context,
    frame: &Admitted<'_>,
) -> Result<(), Rejection> {
    let journal = AlarmJournal::decode(frame)?;
    let states = AlarmState::ALL.into_iter();
    let query = AlarmJournalQuery {
        from: journal.from,
        since: journal.since,
        until: journal.until,
        pattern: parse_optional_pattern(journal.pattern)?,
        area: journal.area.to_owned(),
        priority_min: u16::try_from(journal.priority_min).unwrap_or(u16::MAX),
        states: states
            .filter(|state| journal.states >> state.number() & 1 != 0)
            .collect(),
        newest_first: journal.newest_first,
        limit: journal.limit,
        permitted: context.caller.rights.names_with_history(),
    };
    let order = Order::AlarmJournal(Box::new(query));
    let refused = refuse_order(context, order.check_rights(&context.caller));
    queue_order(context, frame.request(), order, refused);
    Ok(())
}

/// Parses a pattern. Returns `None` for an empty text, which matches all names.
pub(super) fn parse_optional_pattern(text: &str) -> Result<Option<Pattern>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    parse_pattern(text).map(Some)
}

pub(super) fn parse_pattern(text: &str) -> Result<Pattern, Fault> {
    Pattern::parse(text).map_err(|error| Fault::new(FaultCode::BadPattern, error.to_string()))
}

/// Queues an order, which is refused if `refused` is a fault. A refused order that has no audit entry
/// is answered immediately.
pub(super) fn queue_order(
    context: &mut Context,
    request: u32,
    order: Order,
    refused: Option<Fault>,
) {
    let mut loan = None;
    match &refused {
        Some(fault) if order.audited().is_none() => return context.put_fault(request, fault),
        Some(_) => {}
        None => {
            context.unanswered_orders += 1;
            let charge = match &order {
                Order::Deploy { .. } => Some((MemoryUse::Libraries, usize::MAX)),
                Order::History(query) => Some((MemoryUse::Requests, history::bytes_of(query))),
                _ => None,
            };
            loan = charge.map(|(purpose, bytes)| context.account.lend(purpose, bytes));
        }
    }
    context.queue.push(OrderRequest {
        request,
        order: Some(order),
        refused,
        loan,
    });
}

impl Request for OrderRequest {
    /// Passes the order to the host, or answers with the reason for its refusal.
    fn run(&mut self, context: &mut Context) -> Progress {
        let audited = self.order.as_ref().and_then(Order::audited);
        let room = match audited {
            Some(_) => match claim_audit_room(context) {
                Ok(room) => room,
                Err(progress) => return progress,
            },
            None => Some(AuditRoom::default()),
        };
        if let (Some(fault), Some((action, name))) = (&self.refused, audited) {
            let note = OrderNote {
                action,
                name,
                effect: "",
                outcome: AuditOutcome::Refused(fault.sentence.to_string()),
            };
            let (engine, caller) = (&context.engine, &context.caller);
            let (room, moment) = (room.unwrap_or_default(), context.moment);
            engine
                .audit()
                .note_order(caller, moment, note, &room, &mut context.wakes);
            context.put_fault(self.request, fault);
            return Progress::Done;
        }
        let Some(room) = room else {
            context.unanswered_orders = context.unanswered_orders.saturating_sub(1);
            context.put_fault(self.request, &audit_unstored());
            return Progress::Done;
        };
        // An order is accepted only if there is an administrator, and the options do not change.
        let administrator = &context.options.administrator;
        if let (Some(order), Some(administrator)) = (self.order.take(), administrator) {
            let reply = Reply::to(&context.consumer, self.request).with_room(room);
            administrator.submit(&context.caller, order, reply.holding(self.loan.take()));
        }
        Progress::Done
    }

    fn units(&self) -> usize {
        units_of(0)
    }

    fn bytes(&self) -> usize {
        // The memory of an accepted order is a loan, which is charged separately.
        let name = self.order.as_ref().and_then(Order::audited);
        let sentence =
            |fault: &Fault| fault.sentence.len() + name.map_or(0, |(_, name)| name.len());
        self.refused.as_ref().map_or(0, sentence)
    }
}

/// Reserves room in the audit trail for the entry of an order. Returns `Ok(None)` if the entry
/// cannot be stored.
fn claim_audit_room(context: &mut Context) -> Result<Option<AuditRoom>, Progress> {
    context.parked_until = None;
    loop {
        match context.engine.audit().claim(1, context.moment.now) {
            Ok(room) => return Ok(Some(room)),
            Err(NoAuditRoom::Wait(until)) => {
                if context.consumer.wait_for_audit() {
                    context.parked_until = Some(until);
                    return Err(Progress::Parked);
                }
            }
            Err(NoAuditRoom::Unstored) => return Ok(None),
        }
    }
}

/// Returns the reason to refuse an order now, or `None` to accept it. `rights` is the result of
/// checking the caller's rights.
pub(super) fn refuse_order(context: &Context, rights: Result<(), Fault>) -> Option<Fault> {
    if context.options.administrator.is_none() {
        let sentence = "this engine does not accept commands over the network; use the program that \
                        runs the engine";
        return Some(Fault::new(FaultCode::NotSupported, sentence));
    }
    if let Err(denied) = rights {
        return Some(denied);
    }
    (context.unanswered_orders >= ORDERS_MAX).then(|| {
        let sentence = format!(
            "{ORDERS_MAX} commands from this connection are unanswered; wait for an answer first"
        );
        Fault::new(FaultCode::Overloaded, sentence)
    })
}

/// Answers orders that the host has completed.
pub(crate) fn answer_reports(context: &mut Context) {
    while let Some((request, result)) = context.consumer.take_report() {
        context.unanswered_orders = context.unanswered_orders.saturating_sub(1);
        match result {
            Ok(Report {
                page: Some(page), ..
            }) => put_page(&page, request, &mut context.answers.frames),
            Ok(report) => report_message(&report).encode(request, &mut context.answers.frames),
            Err(fault) => context.put_fault(request, &fault),
        }
        context.account.return_ended_loans();
    }
}

fn put_page(page: &LogPage, request: u32, out: &mut Vec<u8>) {
    match page {
        LogPage::Audit(page) => {
            let head = AuditPageHead {
                next: page.next,
                removed: page.removed,
                state: &page.state,
            };
            put_frames::<AuditPageForm, _>(&head, page.entries.iter(), request, out);
        }
        LogPage::Alarms(page) => {
            let head = AlarmEntriesHead {
                next: page.next,
                removed: page.removed,
                state: &page.state,
            };
            put_frames::<AlarmEntriesForm, _>(&head, page.entries.iter(), request, out);
        }
        LogPage::History(page) => history::put_page(page, request, out),
    }
}

/// Appends entries in frames of about `PAGE_BYTES` each. Every frame has the same head.
pub(super) fn put_frames<'i, F: ListFrame, I: Borrow<F::Item<'i>>>(
    head: &F::Head<'_>,
    entries: impl Iterator<Item = I>,
    request: u32,
    out: &mut Vec<u8>,
) {
    let mut entries = entries.peekable();
    loop {
        let mut frame = ListBuilder::<F>::begin(out, request, head);
        while let Some(entry) = entries.next_if(|_| frame.len_bytes() < PAGE_BYTES) {
            frame.push(entry.borrow());
        }
        let has_more = entries.peek().is_some();
        frame.finish(has_more);
        if !has_more {
            return;
        }
    }
}

fn report_message(report: &Report) -> LibraryReport {
    let keys = |keys: &[String]| keys.iter().take(REPORT_KEYS_MAX).cloned().collect();
    LibraryReport {
        after: match report.state {
            None => LibraryAfter::Undeployed,
            Some(LibraryState::Running) => LibraryAfter::Running,
            Some(LibraryState::Stopped) => LibraryAfter::Stopped,
        },
        added: report.added as u64,
        changed: report.changed as u64,
        kept: report.kept as u64,
        removed: report.removed as u64,
        applied: keys(&report.keys.applied),
        restart: keys(&report.keys.restart),
    }
}
