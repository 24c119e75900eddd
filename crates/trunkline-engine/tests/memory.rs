//! The cost of a variable and a subscription in bytes, and the allocations of a write: an allocator
//! counts the requests of each thread.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use rig::{Rig, balanced, define, drain, drain_some, library_of, updates};
use trunkline_engine::realtime::Pumped;
use trunkline_engine::{Consumer, Delivery, Sink, Subscribe, Variable, Wakes, Write, WriteOutcome};
use trunkline_types::ledger::EndedItem;
use trunkline_types::{
    ArrayType, Contract, DataType, ElementType, Fifo, Properties, Value, VariableDefinition,
};

/// Counts per thread, so that tests do not affect each other.
struct Counting;

#[derive(Clone, Copy, Default)]
struct Counts {
    allocations: u64,
    /// Bytes requested and not freed.
    live: i64,
    /// These bytes as rounded by the system's allocator: one extra word, a multiple of 16, at least
    /// 32.
    resident: i64,
}

thread_local! {
    static COUNTS: Cell<Counts> = const {
        Cell::new(Counts { allocations: 0, live: 0, resident: 0 })
    };
}

fn count(allocations: u64, size: usize, sign: i64) {
    let chunk = (size + 8).next_multiple_of(16).max(32) as i64;
    // A thread that is ending no longer counts.
    let _ended = COUNTS.try_with(|counts| {
        let mut now = counts.get();
        now.allocations += allocations;
        now.live += sign * size as i64;
        now.resident += sign * chunk;
        counts.set(now);
    });
}

// SAFETY: every call is forwarded unchanged to `System`; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size(), 1);
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size(), -1);
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(0, layout.size(), -1);
        count(1, size, 1);
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn counts() -> Counts {
    COUNTS.with(Cell::get)
}

/// Returns the number of allocations made by `work`, and the bytes that are still allocated.
fn cost(work: impl FnOnce()) -> Counts {
    let before = counts();
    work();
    let after = counts();
    Counts {
        allocations: after.allocations - before.allocations,
        live: after.live - before.live,
        resident: after.resident - before.resident,
    }
}

/// `count` plain f64 variables with full names of 24 bytes.
fn plain(count: usize) -> Vec<VariableDefinition> {
    let properties = Arc::new(Properties::new(DataType::F64));
    let define = |n| VariableDefinition {
        path: format!("unit/value/{n:07}/y"),
        properties: Arc::clone(&properties),
    };
    (0..count).map(define).collect()
}

fn variables(rig: &Rig, handles: &[u32]) -> Vec<Arc<Variable>> {
    let variable = |handle: &u32| Arc::clone(&rig.engine.variable(*handle).expect("deployed"));
    handles.iter().map(variable).collect()
}

#[test]
fn plain_variable_costs_under_300_bytes() {
    for count in [100_000, 1_000_000] {
        let rig = Rig::new();
        let library = library_of("rig", plain(count));
        let name = format!("rig/{}", library.variables[0].path);
        assert_eq!(name.len(), 24);
        let mut handles = Vec::new();
        let cost = cost(|| {
            handles = rig
                .engine
                .libraries()
                .deploy(&library, rig.now(), rig.wall())
                .expect("well formed");
        });
        let (live, resident) = (cost.live / count as i64, cost.resident / count as i64);
        println!("{count} variables: {live} bytes each asked for, {resident} taken");
        assert!(resident < 300, "{resident} bytes");
        // A value needs no additional memory.
        let values = self::cost(|| {
            for handle in handles.iter().take(1000) {
                let variable = rig.engine.variable(*handle).expect("the variable exists");
                rig.write(&variable, 1.0);
            }
        });
        assert_eq!(values.live, 0);
    }
}

/// Behaviour: B-06.
#[test]
fn latest_subscription_costs_at_most_64_bytes_with_its_counters() {
    let count = 100_000;
    let rig = Rig::new();
    let handles = rig.deploy("rig", plain(count));
    let variables = variables(&rig, &handles);
    let mut consumer = rig.consumer();
    let cost = cost(|| {
        for variable in &variables {
            rig.subscribe(&mut consumer, 1, Contract::Latest, variable);
        }
    });
    let (live, resident) = (cost.live / count as i64, cost.resident / count as i64);
    println!("latest item: {live} bytes asked for, {resident} taken");
    assert!(resident <= 64, "{resident} bytes");
    assert_eq!(updates(&mut consumer).len(), count);

    // A second subscriber of the same variables needs less memory.
    let mut second = rig.consumer();
    let cost = self::cost(|| {
        for variable in &variables {
            rig.subscribe(&mut second, 1, Contract::Latest, variable);
        }
    });
    println!("second latest item: {} bytes", cost.resident / count as i64);
    assert!(cost.resident / (count as i64) <= 64);
    // All memory is released.
    let cost = self::cost(|| {
        consumer.unsubscribe(1, None, &mut Wakes::new());
        drop(second);
        while rig.engine.health().subscription_count() > 0 {
            rig.poll();
        }
    });
    assert!(-cost.live > count as i64 * 95, "{} bytes", -cost.live);
}

