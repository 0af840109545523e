// Package driver is the one place that calls Vulkan. It opens libvulkan at run
// time, makes instances and devices, and gives everything else numbers for
// handles and typed errors for VkResult codes.
//
// Calls go through github.com/vulkan-go/vulkan, but for what that lacks (it is
// made from header 1.1.88), and for recording, submitting and waiting, which are
// too frequent for it: those go through a table of functions of the device,
// in shim.c. Structs are passed to vulkan-go by reference to C memory of ours,
// never as its Go structs: it copies those to memory that finalizers free, some of
// them while the call that uses it may still run.
//
// The package has no state of devices beyond their handles: order, pools and
// lifetimes are the business of backends/vulkan.
package driver
