package core

// SamePhysicalDevice reports whether a and b are the same hardware, perhaps under different
// APIs. They are if they have the same ID, the same UUID or the same PCI address. CUDA,
// Vulkan and OpenGL use the same UUID for a GPU. HIP uses its own UUIDs, so there only the
// PCI address can match.
func SamePhysicalDevice(a, b Properties) bool {
	return a.ID == b.ID || a.UUID != UUID{} && a.UUID == b.UUID || a.PCI != "" && a.PCI == b.PCI
}

// GroupByPhysicalDevice groups the devices that are the same hardware, as reported by
// [SamePhysicalDevice]. The groups, and the devices in each group, keep the order of all.
func GroupByPhysicalDevice(all []Properties) [][]Properties {
	group := make([]int, len(all)) // by device: the first device that is the same hardware
	for i := range all {
		group[i] = i
	}
	for i := range all {
		for j := range i {
			if group[i] != group[j] && SamePhysicalDevice(all[i], all[j]) {
				from, to := max(group[i], group[j]), min(group[i], group[j])
				for k := range group {
					if group[k] == from {
						group[k] = to
					}
				}
			}
		}
	}
	var groups [][]Properties
	place := make(map[int]int)
	for i, p := range all {
		at, found := place[group[i]]
		if !found {
			at = len(groups)
			place[group[i]] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], p)
	}
	return groups
}
