/* dlx.h: the C interface of dlx, which moves tensors between devices, APIs and libraries.
 *
 * A tensor lies on a device, such as "cpu", "vulkan:0" or "cuda:0". dlx_to moves it to another device, without a copy
 * where the hardware allows. dlx_tensor_export and dlx_tensor_import exchange it with any library that supports DLPack.
 * docs/libdlx.md is a guide.
 *
 * RESULTS. Every function that can fail returns a dlx_status, and takes as its last argument a dlx_error, which may be
 * NULL. On failure the error has the same status, and a text. On success its status is DLX_OK and its text is empty.
 * Nothing is kept for the thread: no other call changes the error. A function that fails sets its results to NULL or 0.
 *
 * HANDLES. A pointer such as dlx_tensor* is a handle. It points to nothing: do not use the address. Each handle that
 * a function returns has one owner, the caller, who closes it once with the function of its type. The value of a closed
 * handle is never used again, so a call with it returns DLX_ERR_CLOSED, and so does a second close. NULL, a value that
 * no function has returned, and a handle of another type are DLX_ERR_INVALID. An argument lends the handle for the
 * duration of the call, unless its comment says otherwise.
 *
 * A tensor keeps its memory open, also after the handle of its device, file or source tensor is closed. But a device
 * cannot be closed before the tensors and streams on it: dlx_device_close says so, and leaves it open.
 *
 * THREADS. Every function may be called from any thread, and handles may be used by several threads at once. If one
 * thread closes a handle while another one calls a function with it, that call either completes or returns
 * DLX_ERR_CLOSED.
 *
 * BLOCKING. A function with the argument timeout_ns may block. 0 means no limit; a positive number is a limit in
 * nanoseconds, after which the function returns DLX_ERR_TIMEOUT; a negative number is DLX_ERR_INVALID. After a timeout
 * work that was enqueued goes on. Functions without that argument do not block for long, unless their comments say so.
 *
 * ORDER. A tensor may still be written when a function returns it. Functions of dlx wait for that work by themselves.
 * Before other code reads the memory on the host, call dlx_tensor_wait_ready; before it reads it on a stream, call
 * dlx_tensor_handoff.
 *
 * FORK. The library has threads, which do not survive fork. In a child process of fork every function fails with
 * DLX_ERR_FORKED, until the child calls exec. A child may still call the deleter of a tensor that
 * was exported before.
 *
 * SIGNALS. When it is loaded, the library installs handlers, with SA_ONSTACK, for SIGBUS, SIGFPE, SIGSEGV, SIGPIPE and
 * SIGURG, which the Go runtime needs. A signal that code outside of the library raised is passed to the handler, or the
 * default action, that was there before. All other signals stay as they are. A program that installs handlers for these
 * later must set SA_ONSTACK, and should call those that it replaces. The library cannot be unloaded: dlclose leaves it in
 * the process.
 *
 * VERSIONS. A program that was built with one version of this header works with a library of the same DLX_ABI_VERSION
 * and the same or a newer DLX_VERSION_MINOR. Structs keep their size: fields called reserved must be 0.
 */
#ifndef DLX_H
#define DLX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the ABI. It is also the number in libdlx.so.0. A change that breaks programs raises it. */
#define DLX_ABI_VERSION 0
/* Raised when functions or constants are added. */
#define DLX_VERSION_MINOR 7

#if defined(__GNUC__)
#define DLX_API __attribute__((visibility("default")))
#else
#define DLX_API
#endif

/* The structs of DLPack, which dlpack.h defines. Include that before or after this header, or not at all. */
struct DLManagedTensorVersioned;
struct DLManagedTensor;
struct DLPackExchangeAPI;

typedef struct dlx_registry dlx_registry; /* the backends of a build */
typedef struct dlx_device dlx_device;     /* an opened device */
typedef struct dlx_tensor dlx_tensor;     /* a view of memory */
typedef struct dlx_stream dlx_stream;     /* an ordered queue of work on a device */
typedef struct dlx_event dlx_event;       /* a point in the work of a stream */
typedef struct dlx_route dlx_route;       /* a plan for a move */
typedef struct dlx_report dlx_report;     /* what a move did, or how a tensor got to another process or machine */
typedef struct dlx_file dlx_file;         /* an open file of tensors */
typedef struct dlx_loaded dlx_loaded;     /* tensors that were loaded from files */
typedef struct dlx_listener dlx_listener; /* a socket at which other processes connect */
typedef struct dlx_connection dlx_connection; /* a connection to another process */
typedef struct dlx_publisher dlx_publisher;   /* the writer of a ring of slots */
typedef struct dlx_subscription dlx_subscription; /* a reader of a ring of slots */
typedef struct dlx_frame dlx_frame;       /* a tensor of a ring, which was received */
typedef struct dlx_remote_listener dlx_remote_listener; /* an address at which processes of other machines connect */
typedef struct dlx_remote_connection dlx_remote_connection; /* a connection to a process of another machine */
typedef struct dlx_remote_offer dlx_remote_offer; /* a tensor that such processes may read, or overwrite */
typedef struct dlx_remote_list dlx_remote_list; /* the offers of such a process that have names */
typedef struct dlx_text dlx_text;         /* a text that the library made */

/* What a function returns. New values may be added. */
typedef int32_t dlx_status;
enum {
	DLX_OK = 0,
	DLX_ERR_INTERNAL = 1,      /* a defect of dlx; the text has the details */
	DLX_ERR_INVALID = 2,       /* an argument is NULL, out of range, no handle, or contradicts another argument */
	DLX_ERR_NOT_SUPPORTED = 3, /* the device, the platform or the build cannot do what was asked for */
	DLX_ERR_CLOSED = 4,        /* a handle was closed before */
	DLX_ERR_VERSION = 5,       /* a struct, file or driver has a version that cannot be read */
	DLX_ERR_LAYOUT = 6,        /* a shape, stride, offset or size is malformed, overflows, or leaves the memory */
	DLX_ERR_DTYPE = 7,         /* an element type is malformed, unknown, or not the expected one */
	DLX_ERR_READ_ONLY = 8,     /* the call would write to read-only memory */
	DLX_ERR_DEVICE = 9,        /* there is no such device, or a tensor does not lie on the one that the call needs */
	DLX_ERR_DEVICE_LOST = 10,  /* the device stopped working; what is open on it must still be closed */
	DLX_ERR_OUT_OF_MEMORY = 11,
	DLX_ERR_EXISTS = 12,       /* a name is already in use */
	DLX_ERR_TIMEOUT = 13,      /* timeout_ns has passed */
	DLX_ERR_FORKED = 14,       /* this process is a child of fork; see FORK above */
	DLX_ERR_CANCELED = 15      /* a function of the program, such as dlx_progress or dlx_poll, asked to stop */
};

/* An error. The caller owns it; it needs neither initialization nor release. Texts end with NUL and are UTF-8. */
typedef struct dlx_error {
	dlx_status status;
	int32_t truncated;   /* 1 if text was cut */
	int64_t native_code; /* the error code of the API, such as a VkResult or a CUresult; 0 if there is none */
	char origin[32];     /* the part of dlx or the API that failed: "cpu", "cuda", "dlpack"; may be empty */
	char call[64];       /* the call that failed: "vkAllocateMemory", "Import"; may be empty */
	char text[1936];     /* the whole error in words: what was asked, what was found, what to do */
} dlx_error;

/* An element type, as DLDataType of DLPack: float32 is {2, 32, 1}. */
typedef struct dlx_dtype {
	uint8_t code;   /* a DLDataTypeCode: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool, ... */
	uint8_t bits;
	uint16_t lanes; /* 1 for a scalar */
} dlx_dtype;

/* The name of a device in numbers, as DLDevice of DLPack: "cpu" is {1, 0}. */
typedef struct dlx_device_id {
	int32_t type; /* a DLDeviceType: 1 CPU, 2 CUDA, 4 OpenCL, 7 Vulkan, 8 Metal, 10 ROCm, ...; 34 is OpenGL in dlx */
	int32_t index;
} dlx_device_id;

/* ---- The library ------------------------------------------------------------------------------------------------ */

/* Returns DLX_ABI_VERSION of the library. Works in a child of fork, too. */
DLX_API uint32_t dlx_abi_version(void);

/* Returns DLX_VERSION_MINOR of the library. Works in a child of fork, too. */
DLX_API uint32_t dlx_version_minor(void);

/* Returns the version of dlx and of its build, such as "v0.2.0". The text belongs to the library and is always valid.
 * It is "" in a child of fork. */
DLX_API const char *dlx_version(void);

/* Returns a short English text for a status, such as "out of memory". It belongs to the library and is always valid. */
DLX_API const char *dlx_status_text(dlx_status status);

/* Counts what is open in the process: every handle, and the tensors, buffers, streams and managed tensors behind them.
 * name is NULL for all together, or a name of dlx_live_json. It is 0 when everything is closed and all exported
 * tensors are deleted. Calls dlx_flush first, so that it is exact. Fails with DLX_ERR_INVALID for an unknown name. */
DLX_API dlx_status dlx_live(const char *name, int64_t *count, dlx_error *error);

/* Returns the counts as a JSON object, such as {"core.Buffer":0,"libdlx.tensor":1}. The new text is not counted.
 * The caller closes the text. */
DLX_API dlx_status dlx_live_json(dlx_text **text, dlx_error *error);

/* Returns what the process has allocated, moved, opened and waited for, as a JSON object with the fields of
 * core.ReadMetrics of Go; docs/metrics.md says what they count. The caller closes the text. */
DLX_API dlx_status dlx_metrics_json(dlx_text **text, dlx_error *error);

/* Releases the memory of all exported tensors whose deleter was called before. This happens by itself within about a
 * millisecond; call dlx_flush to have it done at a certain point, such as before dlx_device_close. Blocks for at most
 * a second. */
DLX_API dlx_status dlx_flush(dlx_error *error);

/* ---- Texts ------------------------------------------------------------------------------------------------------ */

/* Sets *data to the bytes of a text, which end with a NUL, and *length to their number without it. length may be NULL.
 * The bytes belong to the text and are valid until it is closed. */
DLX_API dlx_status dlx_text_data(dlx_text *text, const char **data, size_t *length, dlx_error *error);

/* Closes a text and frees its bytes. */
DLX_API dlx_status dlx_text_close(dlx_text *text, dlx_error *error);

/* ---- Registries and devices ------------------------------------------------------------------------------------- */

