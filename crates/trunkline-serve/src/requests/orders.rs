//! Library orders, and queries of the audit, the alarm journal and the history. They are accepted,
//! passed to the engine's host, and answered when the host has replied. `deploy` receives the
//! library of a DEPLOY, and `history` reads a HISTORY.

use std::borrow::Borrow;

use trunkline_engine::{
    AuditRoom, LibraryState, LogPage, NoAuditRoom, Order, OrderNote, Reply, Report,
};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::alarm_journal::{AlarmEntriesForm, AlarmEntriesHead, AlarmJournal};
use trunkline_proto::message::audit::{Audit, AuditPageForm, AuditPageHead};
use trunkline_proto::message::library::{LibraryAfter, LibraryOrder, LibraryReport, LibraryVerb};
use trunkline_proto::message::list::{ListBuilder, ListFrame};
use trunkline_proto::{Disconnect, Fault, FaultCode, Frame};
use trunkline_types::alarm::{AlarmJournalQuery, AlarmState};
use trunkline_types::{AuditOutcome, AuditQuery, Pattern};

use super::{Rejection, history};
use crate::context::{Context, Progress, Request, units_of};
use crate::fault::audit_unstored;
use crate::request_budget::{Loan, Use};

/// Maximum number of unanswered orders per session.
const ORDERS_MAX: usize = 16;
/// An accepted or refused order. In both cases there is an audit entry (B-24), for which the order
/// may have to wait.
#[derive(Debug)]
struct OrderRequest {
    request: u32,
    /// The order; `None` once it has been passed to the host.
    order: Option<Order>,
    refused: Option<Fault>,
    /// The memory that the order takes until it is answered.
    loan: Option<Loan>,
}

pub(crate) fn handle(context: &mut Context, frame: &Frame<'_>) -> Result<(), Disconnect> {
    let LibraryOrder { verb, library } = LibraryOrder::decode(frame)?;
    let library = library.to_owned();
    let order = match verb {
        LibraryVerb::Undeploy { force } => Order::Undeploy { library, force },
        LibraryVerb::Start => Order::Start { library },
        LibraryVerb::Stop => Order::Stop { library },
    };
    let refused = refuse_order(context, order.check_rights(&context.caller));
    take_order(context, frame.request(), order, refused);
    Ok(())
}

pub(crate) fn handle_audit(context: &mut Context, frame: &Frame<'_>) -> Result<(), Rejection> {
    let audit = Audit::decode(frame)?;
    let query = AuditQuery {
        from: audit.from,
        since: audit.since,
        pattern: pattern_of(audit.pattern)?,
        who: (!audit.who.is_empty()).then(|| audit.who.to_owned()),
        newest_first: audit.newest_first,
        limit: audit.limit,
    };
    let order = Order::Audit(query);
    let refused = refuse_order(context, order.check_rights(&context.caller));
    take_order(context, frame.request(), order, refused);
    Ok(())
}

pub(crate) fn handle_alarm_journal(
    context: &mut Context,
    frame: &Frame<'_>,
) -> Result<(), Rejection> {
    let asked = AlarmJournal::decode(frame)?;
    let states = AlarmState::ALL.into_iter();
    let query = AlarmJournalQuery {
        from: asked.from,
        since: asked.since,
        until: asked.until,
        pattern: pattern_of(asked.pattern)?,
        area: asked.area.to_owned(),
        priority_min: u16::try_from(asked.priority_min).unwrap_or(u16::MAX),
        states: states
            .filter(|state| asked.states >> state.number() & 1 != 0)
            .collect(),
        newest_first: asked.newest_first,
        limit: asked.limit,
    };
    let order = Order::AlarmJournal(Box::new(query));
    let refused = refuse_order(context, order.check_rights(&context.caller));
    take_order(context, frame.request(), order, refused);
    Ok(())
}

/// Parses a pattern; an empty pattern matches all names.
pub(super) fn pattern_of(text: &str) -> Result<Option<Pattern>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    parse_pattern(text).map(Some)
}

pub(super) fn parse_pattern(text: &str) -> Result<Pattern, Fault> {
    Pattern::parse(text).map_err(|error| Fault::new(FaultCode::BadPattern, error.to_string()))
}

/// Queues an order or its refusal.
pub(super) fn take_order(
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
            let lent = match &order {
                Order::Deploy { .. } => Some((Use::Libraries, usize::MAX)),
                Order::History(query) => Some((Use::Requests, history::bytes_of(query))),
                _ => None,
            };
            loan = lent.map(|(of, bytes)| context.account.lend_out(of, bytes));
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
            Some(_) => match claim_order(context) {
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
            let (room, wall) = (room.unwrap_or_default(), context.moment.wall);
            engine
                .audit()
                .note_order(caller, wall, note, &room, &mut context.wakes);
            context.put_fault(self.request, fault);
            return Progress::Done;
        }
        let Some(room) = room else {
            context.unanswered_orders = context.unanswered_orders.saturating_sub(1);
            context.put_fault(self.request, &audit_unstored());
            return Progress::Done;
        };
        // There was an administrator when the order was accepted, and the options do not change.
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
        // The memory of an accepted order is already included in the memory of the orders.
        let name = self.order.as_ref().and_then(Order::audited);
        let sentence =
            |fault: &Fault| fault.sentence.len() + name.map_or(0, |(_, name)| name.len());
        self.refused.as_ref().map_or(0, sentence)
    }
}

/// Reserves room in the audit for the entry of an order. Returns `Ok(None)` if the entry cannot be
/// stored.
fn claim_order(context: &mut Context) -> Result<Option<AuditRoom>, Progress> {
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

/// Returns the reason to refuse an order now, if there is one. `rights` is the result of the check
/// of the caller's rights.
pub(super) fn refuse_order(context: &Context, rights: Result<(), Fault>) -> Option<Fault> {
    if context.options.administrator.is_none() {
        let sentence = "this engine takes no orders over the network; it does what its own \
                        program says";
        return Some(Fault::new(FaultCode::NotSupported, sentence));
    }
    if let Err(denied) = rights {
        return Some(denied);
    }
    (context.unanswered_orders >= ORDERS_MAX).then(|| {
        let sentence =
            format!("{ORDERS_MAX} orders of this connection wait; send the next when one is done");
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
            Ok(report) => of_report(&report).encode(request, &mut context.answers.frames),
            Err(fault) => context.put_fault(request, &fault),
        }
        context.account.settle();
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

/// Appends a page, in frames of about `PAGE_BYTES` each.
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

fn of_report(report: &Report) -> LibraryReport {
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
    }
}
