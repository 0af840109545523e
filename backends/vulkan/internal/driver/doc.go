// Package driver is the only package that calls Vulkan. It opens libvulkan at run time, makes instances and
// devices, and gives other packages numbers for handles and typed errors for VkResult codes.
//
// Calls go through github.com/vulkan-go/vulkan, with two exceptions: what vulkan-go lacks, since it is made
// from header 1.1.88, and recording, submitting and waiting, which are too frequent for it. These use the
// device's own functions, by a table in shim.c. Structs are passed to vulkan-go by reference, in C memory of
// this package. vulkan-go would copy its own Go structs to memory that finalizers free, sometimes while the
// call that uses it still runs.
//
// The package keeps no state of devices except their handles. Package vulkan does order, pools and lifetimes.
package driver