/* What a device can do. A device may have further bits. */
enum {
	DLX_CAN_HOST_MEMORY = 1 << 1,   /* its memory is host memory: the host can use the addresses */
	DLX_CAN_STREAM_WAIT = 1 << 2,   /* its streams wait for events of its other streams without the host */
	DLX_CAN_IMPORT_POINTER = 1 << 3, /* it can use memory that another library allocated on it */
	DLX_CAN_MAP_HOST = 1 << 4,      /* it can use host memory in place */
	DLX_CAN_EXPORT_MEMORY = 1 << 5, /* other devices can open memory that was allocated for that */
	DLX_CAN_IMPORT_MEMORY = 1 << 6, /* it can open memory of other devices */
	DLX_CAN_HOST_VIEW = 1 << 13,    /* the host can use its memory in place */
	DLX_CAN_IMPORT_STREAM = 1 << 14 /* dlx_stream_borrow works */
};

/* A device. Texts are cut if they do not fit; dlx_registry_json and dlx_device_json have them whole. */
typedef struct dlx_device_info {
	dlx_device_id id;
	char id_text[32];     /* for dlx_device_open: "cpu", "vulkan:0" */
	char name[256];
	char driver[256];     /* name and version; may be empty */
	int64_t total_memory; /* bytes; 0 if not known */
	int64_t free_memory;  /* bytes, at the time of the call; 0 if not known */
	int64_t alignment;    /* of every allocation, in bytes */
	uint64_t capabilities; /* DLX_CAN_* */
	uint64_t reserved[8]; /* 0 */
} dlx_device_info;

/* Opens a registry of all backends in the build. The caller closes it. Does not look for devices. */
DLX_API dlx_status dlx_registry_open(dlx_registry **registry, dlx_error *error);

/* Closes a registry. Devices that it opened stay open. */
DLX_API dlx_status dlx_registry_close(dlx_registry *registry, dlx_error *error);

/* Lists the devices that can be opened. Writes at most capacity of them to devices, which the caller owns, and their
 * whole number to *count. Pass NULL and 0 to learn the number. A backend without devices, because its driver is
 * missing for example, is no error: dlx_registry_json has the reason. May block. */
DLX_API dlx_status dlx_registry_devices(dlx_registry *registry, int64_t timeout_ns, dlx_device_info *devices,
	size_t capacity, size_t *count, dlx_error *error);

/* Returns the backends, the devices and the reasons why something is missing, as a JSON object with the field
 * "backends", as `dlx devices --json` prints it. The caller closes the text. May block. */
DLX_API dlx_status dlx_registry_json(dlx_registry *registry, int64_t timeout_ns, dlx_text **text, dlx_error *error);

/* Opens the device with the given name, such as "cpu" or "vulkan:0"; "vulkan" is "vulkan:0". The caller closes it.
 * Opening a device twice gives two devices. May block. Fails with DLX_ERR_NOT_SUPPORTED if the
 * build has no backend for it or the driver is missing, or DLX_ERR_DEVICE if there is no such device or the text is no
 * name. */
DLX_API dlx_status dlx_device_open(dlx_registry *registry, const char *name, int64_t timeout_ns, dlx_device **device,
	dlx_error *error);

/* Closes a device. While tensors or streams of it are open it fails with DLX_ERR_INVALID, and the device and the handle
 * stay open. A tensor that was exported is open until its deleter was called. */
DLX_API dlx_status dlx_device_close(dlx_device *device, dlx_error *error);

/* Describes a device. */
DLX_API dlx_status dlx_device_get_info(dlx_device *device, dlx_device_info *info, dlx_error *error);

/* Describes a device in JSON, as an element of "devices" in dlx_registry_json, but without "same_hardware". The caller
 * closes the text. */
DLX_API dlx_status dlx_device_json(dlx_device *device, dlx_text **text, dlx_error *error);

/* Makes every later dlx_device_open of a device of oneAPI use a cl_context of the program, such as that of a sycl::context,
 * in all registries of the process: the device and the program can then use each other's allocations. Devices that are open
 * keep their context. context is a cl_context, which is retained until another call for the same device; 0 ends the
 * adoption. device is a cl_device_id of it. Fails with DLX_ERR_DEVICE if the context does not have the device or the device
 * has no unified shared memory, with DLX_ERR_INVALID if the driver rejects either, and with DLX_ERR_NOT_SUPPORTED in a
 * build without the tag oneapi. */
DLX_API dlx_status dlx_oneapi_adopt(uintptr_t context, uintptr_t device, dlx_error *error);

/* ---- Tensors ---------------------------------------------------------------------------------------------------- */

enum { DLX_MAX_RANK = 64 }; /* the largest number of axes */

/* The flags of tensors, as those of DLPack. */
enum {
	DLX_FLAG_READ_ONLY = 1,
	DLX_FLAG_COPIED = 2,
	DLX_FLAG_SUB_BYTE_PADDED = 4
};

/* What dlx_tensor_alloc and dlx_tensor_wrap make. The caller owns it and what it points to; both may be freed after
 * the call. */
typedef struct dlx_tensor_spec {
	dlx_dtype dtype;
	int32_t rank;           /* number of axes, 0 to DLX_MAX_RANK */
	const int64_t *shape;   /* rank extents; may be NULL if rank is 0 */
	const int64_t *strides; /* rank strides, in elements; NULL means row-major. Must be NULL for dlx_tensor_alloc */
	uint64_t flags;         /* DLX_FLAG_READ_ONLY or DLX_FLAG_SUB_BYTE_PADDED. Must be 0 for dlx_tensor_alloc */
	uint64_t reserved[4];   /* 0 */
} dlx_tensor_spec;

/* How to allocate. All zero, or a NULL pointer to the options, selects the plain memory of the device. */
typedef struct dlx_alloc_options {
	int32_t memory_type;     /* another type of memory of the API, as a DLDeviceType: 3 is pinned memory of CUDA */
	int32_t host_visible;    /* 1: memory that the host can use in place */
	dlx_device *share_with;  /* choose memory that a later move to this device need not copy, if there is such memory */
	dlx_stream *stream;      /* the stream that uses the memory first; only CUDA and ROCm make use of it */
	uint64_t reserved[4];    /* 0 */
} dlx_alloc_options;

/* A tensor. The struct owns nothing. */
typedef struct dlx_tensor_info {
	dlx_device_id device; /* where the memory lies */
	dlx_dtype dtype;
	int32_t rank;
	int32_t is_address;   /* 1 if data is an address, 0 if it is the handle of an object, such as a VkBuffer or a cl_mem */
	void *data;           /* the address of the first element on its device, or the handle; NULL is allowed without elements */
	uint64_t byte_offset; /* from the start of the object to the first element; 0 if data is an address */
	int32_t host_accessible; /* 1 if the host can use data as a pointer */
	int32_t unfinished;   /* 1 if work on the memory may be unfinished, 0 if none was when the struct was filled */
	uint64_t flags;       /* DLX_FLAG_* */
	int64_t elements;     /* the number of elements */
	int64_t bytes;        /* of all elements without gaps */
	int64_t shape[DLX_MAX_RANK];   /* rank extents, then 0 */
	int64_t strides[DLX_MAX_RANK]; /* rank strides, in elements, then 0 */
	uint64_t reserved[8]; /* 0 */
} dlx_tensor_info;

/* Allocates a row-major tensor, whose elements are not initialized. options may be NULL. The caller closes the tensor.
 * May block. Fails with DLX_ERR_OUT_OF_MEMORY, DLX_ERR_LAYOUT for a malformed shape, DLX_ERR_DTYPE for a malformed
 * element type, or DLX_ERR_NOT_SUPPORTED for an option that the device lacks. */
DLX_API dlx_status dlx_tensor_alloc(dlx_device *device, const dlx_tensor_spec *spec, const dlx_alloc_options *options,
	int64_t timeout_ns, dlx_tensor **tensor, dlx_error *error);

/* Makes a tensor of size bytes of host memory at data; spec says how the elements lie in it. offset is the number of
 * bytes from data to the first element. The caller closes the tensor.
 *
 * On success the memory must stay valid until release(context) is called. That happens once, from any thread, when
 * the last tensor, view, export and work that uses the memory is gone. release may be NULL; the caller then
 * has no way to learn when that is. release must not block for long. It may call functions of dlx, but not
 * dlx_device_close. On failure release is not called, and the caller keeps the memory.
 *
 * Fails with DLX_ERR_LAYOUT if an element lies outside of the memory. */
DLX_API dlx_status dlx_tensor_wrap(void *data, int64_t size, int64_t offset, const dlx_tensor_spec *spec,
	void (*release)(void *context), void *context, dlx_tensor **tensor, dlx_error *error);

/* Makes a tensor on the memory of another one, with the same element type: strides count elements, NULL means
 * row-major, and offset is the number of elements from the first element of tensor to that of the view. The memory stays
 * open until both are closed. A view of a read-only tensor is read-only. The caller closes the view.
 * Fails with DLX_ERR_LAYOUT if an element of the view lies before the first or after the last element in the memory of
 * tensor, or if the offset is no whole number of bytes. */
DLX_API dlx_status dlx_tensor_view(dlx_tensor *tensor, int32_t rank, const int64_t *shape, const int64_t *strides,
	int64_t offset, dlx_tensor **view, dlx_error *error);

/* Makes a tensor on the memory of another one whose elements have another number of lanes: lanes of the numbers that lie
 * next to each other along the last axis are an element. Packed 4-bit floats of the shape (2, 8) are with 2 lanes the
 * shape (2, 4) of PyTorch's float4_e2m1fn_x2, and with 1 lane (2, 8) again. The view keeps the memory as that of
 * dlx_tensor_view. The caller closes it. Fails with DLX_ERR_DTYPE if lanes is 0, or DLX_ERR_LAYOUT if the numbers cannot be
 * divided so. */
DLX_API dlx_status dlx_tensor_with_lanes(dlx_tensor *tensor, uint16_t lanes, dlx_tensor **view, dlx_error *error);

/* Makes a row-major tensor with the elements of tensor converted to another type. It lies on the device of tensor, or in
 * host memory if the host can access tensor. The host converts: elements on a device are copied to it and back, in
 * pieces. Numbers are rounded to the nearest one, and truncated for integers. The caller closes the result. May block.
 * Fails with DLX_ERR_DTYPE for a type that cannot be converted, or DLX_ERR_DEVICE if neither the host nor an opened device
 * can access tensor. */
