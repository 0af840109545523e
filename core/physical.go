package core

// SamePhysicalDevice reports whether a and b are the same hardware, perhaps under different
// APIs. They are if they have the same ID, the same UUID or the same PCI address. CUDA,
// Vulkan and OpenGL use the same UUID for a GPU. HIP uses its own UUIDs, so there only the
// PCI address can match.
func SamePhysicalDevice(a, b Properties) bool {
	return a.ID == b.ID || a.UUID != UUID{} && a.UUID == b.UUID || a.PCI != "" && a.PCI == b.PCI
}