/// Accepts every delivery and stores nothing.
struct Tap {
    taken: u64,
}

impl Sink for Tap {
    fn wants(&self) -> bool {
        true
    }
    fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.taken += u64::from(delivery.update.sequence > 0);
    }
    fn overrun(&mut self, _subscription: u32, _items: &[EndedItem]) {
        panic!("a subscription ended with `overrun`");
    }
    fn gone(&mut self, _subscription: u32, _handle: u32) {}
}

/// Writes and drains many times after a warm-up. Returns the number of allocations.
fn steady(rig: &Rig, x: &Variable, consumer: &mut Consumer, value: &Value) -> u64 {
    let mut wakes = Wakes::new();
    let mut sink = Tap { taken: 0 };
    let mut round = || {
        for _ in 0..10 {
            let write = Write::value(value);
            let (now, wall) = (rig.now(), rig.wall());
            let attempt = rig
                .engine
                .try_write(&rig.caller, now, wall, x, &write, &mut wakes);
            assert!(matches!(rig::done(attempt), WriteOutcome::Applied(_)));
        }
        wakes.flush();
        consumer.drain(&mut sink, &mut wakes);
    };
    (0..20).for_each(|_| round());
    cost(|| (0..1000).for_each(|_| round())).allocations
}

#[test]
fn steady_updates_of_numbers_allocate_nothing() {
    let contracts = [
        Contract::Latest,
        Contract::Last(8),
        Contract::First(8),
        Contract::ALL,
        Contract::Sampled(std::time::Duration::from_secs(1)),
    ];
    for contract in contracts {
        for only_changes in [false, true] {
            let (rig, x) = Rig::plain();
            let mut consumer = rig.consumer();
            let wanted = Subscribe {
                only_changes,
                ..Subscribe::new(1, contract)
            };
            consumer
                .subscribe(&rig.caller, &x, wanted)
                .expect("the variable can be subscribed");
            let allocations = steady(&rig, &x, &mut consumer, &Value::F64(1.5));
            assert_eq!(allocations, 0, "{contract}, only changes: {only_changes}");
            balanced(&consumer, 1, &x);
        }
    }
    // Texts stored in place, and a peer that confirms, also need no allocation.
    let (rig, x) = Rig::of(Properties::new(DataType::String));
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Latest, &x);
    let text = Value::Bool(true);
    assert!(matches!(rig.write(&x, text), WriteOutcome::Refused(_)));
    let wire = [3, b'a', b'b', b'c'];
    let mut wakes = Wakes::new();
    let mut write = || {
        let write = Write::wire(&wire);
        rig.engine
            .try_write(&rig.caller, rig.now(), rig.wall(), &x, &write, &mut wakes);
    };
    write();
    assert_eq!(cost(|| (0..1000).for_each(|_| write())).allocations, 0);
}

#[test]
fn write_in_wire_form_with_every_rule_allocates_nothing() {
    let mut properties = Properties::new(DataType::F64);
    properties.range = Some((0.0, 10.0));
    properties.coerce = true;
    properties.deadband.user_percent = 1.0;
    let (rig, x) = Rig::of(properties);
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Latest, &x);
    drain(&mut consumer);
    let mut wakes = Wakes::new();
    let mut round = |value: f64| {
        let bytes = value.to_le_bytes();
        let mut write = Write::wire(&bytes);
        write.source_timestamp = Some(rig.wall());
        rig.engine
            .try_write(&rig.caller, rig.now(), rig.wall(), &x, &write, &mut wakes);
    };
    for value in [1.0, 1.01, 20.0] {
        round(value);
    }
    let cost = cost(|| (0..1000).for_each(|n| round(f64::from(n % 13))));
    assert_eq!(cost.allocations, 0);
    assert!(x.ledger().unchanged > 0 && x.ledger().written > 500);
}

/// Behaviour: SP-20, SP-21.
#[test]
fn real_time_endpoints_allocate_when_they_are_made_and_never_again() {
    for fifo in [
        Fifo::Single { length: 1 },
        Fifo::Multi {
            capacity: 16,
            length: 1,
        },
    ] {
        for scope in [
            trunkline_types::Scope::Process,
            trunkline_types::Scope::Network,
        ] {
            let mut properties = Properties::new(DataType::F64);
            (properties.fifo, properties.scope) = (fifo, scope);
            let rig = Rig::with(vec![define("x", properties)]);
            let mut writer = rig
                .engine
                .realtime()
                .writer(&rig.caller, "rig/x")
                .expect("the write is accepted");
            let mut reader = rig
                .engine
                .realtime()
                .reader(&rig.caller, "rig/x")
                .expect("the variable has a FIFO");
            // This includes the first access, and full and empty FIFOs.
            let cost = cost(|| {
                for n in 0..100 {
                    writer.write(f64::from(n), rig.wall());
                    writer.write_slice(&[f64::from(n)], rig.wall());
                    if n % 3 == 0 {
                        reader.read::<f64>();
                        reader.read_slice::<f64>();
                    }
                }
                for _ in 0..100 {
                    reader.read::<f64>();
                }
            });
            assert_eq!(cost.allocations, 0, "{fifo:?} {scope:?}");
        }
    }
}