DLX_API dlx_status dlx_tensor_as_type(dlx_tensor *tensor, const dlx_dtype *dtype, int64_t timeout_ns,
	dlx_tensor **result, dlx_error *error);

/* Closes a tensor. The memory is freed when no other tensor and no unfinished work uses it. Does not block. */
DLX_API dlx_status dlx_tensor_close(dlx_tensor *tensor, dlx_error *error);

/* Describes a tensor. Waits for nothing: see dlx_tensor_wait_ready. */
DLX_API dlx_status dlx_tensor_get_info(dlx_tensor *tensor, dlx_tensor_info *info, dlx_error *error);

/* Blocks until the last write to the tensor is done, so that the memory may be read. Returns the error of the write if
 * it failed. */
DLX_API dlx_status dlx_tensor_wait_ready(dlx_tensor *tensor, int64_t timeout_ns, dlx_error *error);

/* Blocks until all work on the tensor is done, so that the memory may be written. */
DLX_API dlx_status dlx_tensor_wait_idle(dlx_tensor *tensor, int64_t timeout_ns, dlx_error *error);

/* Returns an event that is done when the last write to the tensor is. The caller closes it. */
DLX_API dlx_status dlx_tensor_ready(dlx_tensor *tensor, dlx_event **event, dlx_error *error);

/* Tells dlx of work that dlx did not enqueue: it writes (dlx_tensor_wrote) or reads (dlx_tensor_used) the tensor, and
 * is done when event is. Later work of dlx on the tensor waits for it, and so does the release of the memory.
 * dlx_tensor_wrote fails with DLX_ERR_READ_ONLY if the tensor is read-only. */
DLX_API dlx_status dlx_tensor_wrote(dlx_tensor *tensor, dlx_event *event, dlx_error *error);
DLX_API dlx_status dlx_tensor_used(dlx_tensor *tensor, dlx_event *event, dlx_error *error);

/* ---- DLPack ----------------------------------------------------------------------------------------------------- */

/* How to import. All zero, or a NULL pointer to the options, is the usual import. */
typedef struct dlx_import_options {
	int64_t size;            /* number of bytes at the data pointer; 0 if not known. A tensor that leaves them is refused */
	dlx_device_id on_device; /* type 0, or the device whose address data is, for device types that do not say: oneAPI, VPI */
	uint64_t reserved[4];    /* 0 */
} dlx_import_options;

/* Makes a tensor of a managed tensor of another library, without a copy. The call always takes the managed tensor: on
 * failure it has called the deleter, on success the deleter is called once, from any thread, when the last tensor
 * and all work on the memory are gone. A NULL deleter is not called. Only DLX_ERR_FORKED leaves it to the caller.
 * The caller closes the tensor. options may be NULL.
 *
 * The producer must have made the memory ready to read: the host, or the stream that uses it, need not wait.
 *
 * Memory of a device, rather than of the host, belongs to no open device of dlx yet. dlx_to to that device with
 * DLX_COPY_NEVER makes a tensor of the same memory that does, which can move on to others.
 *
 * Fails with DLX_ERR_VERSION for another major version or an unknown flag, DLX_ERR_DTYPE, DLX_ERR_LAYOUT or
 * DLX_ERR_DEVICE for malformed fields, and DLX_ERR_INVALID if managed or, although there are elements, data is NULL. */
DLX_API dlx_status dlx_tensor_import(struct DLManagedTensorVersioned *managed, const dlx_import_options *options,
	dlx_tensor **tensor, dlx_error *error);

/* As dlx_tensor_import, for the struct of DLPack before 1.0. */
DLX_API dlx_status dlx_tensor_import_legacy(struct DLManagedTensor *managed, const dlx_import_options *options,
	dlx_tensor **tensor, dlx_error *error);

/* Makes a managed tensor that keeps the memory of tensor open. The caller owns it and passes it to one consumer, who
 * calls its deleter once, from any thread. A caller who has no consumer calls the deleter itself. The deleter takes no
 * lock, never blocks and never enters Go, so it may run anywhere, also in a child of fork. The caller still owns tensor
 * and may close it at once.
 *
 * Does not wait: before a consumer on the host uses the memory, call dlx_tensor_wait_ready; for one on a stream call
 * dlx_tensor_handoff. Fails with DLX_ERR_NOT_SUPPORTED for memory of OpenGL, which DLPack does not define. */
DLX_API dlx_status dlx_tensor_export(dlx_tensor *tensor, struct DLManagedTensorVersioned **managed, dlx_error *error);

/* As dlx_tensor_export, but sets the flag IS_COPIED and gives the tensor to the consumer: on success the handle is
 * closed. Fails with DLX_ERR_INVALID, and leaves the handle open, if another tensor or export uses the memory. */
DLX_API dlx_status dlx_tensor_export_copied(dlx_tensor *tensor, struct DLManagedTensorVersioned **managed,
	dlx_error *error);

/* As dlx_tensor_export, for consumers of DLPack before 1.0. That struct has no flags: fails with DLX_ERR_READ_ONLY for a
 * read-only tensor, and with DLX_ERR_DTYPE for padded elements of fewer than 8 bits. */
DLX_API dlx_status dlx_tensor_export_legacy(dlx_tensor *tensor, struct DLManagedTensor **managed, dlx_error *error);

/* Returns the function table of DLPack's exchange API. It belongs to the library, is valid as long as the process runs,
 * and must not be changed. Its functions for Python objects fail with BufferError, since libdlx has no Python type. */
DLX_API dlx_status dlx_dlpack_exchange_api(const struct DLPackExchangeAPI **table, dlx_error *error);

/* ---- Files ------------------------------------------------------------------------------------------------------ */

/* Opens a .npy, .npz or .safetensors file, an index of several .safetensors files, or a folder with one or with
 * .safetensors files, and maps what it opens into memory. The caller closes it. The tensors use the bytes of
 * the file in place, so the file must not be truncated or overwritten in place while they are open; replacing it by
 * renaming another file is safe. A program that reads memory of a truncated file gets SIGBUS; functions of libdlx that
 * read it fail with DLX_ERR_INVALID and the errno EFAULT as native_code. Fails with DLX_ERR_INVALID if the file cannot be
 * opened or is malformed; native_code is then the errno, if there is one. */
DLX_API dlx_status dlx_file_open(const char *path, dlx_file **file, dlx_error *error);

/* How to open a file. All zero is the default. The caller owns what it points to. */
typedef struct dlx_open_options {
	const dlx_dtype *void_as; /* void_count types of elements that .npy and .npz files store as raw void, such as V2 and f1: */
	size_t void_count;        /* NumPy writes bfloat16 and float8 so. An array has the first type with its size */
	uint64_t reserved[4];     /* 0 */
} dlx_open_options;

/* As dlx_file_open, with options, which may be NULL. Fails with DLX_ERR_INVALID also if the numbers of a type of void_as
 * are not whole bytes. If no type has the size of an array of raw void, this function fails with DLX_ERR_NOT_SUPPORTED
 * for a .npy file, and dlx_file_tensor for a member of an .npz. */
DLX_API dlx_status dlx_file_open_with(const char *path, const dlx_open_options *options, dlx_file **file,
	dlx_error *error);

/* Closes a file. Its tensors stay open. */
DLX_API dlx_status dlx_file_close(dlx_file *file, dlx_error *error);

/* Returns the path, the format, the metadata and the list of tensors as JSON: {"format":"npy","tensors":[{"name":...}]}.
 * The caller closes the text. */
DLX_API dlx_status dlx_file_json(dlx_file *file, dlx_text **text, dlx_error *error);

/* Returns the tensor with the given name, read-only and on the host; name may be NULL if the file has exactly one. The
 * caller closes it. Fails with DLX_ERR_INVALID if there is no such tensor. */
DLX_API dlx_status dlx_file_tensor(dlx_file *file, const char *name, dlx_tensor **tensor, dlx_error *error);

/* Writes count tensors, which must be accessible to the host, to a file whose format its extension names. names[i] is
 * the name of tensors[i] in the file; names may be NULL for .npy. compress is 1 to compress an .npz, otherwise 0. The
 * file appears when it is complete, and replaces an existing one. On failure nothing is left behind. May block. */
DLX_API dlx_status dlx_file_save(const char *path, dlx_tensor *const *tensors, const char *const *names, size_t count,
	int32_t compress, int64_t timeout_ns, dlx_error *error);

/* As dlx_file_save, for a .safetensors file with metadata: pairs keys and values, which are texts. Fails with
 * DLX_ERR_NOT_SUPPORTED for the other formats, which have no metadata, and with DLX_ERR_INVALID for a key that is there
 * twice. */
DLX_API dlx_status dlx_file_save_metadata(const char *path, dlx_tensor *const *tensors, const char *const *names,
	size_t count, const char *const *keys, const char *const *values, size_t pairs, int64_t timeout_ns,
	dlx_error *error);

/* Selects a part of tensors along one axis: part index of count has the rows from index*n/count up to but not including
 * (index+1)*n/count, rounded down, of the n rows. */
typedef struct dlx_slice {
	const char *name;   /* a glob that the name of the tensor matches; NULL matches every tensor */
	int64_t index;      /* which part, from 0 */
	int64_t count;      /* how many parts */
	int32_t axis;       /* which axis is divided */
	int32_t reserved32; /* 0 */
} dlx_slice;

/* A function of the program that learns how many bytes of total dlx_load has read so far. A result other than 0 stops the
 * load. context is progress_context of the options.
 *
 * It is called on the thread that called dlx_load, before dlx_load returns, and not at the same time twice. done never
 * shrinks, and is total in the last call of a load that succeeds; some pieces may come without a call. The load goes on
 * meanwhile. The function may call functions of dlx; it must return, and not leave by longjmp or an exception of C++. */
typedef int32_t (*dlx_progress)(void *context, int64_t done, int64_t total);

/* How to load. All zero, or a NULL pointer to the options, loads all tensors as they are. The caller owns what it points
 * to. */
