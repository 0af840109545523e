//! Moves a tensor to another device and back, and prints how. The argument names the device; without one it is the first
//! that is not the CPU, or the CPU.
//!
//!     scripts/build-libdlx.sh dist
//!     cd examples/rust && DLX_LIB_DIR=$PWD/../../dist cargo run

mod dlx;

fn round_trip() -> dlx::Result<String> {
    let registry = dlx::Registry::open()?;
    let devices = registry.devices()?;
    let first_other = devices.get(1).unwrap_or(&devices[0]);
    let name = std::env::args()
        .nth(1)
        .unwrap_or_else(|| first_other.clone());
    let cpu = registry.device("cpu")?;
    let other = registry.device(&name)?;

    let mut tensor = cpu.alloc(&[2, 3])?;
    tensor
        .values()?
        .copy_from_slice(&[0.0, 0.5, 1.0, 1.5, 2.0, 2.5]);
    print!("{}", tensor.plan(&other)?);

    let there = tensor.to(&other, true)?;
    let back = there.to(&cpu, true)?;
    let mut imported = back.through_dlpack()?;
    assert_eq!(imported.values()?, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]);
    Ok(name)
}

fn main() {
    let name = round_trip().expect("round trip");
    assert_eq!(dlx::live().expect("live"), 0, "something was left open");
    println!("cpu -> {name} -> cpu: verified");
}
