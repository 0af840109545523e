//! A part of dlx.h in Rust, and types that close what they own.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::os::raw::{c_char, c_void};
use std::{fmt, ptr};

#[repr(C)]
pub struct Error {
    status: i32,
    truncated: i32,
    native_code: i64,
    origin: [c_char; 32],
    call: [c_char; 64],
    text: [c_char; 1936],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

pub const FLOAT32: DType = DType {
    code: 2,
    bits: 32,
    lanes: 1,
};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceId {
    pub kind: i32,
    pub index: i32,
}

#[repr(C)]
struct DeviceInfo {
    id: DeviceId,
    id_text: [c_char; 32],
    name: [c_char; 256],
    driver: [c_char; 256],
    total_memory: i64,
    free_memory: i64,
    alignment: i64,
    capabilities: u64,
    reserved: [u64; 8],
}

#[repr(C)]
struct TensorSpec {
    dtype: DType,
    rank: i32,
    shape: *const i64,
    strides: *const i64,
    flags: u64,
    reserved: [u64; 4],
}

#[repr(C)]
struct TensorInfo {
    device: DeviceId,
    dtype: DType,
    rank: i32,
    is_address: i32,
    data: *mut c_void,
    byte_offset: u64,
    host_accessible: i32,
    reserved32: i32,
    flags: u64,
    elements: i64,
    bytes: i64,
    shape: [i64; 64],
    strides: [i64; 64],
    reserved: [u64; 8],
}

#[repr(C)]
struct MoveOptions {
    copy: i32,
    only: i32,
    stream: *mut c_void,
    source_stream: *mut c_void,
    alloc: *const c_void,
    reserved: [u64; 4],
}

// Handles are opaque: no type of C is needed to tell them apart, since only the types below pass them on.
type Handle = *mut c_void;

#[link(name = "dlx")]
extern "C" {
    fn dlx_live(name: *const c_char, count: *mut i64, error: *mut Error) -> i32;
    fn dlx_flush(error: *mut Error) -> i32;
    fn dlx_text_data(
        text: Handle,
        data: *mut *const c_char,
        length: *mut usize,
        error: *mut Error,
    ) -> i32;
    fn dlx_text_close(text: Handle, error: *mut Error) -> i32;
    fn dlx_registry_open(registry: *mut Handle, error: *mut Error) -> i32;
    fn dlx_registry_close(registry: Handle, error: *mut Error) -> i32;
    fn dlx_registry_devices(
        registry: Handle,
        timeout_ns: i64,
        devices: *mut DeviceInfo,
        capacity: usize,
        count: *mut usize,
        error: *mut Error,
    ) -> i32;
    fn dlx_device_open(
        registry: Handle,
        name: *const c_char,
        timeout_ns: i64,
        device: *mut Handle,
        error: *mut Error,
    ) -> i32;
    fn dlx_device_close(device: Handle, error: *mut Error) -> i32;
    fn dlx_tensor_alloc(
        device: Handle,
        spec: *const TensorSpec,
        options: *const c_void,
        timeout_ns: i64,
        tensor: *mut Handle,
        error: *mut Error,
    ) -> i32;
    fn dlx_tensor_close(tensor: Handle, error: *mut Error) -> i32;
    fn dlx_tensor_get_info(tensor: Handle, info: *mut TensorInfo, error: *mut Error) -> i32;
    fn dlx_tensor_wait_ready(tensor: Handle, timeout_ns: i64, error: *mut Error) -> i32;
    fn dlx_tensor_wait_idle(tensor: Handle, timeout_ns: i64, error: *mut Error) -> i32;
    fn dlx_tensor_export(tensor: Handle, managed: *mut *mut c_void, error: *mut Error) -> i32;
    fn dlx_tensor_import(
        managed: *mut c_void,
        options: *const c_void,
        tensor: *mut Handle,
        error: *mut Error,
    ) -> i32;
    fn dlx_plan(
        tensor: Handle,
        device: Handle,
        options: *const MoveOptions,
        route: *mut Handle,
        error: *mut Error,
    ) -> i32;
    fn dlx_route_text(route: Handle, text: *mut Handle, error: *mut Error) -> i32;
    fn dlx_route_close(route: Handle, error: *mut Error) -> i32;
    fn dlx_to(
        tensor: Handle,
        device: Handle,
        options: *const MoveOptions,
        timeout_ns: i64,
        result: *mut Handle,
        report: *mut Handle,
        error: *mut Error,
    ) -> i32;
}

pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} (status {})", text(&self.text), self.status)
    }
}

/// Reads a text in an array of C.
fn text(array: &[c_char]) -> String {
    // The library ends each text with a NUL.
    unsafe { CStr::from_ptr(array.as_ptr()) }
        .to_string_lossy()
        .into_owned()
}

/// Makes a call, to which it lends an error.
fn call(f: impl FnOnce(*mut Error) -> i32) -> Result<()> {
    // All bytes 0 are a valid Error.
    let mut error: Error = unsafe { std::mem::zeroed() };
    match f(&mut error) {
        0 => Ok(()),
        _ => Err(error),
    }
}

/// Makes a call that returns a handle.
fn handle(f: impl FnOnce(*mut Handle, *mut Error) -> i32) -> Result<Handle> {
    let mut result = ptr::null_mut();
    call(|e| f(&mut result, e))?;
    Ok(result)
}