typedef struct dlx_load_options {
	const char *const *only;  /* only_count globs: a tensor is loaded if its name matches one. "*" matches any characters, */
	size_t only_count;        /* "?" one, "[a-z]" one of a range; a backslash takes the meaning of the next one away. 0 loads all */
	const dlx_slice *slices;  /* slice_count slices; the first one that matches a tensor is used for it. Only the bytes */
	size_t slice_count;       /* of the part are read */
	dlx_dtype dtype;          /* all 0, or the type that the elements are converted to */
	int32_t row_major;        /* 1: tensors in column-major order, which .npy and .npz have, become row-major */
	int32_t writable;         /* 1: tensors on the host are never the read-only memory of the file */
	int32_t threads;          /* the number of threads that read; 0 is a default */
	const char *read;         /* "auto", "map", "direct" (past the page cache) or "cufile"; NULL is "auto" */
	const char *checksum;     /* "crc32c" or "sha256": compute one of each tensor's bytes in the file; NULL: none */
	int64_t budget;           /* the largest number of bytes of buffers on the way to the device; 0 is 64 MiB */
	const dlx_dtype *void_as; /* void_count types of elements of raw void, as those of dlx_open_options */
	size_t void_count;
	dlx_progress progress;    /* called while the load goes on; may be NULL */
	void *progress_context;   /* for progress */
	uint64_t reserved[4];     /* 0 */
} dlx_load_options;

/* Loads the tensors of count paths into the memory of a device. A path names a .safetensors, .npy or .npz file, an index
 * of several .safetensors files (model.safetensors.index.json), or a folder with one index or with .safetensors files.
 * options may be NULL. The caller closes the result. Blocks until everything is loaded.
 *
 * With "map", also if "auto" chooses it, tensors on the host are the read-only memory of the file, which must then not be
 * truncated or overwritten in place, as for dlx_file_open.
 *
 * Fails as dlx_file_open does, with DLX_ERR_INVALID also if a glob matches no tensor, an option is out of range, or a file
 * was changed meanwhile; DLX_ERR_LAYOUT if a tensor lacks the axis of its slice, two files have a tensor of the same name,
 * or an index and its files contradict each other; DLX_ERR_DTYPE if a conversion is not possible; DLX_ERR_NOT_SUPPORTED if
 * parts of bytes would have to be cut, a .npy file of raw void has no type, or the device cannot read as asked;
 * DLX_ERR_CANCELED if progress asks to stop; and with errors of the device. Then nothing stays open. */
DLX_API dlx_status dlx_load(const char *const *paths, size_t count, dlx_device *device, const dlx_load_options *options,
	int64_t timeout_ns, dlx_loaded **loaded, dlx_error *error);

/* Returns the names in the order of the files, the checksums in hexadecimal digits, and a report as JSON:
 * {"names":[...],"checksums":{"name":"..."},"report":{...}}. The caller closes the text. */
DLX_API dlx_status dlx_loaded_json(dlx_loaded *loaded, dlx_text **text, dlx_error *error);

/* Returns the tensor with the given name. The caller closes it, before or after loaded. Small tensors share one
 * allocation, which is freed with the last of them. Fails with DLX_ERR_INVALID if there is no such tensor. */
DLX_API dlx_status dlx_loaded_tensor(dlx_loaded *loaded, const char *name, dlx_tensor **tensor, dlx_error *error);

/* As dlx_loaded_tensor, for the tensor at a place among the names of dlx_loaded_json, from 0. A name in an .npz file may
 * be one that JSON or a text of C cannot express. */
DLX_API dlx_status dlx_loaded_at(dlx_loaded *loaded, size_t index, dlx_tensor **tensor, dlx_error *error);

/* Closes what was loaded. Tensors that were returned stay open. */
DLX_API dlx_status dlx_loaded_close(dlx_loaded *loaded, dlx_error *error);

/* ---- Moves ------------------------------------------------------------------------------------------------------ */

/* Whether a move may copy. */
enum {
	DLX_COPY_IF_NEEDED = 0, /* share memory if possible, otherwise copy */
	DLX_COPY_NEVER = 1,     /* share memory, or fail with DLX_ERR_NOT_SUPPORTED */
	DLX_COPY_ALWAYS = 2     /* copy, so that the result shares no memory with the source */
};

/* How a tensor got to a device, the best first. */
enum {
	DLX_MECHANISM_NONE = 0,   /* it was not moved */
	DLX_MECHANISM_ALIAS = 1,  /* the memory is used as it is */
	DLX_MECHANISM_MAP = 2,    /* the memory was opened for the other device; nothing was copied */
	DLX_MECHANISM_PEER = 3,   /* one copy between two devices of one API */
	DLX_MECHANISM_DIRECT = 4, /* one copy, which one of the devices makes */
	DLX_MECHANISM_STAGED = 5  /* two copies, through host memory */
};

/* How unfinished work is waited for. */
enum {
	DLX_WAIT_NONE = 0,      /* no work was unfinished */
	DLX_WAIT_STREAM = 1,    /* a stream waits, and the caller does not */
	DLX_WAIT_SEMAPHORE = 2, /* a stream waits for a semaphore of another device, and the caller does not */
	DLX_WAIT_HOST = 3       /* the caller waited */
};

/* How to move. All zero, or a NULL pointer to the options, shares memory if possible. */
typedef struct dlx_move_options {
	int32_t copy;              /* DLX_COPY_* */
	int32_t only;              /* 0, or the only DLX_MECHANISM_* that may be used; for measurements */
	dlx_stream *stream;        /* a stream of the destination that uses the result next: it waits for the data */
	dlx_stream *source_stream; /* a stream of the source's device on which other code writes the source */
	const dlx_alloc_options *alloc; /* for the memory of a copy; may be NULL */
	uint64_t reserved[4];      /* 0 */
} dlx_move_options;

/* What a move did. */
typedef struct dlx_report_info {
	dlx_device_id from;
	dlx_device_id to;
	int32_t mechanism;    /* DLX_MECHANISM_* */
	int32_t wait;         /* DLX_WAIT_* */
	int32_t opened;       /* 1 if memory was opened for this move; the next move finds it open */
	int32_t reserved32;   /* 0 */
	int64_t bytes_copied; /* a byte that was copied twice counts twice */
	int64_t duration_ns;  /* until the call returned; a copy may still be running */
	uint64_t reserved[4]; /* 0 */
} dlx_report_info;

/* Moves a tensor to a device. options may be NULL. The caller still owns tensor, and closes the result. A result that
 * shares memory keeps that memory open. If report is not NULL, *report is set to a new report, which the caller closes.
 * If the move fails for want of a way, the error says why each way is not possible; no report is made.
 * May block. A copy may still be running when dlx_to returns: see ORDER above. */
DLX_API dlx_status dlx_to(dlx_tensor *tensor, dlx_device *device, const dlx_move_options *options, int64_t timeout_ns,
	dlx_tensor **result, dlx_report **report, dlx_error *error);

/* Plans a move, without opening or copying anything. options may be NULL. The caller closes the route, which keeps
 * neither the tensor nor the device nor the streams open. */
DLX_API dlx_status dlx_plan(dlx_tensor *tensor, dlx_device *device, const dlx_move_options *options, dlx_route **route,
	dlx_error *error);

/* Makes the move of a route, as dlx_to does. If the planned way fails, the next one is tried. A route may be run again,
 * and closed during a run. */
DLX_API dlx_status dlx_route_run(dlx_route *route, int64_t timeout_ns, dlx_tensor **result, dlx_report **report,
	dlx_error *error);

/* Sets *mechanism to the planned DLX_MECHANISM_*. */
DLX_API dlx_status dlx_route_mechanism(dlx_route *route, int32_t *mechanism, dlx_error *error);

/* Describe a plan in words, in several lines, or in JSON: the mechanism, the steps, and the better ways with the reason
 * why each is not possible. The caller closes the text. */
DLX_API dlx_status dlx_route_text(dlx_route *route, dlx_text **text, dlx_error *error);
DLX_API dlx_status dlx_route_json(dlx_route *route, dlx_text **text, dlx_error *error);

/* Closes a route. */
DLX_API dlx_status dlx_route_close(dlx_route *route, dlx_error *error);

/* Reads a report. */
DLX_API dlx_status dlx_report_get_info(dlx_report *report, dlx_report_info *info, dlx_error *error);

/* Describe a move as dlx_route_text and dlx_route_json describe a plan. The caller closes the text. */
DLX_API dlx_status dlx_report_text(dlx_report *report, dlx_text **text, dlx_error *error);
DLX_API dlx_status dlx_report_json(dlx_report *report, dlx_text **text, dlx_error *error);

/* Closes a report. */
DLX_API dlx_status dlx_report_close(dlx_report *report, dlx_error *error);

/* ---- Streams and events ----------------------------------------------------------------------------------------- */

/* Makes a stream on a device. The caller closes it. May block. */
DLX_API dlx_status dlx_stream_open(dlx_device *device, int64_t timeout_ns, dlx_stream **stream, dlx_error *error);

/* Makes a stream of one that another library owns, such as a cudaStream_t. number is what DLPack calls the stream: a
 * handle, or on CUDA 1 for the legacy default stream and 2 for that of the calling thread, or 0 on ROCm for the default
 * stream. The other library must keep its stream open until the handle is closed, which leaves it open. The stream of
 * a thread can be used by that thread only. The caller closes the handle.
 * Fails with DLX_ERR_INVALID for a number that is no stream, such as -1, or any number on the CPU, and with
 * DLX_ERR_NOT_SUPPORTED if the device lacks DLX_CAN_IMPORT_STREAM or DLPack defines no numbers for it. */
DLX_API dlx_status dlx_stream_borrow(dlx_device *device, int64_t number, int64_t timeout_ns, dlx_stream **stream,
	dlx_error *error);

/* Sets *native to the handle that the API has for the stream, such as a CUstream; 0 if there is none. The native handle
 * belongs to the stream. */
DLX_API dlx_status dlx_stream_native(dlx_stream *stream, uintptr_t *native, dlx_error *error);

/* Blocks until all work that was enqueued before is done. Returns the first error of the work since the last call. */
DLX_API dlx_status dlx_stream_synchronize(dlx_stream *stream, int64_t timeout_ns, dlx_error *error);

/* Returns an event that is done when all work that was enqueued before is done. The caller closes it. */
DLX_API dlx_status dlx_stream_record(dlx_stream *stream, dlx_event **event, dlx_error *error);

/* Makes work that is enqueued on the stream later wait for an event. Does not block. Fails with DLX_ERR_NOT_SUPPORTED if
 * the device cannot wait for the event; call dlx_event_wait then. */
DLX_API dlx_status dlx_stream_wait(dlx_stream *stream, dlx_event *event, dlx_error *error);

