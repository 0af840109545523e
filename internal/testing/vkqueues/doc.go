// Package vkqueues gives Vulkan drivers with one queue several, for tests: lavapipe has one. It is a layer
// (src/layer.c), which stands between the validation layer and the driver. Each of its queues waits for semaphores by
// itself, as on a card, and work in different queues has no order.
package vkqueues
