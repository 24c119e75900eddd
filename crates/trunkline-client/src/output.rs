//! Output: what is sent, and in which order.
//!
//! Keep-alives go first, then requests and writes in the order in which the program made them,
//! frame by frame. Acknowledgements go along with other output. Writes that wait for credit do not
//! hold up requests.

use trunkline_proto::FrameKind;
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::convergence::{CompareBuilder, CompareHead};
use trunkline_proto::message::find::{Find, FindBuilder, FindCondition};
use trunkline_proto::message::forcing::Forcing;
use trunkline_proto::message::handles::{HandlesBuilder, UnsubscribeBuilder, UnsubscribeHead};
use trunkline_proto::message::keepalive::{AckBuilder, AckHead, Grant};
use trunkline_proto::message::list::{ListBuilder, ListFrame};
use trunkline_proto::message::open::{OpenBuilder, OpenOptions as WireOpenOptions, OpenTerms};
use trunkline_proto::message::single::encode_empty;
use trunkline_proto::message::subscribe::{SubscribeBuilder, SubscribeHead, SubscribeItem};
use trunkline_proto::message::watch::{Unwatch, Watch};
use trunkline_proto::message::why::Why;
use trunkline_proto::part::split_oversized;
use trunkline_types::Tick;

use crate::client::ClientCore;
use crate::group::{check_expected, send_group, send_lease, send_snapshot};
use crate::library::{send_deploy, send_order};
use crate::provider::send_provide;
use crate::request::{Request, Verb};
use crate::variable::{VariableRef, Variables};
use crate::wire::Wires;

/// Maximum output per call, even if the driver could take more.
const OUTPUT_BYTES_MAX: usize = 256 << 10;

impl ClientCore {
    /// Appends the frames to send now. Returns true if more is ready.
    pub(crate) fn write_output(&mut self, now: Tick, budget: usize, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let end = start.saturating_add(budget.min(OUTPUT_BYTES_MAX));
        let mut more = false;
        if std::mem::take(&mut self.connection.hello_due) {
            self.connection.hello(&self.options).encode(out);
        }
        if self.connection.is_open() {
            let frame_max = self.connection.frame_max();
            if std::mem::take(&mut self.connection.keepalive_due) {
                self.send_gathered = true;
                let records = self.connection.receipt.acknowledge();
                self.connection
                    .liveness
                    .keepalive(now, records, 0)
                    .encode(out);
            }
            let page = PAGE_BYTES.min(frame_max);
            loop {
                if out.len() >= end {
                    more = true;
                    break;
                }
                if !self.send_next(now, page, out)
                    && !self.send_provider(page, out)
                    && !self.send_compare(page, out)
                {
                    break;
                }
            }
            self.send_ack(out.len() > start, out);
            split_oversized(out, start, u32::try_from(frame_max).unwrap_or(u32::MAX));
        }
        if let Some(goodbye) = self.connection.take_goodbye() {
            goodbye.encode(out);
        }
        more
    }

    /// Appends the next queued frame. Returns false if nothing may be sent.
    fn send_next(&mut self, now: Tick, page: usize, out: &mut Vec<u8>) -> bool {
        let front = self.requests.front();
        let request = front.filter(|id| self.may_send(*id));
        let writes = match self.requests.are_handles_restored() {
            true => self.writes.front(),
            false => None,
        };
        match (request, writes) {
            (None, None) => false,
            (request, Some(order)) if request.is_none_or(|request| order < request) => {
                // Sends no writes made after the front request: a flush there waits only for
                // earlier writes.
                self.send_writes(now, front.unwrap_or(u64::MAX), page, out);
                true
            }
            (None, Some(_)) => false,
            (Some(id), _) => {
                let unsent = self.writes.first_unsent();
                if self.requests.is_group(id) && unsent.is_some_and(|order| order < id) {
                    // The earlier writes wait for credit, and the group waits for them.
                    return false;
                }
                self.send_request(id, page, out);
                true
            }
        }
    }

    fn send_request(&mut self, id: u64, page: usize, out: &mut Vec<u8>) {
        let Some(request) = self.requests.take_out(id) else {
            self.requests.sent_front();
            return;
        };
        let fault = self.not_understood(&request);
        let fault = fault.or_else(|| self.takes_no_provider(&request));
        if let Some(fault) = fault.or_else(|| self.knows_no_such_search(&request)) {
            self.end_request(id, request, Some(fault));
            return;
        }
        if let Some(answer) = self.check_group(&request) {
            self.end_with(id, &request, answer);
            return;
        }
        let Some(mut request) = self.begin_flush(id, request) else {
            return;
        };
        if !request.prepared {
            request.prepared = true;
            let single = self.prepare(&mut request);
            if request.total == 0 && !single {
                self.end_request(id, request, None);
                return;
            }
            request.wire = Some(self.requests.assign_wire(id));
        }
        let number = request.wire.unwrap_or(0);
        if matches!(request.verb, Verb::CheckAll) {
            let records = self.connection.receipt.acknowledge();
            let head = CompareHead {
                records_received: records,
            };
            CompareBuilder::begin(out, 0, &head).finish(false);
        }
        let (variables, wires) = (&self.variables, &self.wires);
        let epoch = self.connection.session().map_or(0, |session| session.epoch);
        encode(&mut request, number, epoch, variables, wires, page, out);
        if request.sent >= request.total {
            self.requests.sent_front();
        }
        if matches!(request.verb, Verb::Unwatch { .. } | Verb::CheckAll) {
            return self.requests.end(id, &request);
        }
        self.requests.put_back(id, request);
    }