/* Closes a stream. Blocks until its work is done, however long that takes, and returns the first error of the work that
 * dlx_stream_synchronize did not return. The handle is closed also if the call fails with such an error. */
DLX_API dlx_status dlx_stream_close(dlx_stream *stream, dlx_error *error);

/* Sets *done to 1 if the event is done, otherwise to 0. Does not block. Returns the error of the work if it failed;
 * *done is then 1. */
DLX_API dlx_status dlx_event_done(dlx_event *event, int32_t *done, dlx_error *error);

/* Blocks until the event is done, and returns the error of its work. */
DLX_API dlx_status dlx_event_wait(dlx_event *event, int64_t timeout_ns, dlx_error *error);

/* Closes an event. The work goes on. */
DLX_API dlx_status dlx_event_close(dlx_event *event, dlx_error *error);

/* Makes the stream to wait until the tensor may be read there. If to is NULL, or cannot wait, the caller waits. from may
 * be NULL; pass it if code that does not use dlx writes the tensor on that stream. If wait is not NULL, *wait is set to
 * the DLX_WAIT_* that was used. Returns the error of the last write if it failed. */
DLX_API dlx_status dlx_tensor_handoff(dlx_tensor *tensor, dlx_stream *from, dlx_stream *to, int64_t timeout_ns,
	int32_t *wait, dlx_error *error);

/* ---- Other processes -------------------------------------------------------------------------------------------- */

/* Two processes of one machine are connected by a Unix socket. Each sends tensors to the other one, which receives them
 * on the same memory. The other process may also use dlx in Go or in Python; docs/share.md has the rules and the format.
 * All functions of this section except the two that close fail with DLX_ERR_NOT_SUPPORTED on systems other than Linux. */

/* A function of the program that is called about every 50 milliseconds while a function of this section, or of the next
 * one, waits, on the thread that waits. A result other than 0 makes that function stop, which then fails with
 * DLX_ERR_CANCELED unless it has succeeded meanwhile. context is poll_context of the options. The function may call
 * functions of dlx; it must return, and not leave by longjmp or an exception of C++. */
typedef int32_t (*dlx_poll)(void *context);

/* How to connect. All zero is the default. The caller owns what it points to, which may be freed after the call, but
 * keeps the devices open until the connection, or the listener and its connections, are closed. */
typedef struct dlx_share_options {
	dlx_device *const *devices; /* device_count devices on which memory of the other process can be opened. With a device of */
	size_t device_count;        /* the host among them, tensors whose memory cannot be shared are copied to the host */
	int64_t limit_bytes;        /* of the memories that the other process has passed, together; 0 is 64 GiB */
	int32_t limit_memories;     /* that the other process has passed, at most 65536; 0 is 256 */
	int32_t limit_tensors;      /* that the other process has passed and that are not released, at most 65536; 0 is 64 */
	int32_t read_only;          /* 1: tensors that are sent are read-only for the other process */
	int32_t mode;               /* of the socket that dlx_share_listen makes; 0 is 0600, for the same user only */
	dlx_poll poll;              /* called while a call waits; may be NULL. It stays callable until the handles are closed */
	void *poll_context;         /* for poll */
	/* What all processes of one user may have on the connections of a listener, together. dlx_share_connect and
	 * dlx_share_adopt ignore it. */
	int64_t user_limit_bytes;       /* of memories and rings; 0 is 1 TiB */
	int32_t user_limit_connections; /* that are open; 0 is 256. More are refused */
	int32_t user_limit_descriptors; /* connections, memories, rings and semaphores together; 0 is 8192 */
	uint64_t reserved[2];       /* 0 */
} dlx_share_options;

/* Whether a connection is open, or how it has ended. */
enum {
	DLX_CONNECTION_OPEN = 0,
	DLX_CONNECTION_CLOSED = 1,  /* this process has closed it */
	DLX_CONNECTION_ENDED = 2,   /* the other process has closed it */
	DLX_CONNECTION_LOST = 3,    /* the other process has ended without closing it, such as one that was killed */
	DLX_CONNECTION_REFUSED = 4  /* one of the processes broke a rule of the format, or a limit, or has another version of it */
};

/* What a connection has done. The struct owns nothing. */
typedef struct dlx_connection_info {
	int32_t state;           /* DLX_CONNECTION_* */
	int32_t pid;             /* of the other process, as the system reports it; 0 if it is in another PID namespace */
	uint32_t uid;            /* the user and the group of that process, when the connection was made */
	uint32_t gid;
	int64_t sent;            /* tensors */
	int64_t received;        /* tensors that dlx_connection_receive has returned */
	int64_t released;        /* tensors that were sent, and that the other process has released */
	int64_t in_flight;       /* tensors that were sent and are not released, at present */
	int64_t held;            /* tensors that have arrived and are not released, at present */
	int64_t bytes_sent;      /* of the elements of the tensors */
	int64_t bytes_received;
	int64_t bytes_copied;    /* because memory could not be shared */
	int64_t memories_sent;   /* that were passed, each with a descriptor */
	int64_t memories_opened; /* memories of the other process that were opened */
	uint64_t reserved[8];    /* 0 */
} dlx_connection_info;

/* Makes a Unix socket at path, at which other processes connect. A socket that a dead process has left there is replaced.
 * options may be NULL; they apply to all connections. The caller closes the listener, which removes the socket.
 * Fails with DLX_ERR_EXISTS if another process listens at path or something else is there, and with DLX_ERR_INVALID if
 * path cannot be used or an option is wrong; native_code is then the errno, if there is one. */
DLX_API dlx_status dlx_share_listen(const char *path, const dlx_share_options *options, dlx_listener **listener,
	dlx_error *error);

/* Waits for a process that connects. The caller closes the connection, before or after the listener. Fails with
 * DLX_ERR_CLOSED if the listener is closed meanwhile. */
DLX_API dlx_status dlx_listener_accept(dlx_listener *listener, int64_t timeout_ns, dlx_connection **connection,
	dlx_error *error);

/* Closes a listener, removes its socket, and ends dlx_listener_accept. Connections stay open. */
DLX_API dlx_status dlx_listener_close(dlx_listener *listener, dlx_error *error);

/* Connects to the process that listens at path. options may be NULL. The caller closes the connection. May block. Fails
 * with DLX_ERR_CLOSED if no process listens there; native_code is then the errno. */
DLX_API dlx_status dlx_share_connect(const char *path, const dlx_share_options *options, int64_t timeout_ns,
	dlx_connection **connection, dlx_error *error);

/* Makes a connection of one end of a socketpair of the type SOCK_SEQPACKET, whose other end another process has, or will
 * inherit. Both ends must not have been used before. On success the connection owns fd; on failure the caller still
 * does. options may be NULL. The caller closes the connection. Fails with DLX_ERR_INVALID if fd is no such socket. */
DLX_API dlx_status dlx_share_adopt(int32_t fd, const dlx_share_options *options, dlx_connection **connection,
	dlx_error *error);

/* Allocates a row-major tensor, as dlx_tensor_alloc does, whose memory other processes can open without a copy. Fails with
 * DLX_ERR_NOT_SUPPORTED if the device has no such memory. */
DLX_API dlx_status dlx_share_alloc(dlx_device *device, const dlx_tensor_spec *spec, int64_t timeout_ns,
	dlx_tensor **tensor, dlx_error *error);

/* Copies a tensor to a device, as dlx_to does with DLX_COPY_ALWAYS, into memory that other processes can open without a copy.
 * The caller closes *result, and *report if report is not NULL. Fails as dlx_to does, and with DLX_ERR_NOT_SUPPORTED if the
 * device has no such memory. */
DLX_API dlx_status dlx_share_copy(dlx_tensor *tensor, dlx_device *device, int64_t timeout_ns, dlx_tensor **result,
	dlx_report **report, dlx_error *error);

/* Sets *fd to a new descriptor of the memfd on which the memory of a tensor lies, and *offset to the number of bytes from
 * its start to the first element. The caller closes the descriptor, and passes it on by other means than a connection: the
 * library then does not know who uses the memory, and waits for nobody. The file is sealed against a change of its size.
 * Does not wait: see dlx_tensor_wait_ready. Fails with DLX_ERR_NOT_SUPPORTED unless dlx_share_alloc has allocated the memory
 * on the host. */
DLX_API dlx_status dlx_share_memory(dlx_tensor *tensor, int32_t *fd, int64_t *offset, dlx_error *error);

/* Passes a tensor to the other process. The caller still owns tensor, and may close it at once: the connection keeps the
 * memory until the other process has released the tensor. Until then dlx_tensor_wait_idle waits for that process, and so
 * does work of dlx that writes the memory. Memory that cannot be shared is copied once; the report says why.
 *
 * label is passed along, for the programs; NULL is none, and 1024 bytes are possible. If report is not NULL, the caller
 * closes *report. Waits for the last write to the tensor, and while more is in flight than the other process permits.
 *
 * Fails with DLX_ERR_NOT_SUPPORTED if the memory can be neither shared nor copied, DLX_ERR_OUT_OF_MEMORY if it is more
 * than the other process permits, with the error of the last write, and, if the connection has ended, with what
 * dlx_connection_error returns. Otherwise the connection goes on, and nothing was sent. */
DLX_API dlx_status dlx_connection_send(dlx_connection *connection, dlx_tensor *tensor, const char *label,
	int64_t timeout_ns, dlx_report **report, dlx_error *error);

/* Waits for the next tensor of the other process, and returns it on device, or where its memory was opened if device is
 * NULL. The caller closes the tensor, which tells the other process, and *report if report is not NULL.
 *
 * If the memory can be opened on the device, or mapped there, nothing is copied. After DLX_ERR_TIMEOUT and
 * DLX_ERR_CANCELED the tensor stays the next one; after other errors of this call it was released. Fails with
 * DLX_ERR_NOT_SUPPORTED if no device of the options can open the memory, with errors of opening and moving it, and, if the
 * connection has ended, with what dlx_connection_error returns. */
DLX_API dlx_status dlx_connection_receive(dlx_connection *connection, dlx_device *device, int64_t timeout_ns,
	dlx_tensor **tensor, dlx_report **report, dlx_error *error);

/* As dlx_connection_receive, and describes the tensor, in one call. It is for bindings. */
DLX_API dlx_status dlx_connection_receive_described(dlx_connection *connection, dlx_device *device, int64_t timeout_ns,
	dlx_tensor **tensor, dlx_tensor_info *info, dlx_report **report, dlx_error *error);

