// Package faults makes calls of Vulkan fail, for tests: its vkGetInstanceProcAddr,
// given to driver.UseLoader, hands out functions that call the real ones unless a
// fault is armed for them.
package faults
