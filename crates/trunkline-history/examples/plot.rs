use std::time::{Instant, SystemTime, UNIX_EPOCH};
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
    let folder = std::path::PathBuf::from("/tmp/w/plot");
    let make = std::env::args().nth(1).is_some();
    if make {
        let _ = std::fs::remove_dir_all(&folder);
    }
    let engine = Engine::new(EngineOptions::new("test", 1));
    let rules = vec![HistoryRule {
        pattern: Pattern::parse("**").unwrap(),
        settings: Some(HistorySettings::default()),
    }];
    let t = Instant::now();
    let history = FileHistory::open(&folder, rules, &engine, Box::new(Unheard), wall()).unwrap();
    println!("open {:?}", t.elapsed());
    let start = Instant::now();
    let now = move || Tick::from_nanos(start.elapsed().as_nanos() as u64 + 1);
    let day = 1_795_000_000_000_000_000i64 / 86_400_000_000_000 * 86_400_000_000_000;
    if make {
        let mut names: Vec<_> = vec!["x".to_owned()];
        names.extend((0..1000).map(|n| format!("slow/v{n:04}")));
        let library = LibraryDefinition {
            name: "rig".into(),
            description: String::new(),
            variables: names
                .iter()
                .map(|n| VariableDefinition::new(n.as_str(), DataType::F64))
                .collect(),
        };
        let handles = engine.libraries().deploy(&library, now(), wall()).unwrap();
        history.follow(&handles, wall()).unwrap();
        let all: Vec<_> = handles
            .iter()
            .map(|h| engine.variable(*h).unwrap())
            .collect();
        let caller = Caller::local(1, 0);
        let mut seed = 1u64;
        let put = |k: usize, time: i64, seed: &mut u64| {
            *seed ^= *seed << 13;
            *seed ^= *seed >> 7;
            *seed ^= *seed << 17;
            let noise = (*seed >> 48) as f64 / 65536.0;
            let value =
                ((5.0 * (time as f64 * 1e-12).sin() + noise * 0.02) * 6553.6).round() / 6553.6;
            let value = Value::F64(value);
            let mut write = trunkline_engine::Write::value(&value);
            write.source_timestamp = Some(Timestamp::from_nanos(time));
            engine.try_write(
                &caller,
                now(),
                Timestamp::from_nanos(time),
                &all[k],
                &write,
                &mut Wakes::new(),
            );
        };
        for n in 0..8_640_000i64 {
            let time = day + n * 10_000_000 + (seed % 2000) as i64;
            put(0, time, &mut seed);
            if n >= 8_640_000 - 360_000 && n % 100 == 0 {
                for k in 1..=1000 {
                    put(k, time + k as i64, &mut seed);
                }
            }
            if n % 50_000 == 0 {
                let m = Moment {
                    now: now(),
                    wall: Timestamp::from_nanos(time),
                };
                history.record(m).unwrap();
                while history.maintain(m.wall).unwrap() {}
            } else if n >= 8_640_000 - 360_000 && n % 500 == 0 {
                history
                    .record(Moment {
                        now: now(),
                        wall: Timestamp::from_nanos(time),
                    })
                    .unwrap();
                while history.maintain(wall()).unwrap() {}
            }
        }
        history
            .close_segment(Moment {
                now: now(),
                wall: Timestamp::from_nanos(day + 86_400_000_000_000),
            })
            .unwrap();
        while history.maintain(wall()).unwrap() {}
        println!("{:?}", history.figures());
    }
    let mut q = HistoryQuery {
        patterns: vec![Pattern::parse("rig/x").unwrap()],
        since: Some(Timestamp::from_nanos(day)),
        until: Some(Timestamp::from_nanos(day + 86_400_000_000_000)),
        form: HistoryForm::Points(2000),
        ..Default::default()
    };
    for _ in 0..3 {
        let t = Instant::now();
        let p = history.read(&q, wall()).unwrap();
        println!(
            "plot {:?} {}",
            t.elapsed(),
            p.series.first().map_or(0, |s| s.data.len())
        );
    }
    q.form = HistoryForm::Buckets(std::num::NonZeroU64::new(60_000_000_000).unwrap());
    let t = Instant::now();
    let p = history.read(&q, wall()).unwrap();
    println!("minutes {:?} {}", t.elapsed(), p.series[0].data.len());
    q.form = HistoryForm::Rows;
    q.since = Some(Timestamp::from_nanos(day + 82_800_000_000_000));
    for pattern in ["rig/x", "rig/slow/**"] {
        q.patterns = vec![Pattern::parse(pattern).unwrap()];
        q.from = None;
        for _ in 0..2 {
            let t = Instant::now();
            let (mut n, mut pages) = (0, 0);
            q.from = None;
            loop {
                let p = history.read(&q, wall()).unwrap();
                n += p.series.iter().map(|s| s.data.len()).sum::<usize>();
                pages += 1;
                q.from = p.next;
                if q.from.is_none() {
                    break;
                }
            }
            println!("rows {pattern} {:?} {n} in {pages}", t.elapsed());
        }
    }
    q.from = None;
    q.form = HistoryForm::Last;
    q.since = None;
    let t = Instant::now();
    let p = history.read(&q, wall()).unwrap();
    println!("last {:?} {} {:?}", t.elapsed(), p.series.len(), p.next);
}
