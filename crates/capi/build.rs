//! The name by which programs find the library when they start: what breaks them changes the number.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnapier.so.0");
}
