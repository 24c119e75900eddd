//! Names the shared library: programs find `libtrunkline.so.0` at run time, and a release that breaks
//! them has another number.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if is_linux {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtrunkline.so.0");
    }
}
