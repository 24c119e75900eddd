#![allow(
    clippy::all,
    clippy::disallowed_methods,
    clippy::print_stdout,
    missing_docs
)]
use trunkline_ring::*;
#[unsafe(no_mangle)]
#[inline(never)]
pub fn zz_last_read(c: &LastValue, o: &mut [u64; 1]) -> bool {
    c.read(o).complete
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn zz_last_pub(c: &LastValue, x: u64) {
    c.publish(&[x]);
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn zz_rt_read(c: &RtCell, o: &mut [u64; 1]) -> bool {
    c.read(o).complete
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn zz_ty_read(c: &TypedCell<u64>) -> Option<u64> {
    c.read()
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn zz_ty_write(c: &TypedCell<u64>, x: u64) -> bool {
    c.write(x).is_ok()
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn zz_fifo_push(c: &TypedFifo<f64>, x: f64) -> bool {
    c.try_push(x).is_ok()
}
fn main() {
    let l = LastValue::new(1);
    let r = RtCell::new(1);
    let t = TypedCell::new(1u64);
    let f = TypedFifo::new(3);
    zz_last_pub(&l, 1);
    println!("{}", zz_last_read(&l, &mut [0]));
    println!("{}", zz_rt_read(&r, &mut [0]));
    println!("{:?}", zz_ty_read(&t));
    zz_ty_write(&t, 1);
    zz_fifo_push(&f, 1.0);
}