    /// Decides which items of a request are sent. Returns true for a request that is sent even
    /// without items.
    fn prepare(&mut self, request: &mut Request) -> bool {
        let variables = &self.variables;
        let epoch = self.connection.session().map_or(0, |session| session.epoch);
        let by_name = |variable: VariableRef| self.check_name(variable);
        let by_handle = |variable: VariableRef| variables.handle(variable);
        let mut single = false;
        request.total = match &mut request.verb {
            Verb::Open { page, .. } => page.ask(by_name),
            Verb::Restore { page } => page.ask(by_name),
            Verb::Read { list, .. } | Verb::Snapshot { list, .. } => list.ask(variables),
            Verb::RequestValue(page) => page.ask(by_handle),
            Verb::Info(page) => page.ask(by_handle),
            Verb::Lease { page, terms } => {
                let mut items = 0..;
                page.ask(|variable| {
                    let item = items.next().unwrap_or(usize::MAX);
                    check_expected(terms, item, epoch).and_then(|()| variables.handle(variable))
                })
            }
            Verb::Close { handles, .. } => handles.len() as u32,
            Verb::OpenItems { items, .. } | Verb::Resume { items, .. } => items.len() as u32,
            Verb::Unsubscribe { handles, .. } => {
                // Without handles, the whole subscription ends.
                single = handles.is_empty();
                handles.len() as u32
            }
            Verb::Deploy { library, .. } => {
                single = true;
                library.variables.len() as u32
            }
            Verb::Find { .. }
            | Verb::Why { .. }
            | Verb::Engine
            | Verb::Flush { .. }
            | Verb::Group(_)
            | Verb::Forcing { .. }
            | Verb::OrderLibrary { .. }
            | Verb::Audit(_)
            | Verb::Provide { .. }
            | Verb::Watch { .. }
            | Verb::CheckAll
            | Verb::Unwatch { .. } => {
                single = true;
                0
            }
        };
        single
    }

    /// Appends an acknowledgement if one is due, or if one can go along with other output.
    fn send_ack(&mut self, sends_anyway: bool, out: &mut Vec<u8>) {
        let (wanted, due) = self.connection.receipt.due(&self.options);
        let goes_along = wanted && sends_anyway;
        if !due && !goes_along {
            return;
        }
        // The engine may be waiting for this acknowledgement.
        self.send_gathered |= due;
        let head = AckHead {
            records_received: self.connection.receipt.acknowledge(),
        };
        let mut ack = AckBuilder::begin(out, 0, &head);
        while let Some(subscription) = self.connection.receipt.next_grant() {
            let Some(wire) = self.wires.get_mut(subscription) else {
                continue;
            };
            let more = u64::from(wire.take_grant());
            if more > 0 {
                ack.push(&Grant { subscription, more });
            }
        }
        ack.finish(false);
    }
}

