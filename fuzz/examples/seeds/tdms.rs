//! TDMS files: the worked ones, random ones of every type, and what no writer of ours writes.

use std::fs;
use std::io::Result;
use std::path::Path;

use trunkline_tdms::{ObjectPath, TdmsType, Writer, WriterOptions};

use crate::random_file::random_file;
use crate::segments::{
    BIG_ENDIAN, F64, FIRST, I8, I16, I32, INTERLEAVED, META, NEW_LIST, RAW, STRING, Segment, file,
    segment,
};

/// Random files, and the longest that is a seed: long ones are slow, and hold nothing else.
const RANDOM_FILES: u64 = 200;
const RANDOM_BYTES_MAX: usize = 4_096;

const A: &str = "/'g'/'a'";
const B: &str = "/'g'/'b'";

/// Marks DAQmx data in place of a type.
const DAQMX: u32 = 0xffff_ffff;
const TIME: u32 = 0x44;
const EXTENDED: u32 = 11;
/// Types of a fixed size, and their bytes; the two with units and the extended one, which are never
/// written here, among them.
const FIXED: [(u32, usize); 18] = [
    (1, 1),
    (2, 2),
    (3, 4),
    (4, 8),
    (5, 1),
    (6, 2),
    (7, 4),
    (8, 8),
    (9, 4),
    (10, 8),
    (EXTENDED, 10),
    (0x19, 4),
    (0x1a, 8),
    (0x1b, 10),
    (0x21, 1),
    (TIME, 16),
    (0x0008_000c, 8),
    (0x0010_000d, 16),
];

/// Each seed and its name.
pub fn seeds(vectors: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut seeds = Vec::new();
    for file in fs::read_dir(vectors.join("tdms"))? {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        seeds.push((name.into_owned(), fs::read(&path)?));
    }
    for seed in 0..RANDOM_FILES {
        let random = random_file(seed);
        seeds.push((format!("random-{seed}"), random.bytes));
        if seed % 10 == 0 {
            seeds.push((format!("random-{seed}-index"), random.index));
        }
    }
    seeds.retain(|(_, bytes)| bytes.len() <= RANDOM_BYTES_MAX);
    for (order, toc) in [("little", 0), ("big", BIG_ENDIAN)] {
        let made = by_hand(toc).into_iter();
        seeds.extend(made.map(|(name, bytes)| (format!("{order}-{name}"), bytes)));
    }
    seeds.push(("scaled".into(), scaled()));
    Ok(seeds)
}

/// Files put together field by field, in one byte order.
fn by_hand(order: u32) -> Vec<(&'static str, Vec<u8>)> {
    let begin = |toc| segment(toc | order);
    let mut every_type = begin(FIRST);
    let mut in_rows = begin(FIRST | INTERLEAVED);
    for (code, bytes) in FIXED {
        let path = format!("/'g'/'{code}'");
        every_type = every_type.plain(&path, code, 2).raw(vec![1; 2 * bytes]);
        in_rows = in_rows.plain(&path, code, 2).raw(vec![1; 2 * bytes]);
    }
    let mut properties = begin(META | NEW_LIST);
    for (code, bytes) in FIXED {
        let path = format!("/'g'/'{code}'");
        let said = properties.no_data(&path);
        properties = said.with_property(b"p", code, &vec![1; bytes]);
    }
    let text = [&properties.u32(3)[..], b"abc"].concat();
    let properties = properties
        .no_data("/'h'")
        .with_property(b"p", STRING, &text);
    let ends = [begin(0).u32(1), begin(0).u32(3)].concat();
    let strings = |toc| {
        let said = begin(toc).strings(A, 2, 11);
        said.raw(ends.iter().copied()).raw(*b"abc")
    };
    let two = || begin(FIRST).plain(A, I32, 2).plain(B, I16, 3);
    let again = || begin(RAW).raw([2; 14]);
    let widths = [5, 4];
    let scalers = [(5, 0, 0, 0), (0, 0, 4, 1)];
    let daqmx = begin(FIRST)
        .daqmx(A, false, (DAQMX, 3), &scalers, &widths)
        .daqmx(B, false, (I32, 2), &[(5, 1, 0, 0)], &widths)
        .raw([7; 23]);
    let lines = begin(FIRST)
        .daqmx(A, true, (DAQMX, 3), &[(0, 0, 3, 0)], &[2])
        .daqmx(B, true, (DAQMX, 3), &[(2, 0, 9, 0)], &[2])
        .raw([0x5a; 6]);
    let changing = file([
        two().raw([1; 14]),
        begin(META | RAW).no_data(A).raw([3; 6]),
        begin(META | RAW).plain(A, I32, 1).raw([4; 10]),
        begin(FIRST)
            .same_as_before(B)
            .same_as_before(A)
            .raw([5; 10]),
    ]);
    let torn = |toc| {
        let said = begin(toc).plain(A, I32, 4).plain(B, F64, 4);
        said.raw([6; 48 + 29]).not_closed().bytes()
    };
    let shortened = begin(FIRST).plain(A, I32, 4).plain(B, F64, 4);
    let unknown = begin(META).plain(A, 0x7777, 1);
    vec![
        ("every-type", file([every_type, again()])),
        ("in-rows", file([in_rows, again()])),
        ("properties", file([properties])),
        ("strings", file([strings(FIRST), strings(RAW)])),
        (
            "strings-alone-in-rows",
            strings(FIRST | INTERLEAVED).bytes(),
        ),
        ("as-before", file([two().raw([1; 14]), again(), again()])),
        ("changing", changing),
        ("daqmx", file([daqmx.clone(), begin(RAW).raw([9; 46])])),
        ("daqmx-torn", daqmx.raw([8; 9]).not_closed().bytes()),
        ("lines", lines.bytes()),
        ("torn", torn(FIRST)),
        ("torn-in-rows", torn(FIRST | INTERLEAVED)),
        ("shortened", shortened.raw([6; 48 + 29]).bytes()),
        ("lost", file([two().raw([1; 14]), unknown, again(), two()])),
        (
            "other-order",
            file([two().raw([1; 14]), other_order(order)]),
        ),
    ]
}