fn taken_text(handle: Handle) -> Result<String> {
    let mut data = ptr::null();
    let read =
        call(|e| unsafe { dlx_text_data(handle, &mut data, ptr::null_mut(), e) }).map(|()| {
            unsafe { CStr::from_ptr(data) }
                .to_string_lossy()
                .into_owned()
        });
    call(|e| unsafe { dlx_text_close(handle, e) })?;
    read
}

/// Counts what is open in the process.
pub fn live() -> Result<i64> {
    let mut count = 0;
    call(|e| unsafe { dlx_live(ptr::null(), &mut count, e) })?;
    Ok(count)
}

pub struct Registry(Handle);

impl Registry {
    pub fn open() -> Result<Registry> {
        handle(|h, e| unsafe { dlx_registry_open(h, e) }).map(Registry)
    }

    /// Names the devices that can be opened.
    pub fn devices(&self) -> Result<Vec<String>> {
        let mut count = 0;
        let mut list: Vec<DeviceInfo> = Vec::with_capacity(64);
        call(|e| unsafe {
            dlx_registry_devices(self.0, 0, list.as_mut_ptr(), list.capacity(), &mut count, e)
        })?;
        // The library has written as many.
        unsafe { list.set_len(count.min(list.capacity())) };
        Ok(list.iter().map(|d| text(&d.id_text)).collect())
    }

    pub fn device(&self, name: &str) -> Result<Device> {
        let name = CString::new(name).expect("a name has no NUL");
        handle(|h, e| unsafe { dlx_device_open(self.0, name.as_ptr(), 0, h, e) }).map(Device)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        call(|e| unsafe { dlx_registry_close(self.0, e) }).expect("close the registry");
    }
}

pub struct Device(Handle);

impl Device {
    pub fn alloc(&self, shape: &[i64]) -> Result<Tensor<'_>> {
        let spec = TensorSpec {
            dtype: FLOAT32,
            rank: shape.len() as i32,
            shape: shape.as_ptr(),
            strides: ptr::null(),
            flags: 0,
            reserved: [0; 4],
        };
        handle(|h, e| unsafe { dlx_tensor_alloc(self.0, &spec, ptr::null(), 0, h, e) })
            .map(Tensor::new)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Tensors that were exported are free only after a flush.
        call(|e| unsafe { dlx_flush(e) }).expect("flush");
        call(|e| unsafe { dlx_device_close(self.0, e) }).expect("close the device");
    }
}

/// A tensor, which lives no longer than the devices that its memory belongs to.
pub struct Tensor<'a>(Handle, PhantomData<&'a Device>);

impl<'a> Tensor<'a> {
    fn new(handle: Handle) -> Tensor<'a> {
        Tensor(handle, PhantomData)
    }

    fn info(&self) -> Result<TensorInfo> {
        let mut info: TensorInfo = unsafe { std::mem::zeroed() };
        call(|e| unsafe { dlx_tensor_get_info(self.0, &mut info, e) })?;
        Ok(info)
    }

    /// Returns the elements of a row-major tensor of float32 on the host, to read and to write.
    pub fn values(&mut self) -> Result<&mut [f32]> {
        call(|e| unsafe { dlx_tensor_wait_ready(self.0, 0, e) })?;
        call(|e| unsafe { dlx_tensor_wait_idle(self.0, 0, e) })?;
        let info = self.info()?;
        assert!(info.host_accessible == 1 && info.dtype.bits == 32 && info.flags == 0);
        Ok(unsafe { std::slice::from_raw_parts_mut(info.data.cast(), info.elements as usize) })
    }

    /// Describes how the tensor would get to a device.
    pub fn plan(&self, device: &Device) -> Result<String> {
        let route = handle(|h, e| unsafe { dlx_plan(self.0, device.0, ptr::null(), h, e) })?;
        let text = handle(|h, e| unsafe { dlx_route_text(route, h, e) }).and_then(taken_text);
        call(|e| unsafe { dlx_route_close(route, e) })?;
        text
    }

    /// Moves the tensor. If copy is true, the result shares no memory with it.
    pub fn to<'b>(&self, device: &'b Device, copy: bool) -> Result<Tensor<'b>>
    where
        'a: 'b,
    {
        let options = MoveOptions {
            copy: if copy { 2 } else { 0 },
            only: 0,
            stream: ptr::null_mut(),
            source_stream: ptr::null_mut(),
            alloc: ptr::null(),
            reserved: [0; 4],
        };
        handle(|h, e| unsafe { dlx_to(self.0, device.0, &options, 0, h, ptr::null_mut(), e) })
            .map(Tensor::new)
    }

    /// Passes the tensor through DLPack, as to and from another library. An export carries no order: it waits first.
    pub fn through_dlpack(&self) -> Result<Tensor<'a>> {
        call(|e| unsafe { dlx_tensor_wait_ready(self.0, 0, e) })?;
        let mut managed = ptr::null_mut();
        call(|e| unsafe { dlx_tensor_export(self.0, &mut managed, e) })?;
        handle(|h, e| unsafe { dlx_tensor_import(managed, ptr::null(), h, e) }).map(Tensor::new)
    }
}

impl Drop for Tensor<'_> {
    fn drop(&mut self) {
        call(|e| unsafe { dlx_tensor_close(self.0, e) }).expect("close the tensor");
    }
}