/// Blocks on the way from a real-time thread to a subscriber need no allocation once there are as
/// many buffers as blocks that wait at a time.
///
/// Behaviour: SP-20, SP-22.
#[test]
fn blocks_reach_a_subscriber_through_a_fifo_without_allocation() {
    let mut properties = Properties::new(DataType::Array(Arc::new(ArrayType {
        element: ElementType::F64,
        shape: vec![Some(128)],
    })));
    properties.fifo = Fifo::Multi {
        capacity: 16,
        length: 128,
    };
    let (rig, x) = Rig::of(properties);
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::ALL, &x);
    let caller = &rig.caller;
    let mut writer = rig
        .engine
        .realtime()
        .writer(caller, "rig/x")
        .expect("the write is accepted");
    let mut sink = Tap { taken: 0 };
    let mut wakes = Wakes::new();
    let mut round = |first: f64| {
        let block: [f64; 128] = std::array::from_fn(|at| first + at as f64);
        for _ in 0..10 {
            writer.write_slice(&block, rig.wall());
        }
        let (now, wall) = (rig.now(), rig.wall());
        assert_eq!(
            rig.engine.realtime().pump(now, wall, &mut wakes),
            Pumped::Moved
        );
        while consumer.drain(&mut sink, &mut wakes) {}
    };
    round(0.0);
    round(1.0);
    let cost = cost(|| (0..100).for_each(|n| round(f64::from(n))));
    assert_eq!(cost.allocations, 0);
    assert_eq!((sink.taken, x.sequence()), (1020, 1020));
}

#[test]
fn buffer_grows_as_it_fills_and_is_freed_with_the_last_subscriber() {
    let (rig, x) = Rig::plain();
    let mut long = rig.consumer();
    let mut short = rig.consumer();
    rig.subscribe(&mut short, 1, Contract::Last(10), &x);
    let empty = cost(|| rig.subscribe(&mut long, 1, Contract::Last(1_000_000), &x));
    assert!(
        empty.live < 4096,
        "memory was allocated in advance: {}",
        empty.live
    );
    let filled = cost(|| (0..100_000).for_each(|n| drop(rig.write(&x, f64::from(n)))));
    assert!(filled.live > 100_000 * 60);
    // The long buffer is freed when the long subscription ends. The short one keeps the memory that
    // it needs.
    let left = cost(|| drop(long));
    assert!(
        -left.live > filled.live * 9 / 10,
        "{} of {}",
        -left.live,
        filled.live
    );
    assert_eq!(balanced(&short, 1, &x).waiting, 10);
    let left = cost(|| drop(short));
    assert!(left.live < 0);
    let nothing = cost(|| (0..1000).for_each(|n| drop(rig.write(&x, f64::from(n)))));
    assert_eq!(nothing.live, 0);
}

/// Behaviour: B-06.
#[test]
fn stopped_client_among_ten_takes_no_memory() {
    for contract in [
        Contract::Latest,
        Contract::Last(100),
        Contract::First(100),
        Contract::All {
            elements: 100,
            bytes: 1 << 20,
        },
    ] {
        let rig = Rig::with(vec![VariableDefinition::new("x", DataType::F64)]);
        let x = rig.variable("rig/x");
        let mut clients: Vec<Consumer> = (0..10)
            .map(|_| rig.consumer().confirmed_by_peer())
            .collect();
        for client in &mut clients {
            rig.subscribe(client, 1, contract, &x);
        }
        let (stopped, others) = clients.split_first_mut().expect("there are ten clients");
        let mut sink = Tap { taken: 0 };
        let mut round = |n: u32| {
            for k in 0..50 {
                rig.write(&x, f64::from(n * 50 + k));
            }
            for client in others.iter_mut() {
                client.drain(&mut sink, &mut Wakes::new());
                assert!(client.confirm(client.in_flight() as u64));
            }
        };
        (0..10).for_each(&mut round);
        let cost = cost(|| (10..1000).for_each(&mut round));
        assert!(cost.live <= 0, "{contract}: {} bytes more", cost.live);
        for client in others.iter() {
            let ledger = balanced(client, 1, &x);
            assert_eq!(
                (ledger.dropped_queue, ledger.dropped_overrun),
                (0, 0),
                "{contract}"
            );
        }
        balanced(stopped, 1, &x);
        assert!(drain_some(stopped, 1).0.len() <= 1);
    }
}