/// A segment in the order that the ones before do not have.
fn other_order(order: u32) -> Segment {
    let other = segment(FIRST | (order ^ BIG_ENDIAN));
    other.plain("/'g'/'c'", I8, 3).raw([3; 3])
}

/// A channel with a scale of each kind that is computed, one on top of the other.
fn scaled() -> Vec<u8> {
    let mut writer = Writer::new(WriterOptions::default());
    let mut bytes = Vec::new();
    let Ok(channel) = writer.channel("g", "a", TdmsType::I16) else {
        return bytes;
    };
    let path = ObjectPath::channel("g", "a");
    let scale = |number: u32, rest: &str| format!("NI_Scale[{number}]_{rest}");
    let kinds = [
        "Linear",
        "Polynomial",
        "Table",
        "Add",
        "Subtract",
        "AdvancedAPI",
    ];
    let numbers = [
        (0, "Linear_Slope", 2.0),
        (0, "Linear_Y_Intercept", 1.0),
        (1, "Polynomial_Coefficients[0]", 1.0),
        (1, "Polynomial_Coefficients[1]", 0.5),
        (2, "Table_Pre_Scaled_Values[0]", 0.0),
        (2, "Table_Pre_Scaled_Values[1]", 9.0),
        (2, "Table_Scaled_Values[0]", 1.0),
        (2, "Table_Scaled_Values[1]", 7.0),
    ];
    let whole = [
        (0, "Linear_Input_Source", u32::MAX),
        (1, "Polynomial_Input_Source", 0),
        (1, "Polynomial_Coefficients_Size", 2),
        (2, "Table_Input_Source", 1),
        (2, "Table_Pre_Scaled_Values_Size", 2),
        (2, "Table_Scaled_Values_Size", 2),
        (3, "Add_Left_Operand_Input_Source", 0),
        (3, "Add_Right_Operand_Input_Source", 2),
        (4, "Subtract_Left_Operand_Input_Source", 3),
        (4, "Subtract_Right_Operand_Input_Source", 1),
        (5, "AdvancedAPI_Input_Source", 4),
    ];
    let _ = writer.set(&path, "NI_Number_Of_Scales", kinds.len() as u32);
    for (number, kind) in kinds.into_iter().enumerate() {
        let _ = writer.set(&path, scale(number as u32, "Scale_Type"), kind);
    }
    for (number, rest, value) in numbers {
        let _ = writer.set(&path, scale(number, rest), value);
    }
    for (number, rest, value) in whole {
        let _ = writer.set(&path, scale(number, rest), value);
    }
    let values = [1_i16, 2, 3];
    let data = [(channel, (&values).into())];
    let _ = writer.write(&data, trunkline_tdms::Arrangement::Contiguous, &mut bytes);
    bytes
}
