//! Finds libdlx in the folder that DLX_LIB_DIR names, which scripts/build-libdlx.sh made.

fn main() {
    println!("cargo:rerun-if-env-changed=DLX_LIB_DIR");
    let folder =
        std::env::var("DLX_LIB_DIR").expect("set DLX_LIB_DIR to the folder with libdlx.so");
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
}