/// Appends one frame of a request, of about `page` bytes.
fn encode(
    request: &mut Request,
    number: u32,
    epoch: u64,
    variables: &Variables,
    wires: &Wires,
    page: usize,
    out: &mut Vec<u8>,
) {
    let (total, sent) = (request.total, &mut request.sent);
    let name_of = |variable: VariableRef| variables.get(variable).map_or("", |v| &*v.name);
    match &request.verb {
        Verb::Open {
            page: list,
            options,
        } => {
            let options = WireOpenOptions {
                read: options.read,
                describe: options.describe,
            };
            let terms = OpenTerms {
                options,
                subscribe: None,
            };
            let names = (&list.asked, &list.variables);
            let name = |index: u32| name_of(asked_variable(names, index));
            send_names(&terms, number, name, total, sent, page, out);
        }
        Verb::Restore { page: list } => {
            let names = (&list.asked, &list.variables);
            let name = |index: u32| name_of(asked_variable(names, index));
            send_names(&OpenTerms::default(), number, name, total, sent, page, out);
        }
        Verb::OpenItems { wire, items } => {
            let Some(wire) = wires.get(*wire) else {
                *sent = total;
                return;
            };
            let options = WireOpenOptions::default();
            let terms = OpenTerms {
                options,
                subscribe: Some(wire.terms),
            };
            let name = |index: u32| {
                let item = items.get(index as usize).and_then(|item| wire.item(*item));
                item.map_or("", |item| name_of(item.variable))
            };
            send_names(&terms, number, name, total, sent, page, out);
        }
        Verb::Resume { wire, items } => {
            let Some(wire) = wires.get(*wire) else {
                *sent = total;
                return;
            };
            let head = SubscribeHead {
                terms: wire.terms,
                resume_epoch: Some(epoch),
            };
            let mut frame = SubscribeBuilder::begin(out, number, &head);
            while *sent < total && frame.len_bytes() < page {
                let item = items.get(*sent as usize).and_then(|item| wire.item(*item));
                let position = item.and_then(|item| item.account.position());
                frame.push(&SubscribeItem {
                    handle: item.and_then(|item| item.handle).unwrap_or(u32::MAX),
                    last_sequence: position
                        .filter(|p| p.epoch == epoch)
                        .map_or(0, |p| p.sequence),
                });
                *sent += 1;
            }
            frame.finish(*sent < total);
        }
        Verb::Read { list, .. } => {
            let frame = HandlesBuilder::read(out, number);
            send_handles(frame, &list.asked, |asked| asked.1, total, sent, page);
        }
        Verb::Group(group) => send_group(group, number, variables, out),
        Verb::Snapshot { list, .. } => send_snapshot(&list.asked, number, sent, page, out),
        Verb::Lease { page: list, terms } => {
            send_lease(&list.asked, terms, epoch, number, sent, page, out);
        }
        Verb::RequestValue(list) => {
            let frame = HandlesBuilder::request_value(out, number);
            send_handles(frame, &list.asked, |asked| asked.1, total, sent, page);
        }
        Verb::Info(list) => {
            let frame = HandlesBuilder::info(out, number);
            send_handles(frame, &list.asked, |asked| asked.1, total, sent, page);
        }
        Verb::Close { handles, .. } => {
            let frame = HandlesBuilder::close(out, number);
            send_handles(frame, handles, |handle| *handle, total, sent, page);
        }
        Verb::Unsubscribe { wire, handles } => {
            let head = UnsubscribeHead {
                subscription: *wire,
            };
            let frame = UnsubscribeBuilder::begin(out, number, &head);
            send_handles(frame, handles, |handle| *handle, total, sent, page);
        }
        Verb::Find {
            pattern,
            conditions,
            limit,
            cursor,
            found,
        } => {
            let limit = u32::try_from(limit - found.len().min(*limit)).unwrap_or(u32::MAX);
            let head = Find {
                cursor: *cursor,
                limit,
                pattern,
            };
            let mut find = FindBuilder::begin(out, number, &head);
            for condition in conditions {
                find.push(&FindCondition::from(condition));
            }
            find.finish(false);
        }
        Verb::Why { name } => Why { name }.encode(number, out),
        Verb::Engine => encode_empty(FrameKind::Engine, number, out),
        Verb::Flush { .. } => encode_empty(FrameKind::Flush, number, out),
        Verb::Forcing { verb, cursor, .. } => {
            let (verb, cursor, limit) = (*verb, *cursor, 0);
            let forcing = Forcing {
                verb,
                cursor,
                limit,
            };
            forcing.encode(number, out);
        }
        Verb::Deploy { library, replace } => {
            send_deploy(library, *replace, number, sent, page, out);
        }
        Verb::Watch {
            number: watch,
            pattern,
            ..
        } => {
            let watch = *watch;
            Watch { watch, pattern }.encode(number, out);
        }
        // Encoded by the caller: the frame carries the receipt, which belongs to the connection.
        Verb::CheckAll => {}
        Verb::Unwatch { number } => Unwatch { watch: *number }.encode(0, out),
        Verb::Provide { name } => send_provide(name, number, out),
        Verb::Audit(asked) => asked.send(number, out),
        Verb::OrderLibrary { verb, library } => send_order(*verb, library, number, out),
    }
}

fn asked_variable(
    (asked, variables): (&Vec<(u32, u32)>, &Vec<VariableRef>),
    index: u32,
) -> VariableRef {
    let item = asked.get(index as usize).map_or(0, |(item, _)| *item);
    variables
        .get(item as usize)
        .copied()
        .unwrap_or(VariableRef::NOBODY)
}

fn send_names<'n>(
    terms: &OpenTerms,
    number: u32,
    name: impl Fn(u32) -> &'n str,
    total: u32,
    sent: &mut u32,
    page: usize,
    out: &mut Vec<u8>,
) {
    let mut frame = OpenBuilder::begin(out, number, terms);
    while *sent < total && frame.len_bytes() < page {
        frame.push(&name(*sent).as_bytes());
        *sent += 1;
    }
    frame.finish(*sent < total);
}

fn send_handles<T, F>(
    mut frame: ListBuilder<'_, F>,
    items: &[T],
    handle: impl Fn(&T) -> u32,
    total: u32,
    sent: &mut u32,
    page: usize,
) where
    F: for<'a> ListFrame<Item<'a> = u32>,
{
    for item in items.get(*sent as usize..).unwrap_or_default() {
        if frame.len_bytes() >= page {
            break;
        }
        frame.push(&handle(item));
        *sent += 1;
    }
    frame.finish(*sent < total);
}