/* Blocks until the other process has released all tensors that were sent. Fails if the connection has ended before. */
DLX_API dlx_status dlx_connection_wait_released(dlx_connection *connection, int64_t timeout_ns, dlx_error *error);

/* Returns DLX_OK while the connection is open, and otherwise why it has ended: DLX_ERR_CLOSED if a process has closed it or
 * ended, DLX_ERR_INVALID if a rule of the format was broken, DLX_ERR_OUT_OF_MEMORY if more was passed than the limits
 * permit, DLX_ERR_VERSION if the other process has another version of the format. The end of the connection releases all
 * tensors that were sent. So a program that has read elements of a received tensor in place calls this function
 * afterwards: after DLX_OK they are those that were sent. */
DLX_API dlx_status dlx_connection_error(dlx_connection *connection, dlx_error *error);

/* Describes a connection. */
DLX_API dlx_status dlx_connection_get_info(dlx_connection *connection, dlx_connection_info *info, dlx_error *error);

/* Describes a connection in JSON: {"peer":{"pid":...,"devices":[...]},"stats":{...}}. The devices are null until the other
 * process has said which it has. The caller closes the text. */
DLX_API dlx_status dlx_connection_json(dlx_connection *connection, dlx_text **text, dlx_error *error);

/* Ends the connection, and all calls that wait on it, and closes the handle. Tensors that were sent are released, whether
 * or not the other process still reads them: call dlx_connection_wait_released before. Tensors that were received stay
 * open. */
DLX_API dlx_status dlx_connection_close(dlx_connection *connection, dlx_error *error);

/* Rings. A ring is a number of slots, each of which holds a tensor of the same type and shape. A publisher writes frames
 * into them, and the processes that have subscribed read them in place, without a message for each frame. docs/share.md
 * has the rules. */

/* What happens when subscribers are slower than the publisher. */
enum {
	DLX_RING_QUEUE = 1, /* a subscriber gets every frame; dlx_publisher_loan waits until all have released a slot */
	DLX_RING_LATEST = 2 /* a subscriber gets the newest frame, and dlx_publisher_loan does not wait */
};

/* A ring. The caller owns it and what it points to, which may be freed after the call. */
typedef struct dlx_ring {
	const dlx_tensor_spec *spec; /* of each slot: the type and the shape; strides and flags must not be set */
	dlx_device *device;          /* which has the memory of the slots, until the ring is closed; NULL is memory of the host */
	int32_t slots;               /* 1 to 256; DLX_RING_LATEST needs two, and one more for each frame that a subscriber holds */
	int32_t mode;                /* DLX_RING_* */
	uint64_t reserved[4];        /* 0 */
} dlx_ring;

/* Makes a ring to which the other process can subscribe by name. The ring does not end with the connection: the caller
 * closes the publisher. Fails with DLX_ERR_EXISTS if this process has published that name on the connection,
 * DLX_ERR_INVALID for a wrong ring, DLX_ERR_NOT_SUPPORTED if the other process knows no rings or cannot open the memory,
 * and, if the connection has ended, with what dlx_connection_error returns. */
DLX_API dlx_status dlx_connection_publish(dlx_connection *connection, const char *name, const dlx_ring *ring,
	int64_t timeout_ns, dlx_publisher **publisher, dlx_error *error);

/* Lets the other process of a further connection subscribe to the ring by its name. */
DLX_API dlx_status dlx_publisher_offer(dlx_publisher *publisher, dlx_connection *connection, int64_t timeout_ns,
	dlx_error *error);

/* Returns the tensor of a free slot, whose elements are anything. The caller fills it, and passes it to dlx_publisher_send,
 * or closes it to give the slot back. Fails with DLX_ERR_OUT_OF_MEMORY in the mode DLX_RING_LATEST if the program itself
 * uses too many slots. A slot of which the program has kept views or exports is not loaned again. */
DLX_API dlx_status dlx_publisher_loan(dlx_publisher *publisher, int64_t timeout_ns, dlx_tensor **tensor,
	dlx_error *error);

/* Does what dlx_flush, dlx_publisher_loan and dlx_tensor_export do, in one call. The caller closes *tensor, or sends it, and calls
 * the deleter of *managed in any case. The slot is not loaned again before the deleter was called. *unfinished is 1 if work on the
 * memory of the slot may be unfinished, and otherwise 0. It is for bindings. */
DLX_API dlx_status dlx_publisher_loan_exported(dlx_publisher *publisher, int64_t timeout_ns, dlx_tensor **tensor,
	struct DLManagedTensorVersioned **managed, int32_t *unfinished, dlx_error *error);

/* Passes a tensor that dlx_publisher_loan has returned to all subscribers. On success the handle of the tensor is closed;
 * on failure the caller still has it. *sequence, unless sequence is NULL, is the number of the frame, from 1 on. The
 * subscribers wait for unfinished work on the tensor; if the dlx of one of them is too old for that, this function waits. Fails
 * with the error of work that has failed, and with DLX_ERR_INVALID if the tensor is not on loan. */
DLX_API dlx_status dlx_publisher_send(dlx_publisher *publisher, dlx_tensor *tensor, int64_t timeout_ns,
	uint64_t *sequence, dlx_error *error);

/* Blocks until there are count subscribers. A frame that nobody has subscribed to is lost. */
DLX_API dlx_status dlx_publisher_wait_readers(dlx_publisher *publisher, int32_t count, int64_t timeout_ns,
	dlx_error *error);

/* Blocks until no subscriber needs a frame that was sent. */
DLX_API dlx_status dlx_publisher_wait_released(dlx_publisher *publisher, int64_t timeout_ns, dlx_error *error);

/* Returns the subscribers, and how each gets the frames, as a JSON array. The caller closes the text. */
DLX_API dlx_status dlx_publisher_json(dlx_publisher *publisher, dlx_text **text, dlx_error *error);

/* Ends the ring, and calls that wait for it. Subscribers of a queue still receive what was sent. Tensors that were loaned
 * stay open until they are closed. */
DLX_API dlx_status dlx_publisher_close(dlx_publisher *publisher, dlx_error *error);

/* Waits until the other process has published a ring of the name, and begins to receive its frames. Frames are used on
 * device, or where the memory of the slots is opened if device is NULL. hold is how many frames of a ring of the mode
 * DLX_RING_LATEST are held at once; 0 is 1. The caller closes the subscription. Fails with DLX_ERR_NOT_SUPPORTED if no
 * device can open the memory, DLX_ERR_OUT_OF_MEMORY if the publisher has no slots for another subscriber, and, if the
 * connection has ended, with what dlx_connection_error returns. */
DLX_API dlx_status dlx_connection_subscribe(dlx_connection *connection, const char *name, dlx_device *device,
	int32_t hold, int64_t timeout_ns, dlx_subscription **subscription, dlx_error *error);

/* Waits for the next frame. The caller releases it. The work that writes it may be unfinished: wait for that by
 * dlx_tensor_wait_ready before other code reads the elements. Fails with DLX_ERR_CLOSED when the publisher has ended the ring and all
 * frames were received, or has closed the connection: *ended, unless ended is NULL, is then 1. Fails with DLX_ERR_OUT_OF_MEMORY if more frames would be held
 * than the subscription allows, and, if the connection has ended, with what dlx_connection_error returns. */
DLX_API dlx_status dlx_subscription_receive(dlx_subscription *subscription, int64_t timeout_ns, dlx_frame **frame,
	int32_t *ended, dlx_error *error);

/* Does what dlx_flush, dlx_subscription_receive, dlx_frame_sequence and, for the tensor of dlx_frame_tensor, dlx_tensor_get_info do,
 * in one call. The caller releases the frame: the memory that *info describes is valid until then, without a tensor. It is for
 * bindings. */
DLX_API dlx_status dlx_subscription_receive_described(dlx_subscription *subscription, int64_t timeout_ns,
	dlx_frame **frame, uint64_t *sequence, dlx_tensor_info *info, int32_t *ended, dlx_error *error);

/* Ends a subscription, and calls that wait for it. Frames that were received stay valid until they are released. */
DLX_API dlx_status dlx_subscription_close(dlx_subscription *subscription, dlx_error *error);

/* Returns a tensor on the memory of a frame. It is read-only unless the elements were copied to another device. The
 * caller closes it. The slot is given back when the frame is released and all such tensors and their views are closed. */
DLX_API dlx_status dlx_frame_tensor(dlx_frame *frame, dlx_tensor **tensor, dlx_error *error);

/* Sets *sequence to the number of the frame. The publisher's frames have the numbers from 1 on. */
DLX_API dlx_status dlx_frame_sequence(dlx_frame *frame, uint64_t *sequence, dlx_error *error);

/* Returns DLX_OK if the elements are those that were sent. It is for programs that have read them in place: after the end of
 * the connection the publisher may write the slot again, and the function returns DLX_ERR_CLOSED. */
DLX_API dlx_status dlx_frame_error(dlx_frame *frame, dlx_error *error);

/* Releases a frame, which closes the handle. */
DLX_API dlx_status dlx_frame_release(dlx_frame *frame, dlx_error *error);

/* Returns the label of a tensor that was sent or received; that of a move is empty. The caller closes the text. */
DLX_API dlx_status dlx_report_label(dlx_report *report, dlx_text **text, dlx_error *error);

/* ---- Other machines --------------------------------------------------------------------------------------------- */

/* Two processes, on one machine or on two, are connected by TCP, and pass tensors through UCX, by the fastest transport that
 * both machines have. UCX encrypts nothing: use it on a network that you trust. The other process may also use dlx in Go or in
 * Python; docs/remote.md has the rules and the format. The functions that connect fail with DLX_ERR_NOT_SUPPORTED if the
 * library was built without UCX, or cannot open libucp.so.0; the text says what to install. */

/* How to connect. Either the three files or token must be set, or both, unless insecure is 1. The caller owns what it points
 * to, which may be freed after the call. */
