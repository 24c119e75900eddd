use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use trunkline_engine::history::History;
use trunkline_engine::{Caller, Engine, EngineOptions, Wake, Wakes};
use trunkline_history::FileHistory;
use trunkline_types::history::*;
use trunkline_types::*;
struct Unheard;
impl Wake for Unheard {
    fn wake(&self) {}
}
fn wall() -> Timestamp {
    Timestamp::from_nanos(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_nanos() as i64,
    )
}
fn main() {
    let vars: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let secs: f64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let rate: f64 = std::env::args().nth(3).map_or(0.0, |r| r.parse().unwrap());
    let folder = std::path::PathBuf::from("/tmp/w/ing");
    let _ = std::fs::remove_dir_all(&folder);
    let engine = Engine::new(EngineOptions::new("test", 1));
    let rules = vec![HistoryRule {
        pattern: Pattern::parse("**").unwrap(),
        settings: Some(HistorySettings::default()),
    }];
    let history =
        Arc::new(FileHistory::open(&folder, rules, &engine, Box::new(Unheard), wall()).unwrap());
    let library = LibraryDefinition {
        name: "rig".into(),
        description: String::new(),
        variables: (0..vars)
            .map(|n| VariableDefinition::new(format!("v{n:05}"), DataType::F64))
            .collect(),
    };
    let start = Instant::now();
    let now = move || Tick::from_nanos(start.elapsed().as_nanos() as u64 + 1);
    let handles = engine.libraries().deploy(&library, now(), wall()).unwrap();
    history.follow(&handles, wall()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (h, s) = (history.clone(), stop.clone());
    let rec = std::thread::spawn(move || {
        let mut worst = Duration::ZERO;
        while !s.load(Ordering::Relaxed) {
            let t = Instant::now();
            let next = h
                .record(Moment {
                    now: now(),
                    wall: wall(),
                })
                .unwrap();
            worst = worst.max(t.elapsed());
            if next.is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        println!("worst record {worst:?}");
    });
    let (h, s) = (history.clone(), stop.clone());
    let mt = std::thread::spawn(move || {
        while !s.load(Ordering::Relaxed) {
            if !h.maintain(wall()).unwrap() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    });
    let all: Vec<_> = handles
        .iter()
        .map(|h| engine.variable(*h).unwrap())
        .collect();
    let caller = Caller::local(1, 0);
    let mut seed = 1u64;
    let mut written = 0u64;
    let begin = Instant::now();
    let mut k = 0usize;
    while begin.elapsed().as_secs_f64() < secs {
        let stamp = wall();
        let tick = now();
        let mut wakes = Wakes::new();
        for _ in 0..100 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let noise = (seed >> 48) as f64 / 65536.0;
            let value =
                ((5.0 * (written as f64 * 1e-6).sin() + noise * 0.01) * 6553.6).round() / 6553.6;
            let value = Value::F64(value);
            let write = trunkline_engine::Write::value(&value);
            engine.try_write(&caller, tick, stamp, &all[k], &write, &mut wakes);
            k += 1;
            if k == vars {
                k = 0
            }
            written += 1;
        }
        if rate > 0.0 {
            while (written as f64) > rate * begin.elapsed().as_secs_f64() {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }
    let t = begin.elapsed().as_secs_f64();
    println!(
        "written {written} in {t:.2} s: {:.2} M/s",
        written as f64 / t / 1e6
    );
    stop.store(true, Ordering::Relaxed);
    rec.join().unwrap();
    mt.join().unwrap();
    while !history.is_idle() {
        history
            .record(Moment {
                now: now(),
                wall: wall(),
            })
            .unwrap();
        while history.maintain(wall()).unwrap() {}
    }
    history
        .close_segment(Moment {
            now: now(),
            wall: wall(),
        })
        .unwrap();
    while history.maintain(wall()).unwrap() {}
    let f = history.figures();
    println!(
        "{f:?} all in {:.2}: {:.2} B/row",
        begin.elapsed().as_secs_f64(),
        f.bytes as f64 / f.recorded as f64
    );
}