typedef struct dlx_remote_options {
	const void *token;       /* token_size bytes, 16 to 1024, which are secret and which both processes know. Each proves to */
	size_t token_size;       /* the other one that it knows them; they are not sent */
	const char *cert_file;   /* paths of files in the format PEM: the certificate of this process, */
	const char *key_file;    /* its private key, */
	const char *ca_file;     /* and the authorities that certificates of other processes come from; all three or none */
	const char *server_name; /* in the certificate of the listener, for dlx_remote_connect; NULL is the host of the address */
	int64_t keep_alive_ns;   /* how long the other process may show no sign of life, 100 ms to 1 h; 0 is 10 s */
	int64_t spin_ns;         /* how long a call looks for messages before it lets the system wake it; 0 is not at all */
	int64_t limit_bytes;     /* of the elements of one tensor; 0 is 64 GiB */
	int32_t limit_tensors;   /* that the other process has sent and that were not received, at most 65536; 0 is 64 */
	int32_t limit_requests;  /* of fetch and put that are served, and that this side makes, at the same time, at most 1024; 0 is 16 */
	int32_t insecure;        /* 1: neither encryption nor authentication, on the loopback interface only */
	int32_t reserved32;      /* 0 */
	dlx_poll poll;           /* called while a call waits; may be NULL. It stays callable until the handles are closed */
	void *poll_context;      /* for poll */
	uint64_t reserved[4];    /* 0 */
} dlx_remote_options;

/* What a connection has done. The struct owns nothing. */
typedef struct dlx_remote_connection_info {
	int32_t state;          /* DLX_CONNECTION_* */
	int32_t reserved32;     /* 0 */
	int64_t sent;           /* tensors */
	int64_t received;       /* tensors that dlx_remote_receive has returned */
	int64_t in_flight;      /* tensors that were sent, and that the other process has not said to have received, at present */
	int64_t waiting;        /* tensors that have begun to arrive, and are not received, at present */
	int64_t bytes_sent;     /* of the elements of the tensors */
	int64_t bytes_received;
	int64_t bytes_copied;   /* on the way between a device, or a tensor that is not contiguous, and UCX */
	int64_t served;         /* requests of the other process that were fulfilled */
	int64_t refused;        /* requests of the other process that were refused, or have failed */
	int64_t dropped;        /* data messages that do not belong to the connection, or to nothing that is awaited */
	uint64_t reserved[8];   /* 0 */
} dlx_remote_connection_info;

/* Returns DLX_OK if the functions of this section can be used, and otherwise why not. If version is not NULL, *version is
 * set to the version of UCX, and the caller closes that text. */
DLX_API dlx_status dlx_remote_available(dlx_text **version, dlx_error *error);

/* Listens at a TCP address, such as "10.0.0.7:7470", or "127.0.0.1:0" for a port that the system chooses. The options apply
 * to all connections. The caller closes the listener. Fails with DLX_ERR_INVALID if an option or the address is wrong, a file
 * cannot be read, or the address is in use; native_code is then the errno, if there is one. */
DLX_API dlx_status dlx_remote_listen(const char *address, const dlx_remote_options *options,
	dlx_remote_listener **listener, dlx_error *error);

/* Returns the address at which a listener listens, with its port. The caller closes the text. */
DLX_API dlx_status dlx_remote_listener_address(dlx_remote_listener *listener, dlx_text **text, dlx_error *error);

/* Waits for a process that has proved who it is. The caller closes the connection, before or after the listener. One that
 * does not prove it is no error. Fails with DLX_ERR_CLOSED if the listener is closed meanwhile. */
DLX_API dlx_status dlx_remote_listener_accept(dlx_remote_listener *listener, int64_t timeout_ns,
	dlx_remote_connection **connection, dlx_error *error);

/* Accepts connections for a program that only offers tensors: each of them is closed when the other process has ended it. Blocks
 * until the listener is closed, and then fails with DLX_ERR_CLOSED, or until the call ends by a timeout or by poll. All these
 * connections are closed then. It may run on a thread of its own while the program makes and closes offers. */
DLX_API dlx_status dlx_remote_listener_serve(dlx_remote_listener *listener, int64_t timeout_ns, dlx_error *error);

/* Closes a listener, and ends dlx_remote_listener_accept, dlx_remote_listener_serve and the offers of the listener. Connections
 * that were accepted stay open. */
DLX_API dlx_status dlx_remote_listener_close(dlx_remote_listener *listener, dlx_error *error);

/* Connects to the process that listens at an address. The caller closes the connection. Blocks for at most 30 seconds. Fails
 * with DLX_ERR_INVALID if an option or the address is wrong, and with DLX_ERR_CLOSED if no process listens there; native_code is then the
 * errno; or if one of the processes does not accept the other one. */
DLX_API dlx_status dlx_remote_connect(const char *address, const dlx_remote_options *options, int64_t timeout_ns,
	dlx_remote_connection **connection, dlx_error *error);

/* Sends the elements of a tensor, which the other process gets by dlx_remote_receive. The caller still owns tensor. Waits for
 * the last write to it, and while as many tensors are not received as the other process permits. Returns when the elements may
 * be overwritten: at once for at most 8 KiB, and otherwise when the other process has received or dropped them. If the call
 * ends by a timeout or by poll, the other process may get the tensor or not, and dlx_tensor_wait_idle waits until UCX has read it.
 *
 * label is passed along, for the programs; NULL is none, and 1024 bytes are possible, or fewer if the transport permits fewer.
 * If report is not NULL, the caller closes *report; dlx_report_json has the transports, and dlx_report_label the label.
 *
 * Fails with DLX_ERR_OUT_OF_MEMORY if the tensor is larger than the other process permits, DLX_ERR_DEVICE if neither the host
 * nor an opened device can read it, with the error of the last write, and, if the connection has ended, with what
 * dlx_remote_connection_error returns. */
DLX_API dlx_status dlx_remote_send(dlx_remote_connection *connection, dlx_tensor *tensor, const char *label,
	int64_t timeout_ns, dlx_report **report, dlx_error *error);

/* Waits for the next tensor of the other process, and returns it in new memory of device. The caller closes the tensor, and
 * *report if report is not NULL. The last copy to a device may still be running: see ORDER above. If the call ends by a timeout
 * or by poll before the tensor has begun to arrive, it stays the next one; after other errors it is lost. Fails with errors of
 * the device, with DLX_ERR_CLOSED if the sender has given the tensor up, and, if the connection has ended, with what
 * dlx_remote_connection_error returns. After the other process has closed the connection, the call returns the tensors that have
 * arrived completely, and then fails with DLX_ERR_CLOSED; native_code is ECONNRESET if tensors that were sent have not come. */
DLX_API dlx_status dlx_remote_receive(dlx_remote_connection *connection, dlx_device *device, int64_t timeout_ns,
	dlx_tensor **tensor, dlx_report **report, dlx_error *error);

/* Blocks until the other process has received all tensors that were sent. Call it before dlx_remote_connection_close, which
 * may lose what is on its way. */
DLX_API dlx_status dlx_remote_wait_received(dlx_remote_connection *connection, int64_t timeout_ns, dlx_error *error);

/* Returns DLX_OK while the connection is open, and otherwise why it has ended: DLX_ERR_CLOSED if a process has closed it or
 * ended, or showed no sign of life; DLX_ERR_INVALID if a rule of the format was broken; DLX_ERR_VERSION if the other process has
 * another version of the format. dlx_remote_connection_get_info has the state. */
DLX_API dlx_status dlx_remote_connection_error(dlx_remote_connection *connection, dlx_error *error);

/* Describes a connection. */
DLX_API dlx_status dlx_remote_connection_get_info(dlx_remote_connection *connection, dlx_remote_connection_info *info,
	dlx_error *error);

/* Describes a connection in JSON: {"peer":"10.0.0.7:7470","transports":["tcp"],"stats":{...}}. The caller closes the text. */
DLX_API dlx_status dlx_remote_connection_json(dlx_remote_connection *connection, dlx_text **text, dlx_error *error);

/* Ends the connection, its offers and all calls that wait on it, and closes the handle. Blocks until UCX uses no memory of
 * this process for it. Tensors that were received stay open. */
DLX_API dlx_status dlx_remote_connection_close(dlx_remote_connection *connection, dlx_error *error);

/* Offers. A process offers a tensor, and passes the descriptor of the offer to others by any means. They read the elements, or
 * overwrite them, while the program that offers does nothing. Whoever has a descriptor, and may connect, can do so. */

enum { DLX_REMOTE_MAX_DESCRIPTOR = 1024 }; /* a descriptor has fewer bytes */

/* How to offer. All zero, or a NULL pointer to the options, is an offer to read, until it is closed. */
typedef struct dlx_offer_options {
	int64_t lease_ns;     /* after which the offer ends; 0 is never */
	const char *address;  /* where others find the listener, if that listens at all addresses of the machine; NULL is its own */
	int32_t writable;     /* 1: others may overwrite the elements of the tensor, which must be contiguous */
	int32_t reserved32;   /* 0 */
	const char *name;     /* by which others find it in dlx_remote_connection_list, of at most 1024 bytes; NULL is none. All */
	                      /* processes that may connect can then read it. Offers of one listener have different names */
	uint64_t reserved[3]; /* 0 */
} dlx_offer_options;

/* Offers a tensor to all processes that connect to the listener. options may be NULL. The caller still owns tensor, and may
 * close it at once: the offer keeps the memory. The caller closes the offer, also if it has ended with its lease or with the
 * listener. Fails with DLX_ERR_DEVICE if no opened device can read the tensor, with DLX_ERR_EXISTS if another offer has the
 * name, and for a writable offer with DLX_ERR_READ_ONLY or DLX_ERR_LAYOUT if the tensor is read-only or not contiguous. */
DLX_API dlx_status dlx_remote_listener_offer(dlx_remote_listener *listener, dlx_tensor *tensor,
	const dlx_offer_options *options, dlx_remote_offer **offer, dlx_error *error);

/* As dlx_remote_listener_offer, for the process at the other end of a connection only. The offer ends with the connection. */
DLX_API dlx_status dlx_remote_connection_offer(dlx_remote_connection *connection, dlx_tensor *tensor,
	const dlx_offer_options *options, dlx_remote_offer **offer, dlx_error *error);

/* Copies the descriptor of an offer to buffer, which has capacity bytes, and sets *size to the bytes of the descriptor. Fails
 * with DLX_ERR_INVALID if there is no room; DLX_REMOTE_MAX_DESCRIPTOR bytes are always enough. */
DLX_API dlx_status dlx_remote_offer_descriptor(dlx_remote_offer *offer, void *buffer, size_t capacity, size_t *size,
	dlx_error *error);

/* Sets *ended to 1 if the offer has ended, otherwise to 0. Does not block. */
DLX_API dlx_status dlx_remote_offer_ended(dlx_remote_offer *offer, int32_t *ended, dlx_error *error);

/* Ends an offer and closes the handle. Requests that have begun go on, and keep the memory. */
DLX_API dlx_status dlx_remote_offer_close(dlx_remote_offer *offer, dlx_error *error);

/* Returns what a descriptor of size bytes claims, as JSON: {"dtype":"float32","shape":[2,3],"writable":true,
 * "address":"10.0.0.7:7470","expires":"2026-01-02T03:04:05.678Z","bytes":24}. What is false or missing is left out. The caller
 * closes the text. Fails with DLX_ERR_INVALID for bytes that are no descriptor, and DLX_ERR_VERSION for one of another
 * version. */
DLX_API dlx_status dlx_remote_describe(const void *descriptor, size_t size, dlx_text **text, dlx_error *error);

/* Asks the other process which of its offers have names: those of the connection, and those of the listener that has accepted
 * it, in the order in which they were made. Sets *count to their number. The caller closes the list. An offer that is made or
 * ends meanwhile may be missing. Fails with DLX_ERR_NOT_SUPPORTED if the other process has a version of dlx without lists,
 * DLX_ERR_OUT_OF_MEMORY if there are more than a million offers, or names and descriptors of more than 256 MiB, and, if the
 * connection has ended, with what dlx_remote_connection_error returns. */
DLX_API dlx_status dlx_remote_connection_list(dlx_remote_connection *connection, int64_t timeout_ns, dlx_remote_list **list,
	size_t *count, dlx_error *error);

/* Returns offer index of a list: its name, of which the caller closes the text, and its descriptor, which is copied to buffer as
 * dlx_remote_offer_descriptor does. What is not UTF-8 in a name is replaced by U+FFFD. Fails with DLX_ERR_INVALID if the list
 * has no such offer, or there is no room for the descriptor. */
DLX_API dlx_status dlx_remote_list_at(dlx_remote_list *list, size_t index, dlx_text **name, void *buffer, size_t capacity,
	size_t *size, dlx_error *error);

/* Describes offers start to stop of a list, without stop, in JSON, each as dlx_remote_describe does, with its name and the
 * descriptor in base64: [{"name":"weights","descriptor":"RExYTwEA...","dtype":"float32","shape":[2,3],"bytes":24},...]. It is
 * faster than dlx_remote_list_at and dlx_remote_describe for each of them. The caller closes the text. Fails with DLX_ERR_INVALID
 * if the list has no such offers. */
DLX_API dlx_status dlx_remote_list_json(dlx_remote_list *list, size_t start, size_t stop, dlx_text **text, dlx_error *error);

/* Closes a list. */
DLX_API dlx_status dlx_remote_list_close(dlx_remote_list *list, dlx_error *error);

/* Reads rows start to stop, without stop, of the first axis of an offered tensor, and returns them in new memory of device. Only
 * these rows are sent. 0 and -1 are the whole tensor. The caller closes the tensor, and *report if report is not NULL. The last
 * copy to a device may still be running: see ORDER above. Fails with DLX_ERR_CLOSED if the offer has ended or the other process
 * does not know it, DLX_ERR_LAYOUT if there are no such rows, DLX_ERR_OUT_OF_MEMORY if they are larger than limit_bytes permits,
 * with errors of the device, and, if the connection has ended, with what dlx_remote_connection_error returns. */
DLX_API dlx_status dlx_remote_connection_fetch(dlx_remote_connection *connection, const void *descriptor, size_t size,
	int64_t start, int64_t stop, dlx_device *device, int64_t timeout_ns, dlx_tensor **tensor, dlx_report **report,
	dlx_error *error);

/* Connects to the listener that a descriptor names, reads rows as dlx_remote_connection_fetch does, and closes the connection.
 * Fails as that function and dlx_remote_connect do. */
DLX_API dlx_status dlx_remote_fetch(const void *descriptor, size_t size, int64_t start, int64_t stop,
	dlx_device *device, const dlx_remote_options *options, int64_t timeout_ns, dlx_tensor **tensor,
	dlx_report **report, dlx_error *error);

/* Overwrites the elements of a writable offer with those of a tensor, which has the same element type and shape, or, if start
 * is not -1, the rows of the first axis from start on, as many as tensor has. Returns when the elements are there. The caller
 * still owns tensor, and closes *report if report is not NULL. If it fails after it has begun, some elements are overwritten, and
 * the tensor of the other process reports that to whoever reads it. Fails with DLX_ERR_READ_ONLY if the offer is not writable,
 * DLX_ERR_DTYPE or DLX_ERR_LAYOUT if the type or the shape is another one, and as dlx_remote_connection_fetch does. */
DLX_API dlx_status dlx_remote_connection_put(dlx_remote_connection *connection, const void *descriptor, size_t size,
	int64_t start, dlx_tensor *tensor, int64_t timeout_ns, dlx_report **report, dlx_error *error);

enum { DLX_REMOTE_CHECKSUM_SIZE = 32 }; /* bytes of a SHA-256 */

/* Writes the SHA-256 of rows start to stop of an offered tensor, in row-major order, as the other process computes it, to the
 * DLX_REMOTE_CHECKSUM_SIZE bytes at sum. It comes encrypted and authenticated, which elements do not: a tensor that was read and
 * has the same one, by dlx_remote_checksum, was not changed on the way. Fails as dlx_remote_connection_fetch does, and with
 * DLX_ERR_NOT_SUPPORTED if the other process has a version of dlx without checksums; sum is then as it was. */
DLX_API dlx_status dlx_remote_connection_checksum(dlx_remote_connection *connection, const void *descriptor, size_t size,
	int64_t start, int64_t stop, int64_t timeout_ns, uint8_t *sum, dlx_error *error);

/* Writes the SHA-256 of the elements of a tensor, in row-major order, to the DLX_REMOTE_CHECKSUM_SIZE bytes at sum. Waits for the
 * last write to the tensor. poll may be NULL; poll_context is for it. Fails with DLX_ERR_DEVICE if neither the host nor an opened
 * device can read the elements, with DLX_ERR_INVALID if they are those of a mapped file that was truncated, and with the error of
 * the last write; sum is then as it was. */
DLX_API dlx_status dlx_remote_checksum(dlx_tensor *tensor, dlx_poll poll, void *poll_context, int64_t timeout_ns, uint8_t *sum,
	dlx_error *error);

enum { DLX_REMOTE_MAX_COUNT = 65536 }; /* parts of dlx_remote_gather, or peers of dlx_remote_fanout */

/* An offer that has rows of a tensor that dlx_remote_gather makes. The caller owns what it points to, until the call returns. */
typedef struct dlx_remote_part {
	const void *descriptor;            /* of the offer, */
	size_t size;                       /* and its bytes */
	dlx_remote_connection *connection; /* on which to ask; NULL: one to the listener that the descriptor names, for the call */
	int64_t start;                     /* the rows of the offered tensor to use: from start */
	int64_t stop;                      /* to stop, without it; 0 and -1, as for dlx_remote_fetch, are all; so are 0 and 0 */
	int64_t at;                        /* the row of the result that row start becomes */
	uint64_t reserved[2];              /* 0 */
} dlx_remote_part;

/* Makes a tensor of rows that several processes offer: count parts, 1 to DLX_REMOTE_MAX_COUNT. Its rows are those of the parts,
 * from row 0 on, without a gap. Rows that several parts have come from all of them at the same time, and if a process fails, its
 * rows come from the others that have them. A tensor that cannot be divided into rows comes from one process at a time. options
 * are for the connections that the call makes and closes, and for poll; they may be NULL if each part has a connection. limit_bytes
 * of each connection bounds the whole result; that of options does so only if the call makes a connection. The caller closes the
 * tensor, and *report if report is not NULL, and still owns the connections. dlx_report_json has the bytes that each process has
 * sent, and why one has failed.
 *
 * Fails with DLX_ERR_INVALID if count is out of range, a descriptor or option is wrong, or a part has neither a connection nor a
 * descriptor with an address, DLX_ERR_DTYPE or DLX_ERR_LAYOUT if the parts do not fit together, have no such rows, or leave a gap,
 * DLX_ERR_OUT_OF_MEMORY if they are larger than limit_bytes permits, DLX_ERR_CLOSED if rows are missing and no process that has
 * them is left, and with errors of the device. If one of these processes was lost with its connection, native_code is ECONNRESET;
 * if no connection to it could be made, it is ECONNREFUSED or another errno; it is 0 if the offers have ended. */
DLX_API dlx_status dlx_remote_gather(const dlx_remote_part *parts, size_t count, dlx_device *device,
	const dlx_remote_options *options, int64_t timeout_ns, dlx_tensor **tensor, dlx_report **report, dlx_error *error);

/* How a tensor goes from one offer to many processes, each of which passes rows on while they arrive. All processes use the same
 * description. The caller owns what it points to, until the call returns. */
typedef struct dlx_remote_fanout {
	const void *descriptor;   /* of an offer of a listener, the source, */
	size_t size;              /* and its bytes */
	const char *const *peers; /* the addresses of the listeners of the processes that get the tensor, */
	size_t peer_count;        /* in one order; at most DLX_REMOTE_MAX_COUNT */
	int32_t width;            /* to how many processes each one sends: 1 makes a chain, 2 a tree; 0 is the faster one of these */
	int32_t reserved32;       /* 0 */
	uint64_t reserved[2];     /* 0 */
} dlx_remote_fanout;

/* Fetches the tensor of fanout, and offers its rows to others while they arrive. This process is number self of the peers, whose
 * address must be that of the listener, and it accepts connections meanwhile, by dlx_remote_listener_serve on another thread.
 * The options of the listener also apply to the connections to other processes. Returns when the tensor is complete. The caller
 * closes the tensor, the offer when no process needs it any more, and *report if report is not NULL, which is as that of
 * dlx_remote_gather. If the process above this one fails, or does not offer the tensor within keep_alive_ns, the next one above
 * takes its place, and at last the source. Fails as dlx_remote_gather does, and with DLX_ERR_INVALID if fanout or self is wrong,
 * or the listener offers the tensor already. */
DLX_API dlx_status dlx_remote_listener_relay(dlx_remote_listener *listener, const dlx_remote_fanout *fanout, size_t self,
	dlx_device *device, int64_t timeout_ns, dlx_tensor **tensor, dlx_remote_offer **offer, dlx_report **report,
	dlx_error *error);

#ifdef __cplusplus
}
#endif

#endif
