package core

// SamePhysicalDevice reports whether a and b are the same hardware, perhaps under two
// APIs: both have the same UUID or the same PCI address. CUDA, Vulkan and OpenGL name
// one GPU by one UUID; HIP has UUIDs of its own making, so there the PCI address
// decides. Devices that tell neither are the same only if their IDs are equal.
func SamePhysicalDevice(a, b Properties) bool {
	return a.ID == b.ID || a.UUID != UUID{} && a.UUID == b.UUID || a.PCI != "" && a.PCI == b.PCI
}

// GroupByPhysicalDevice puts devices that are the same hardware into one group. Groups
// and the devices in them keep the order of all. See [SamePhysicalDevice].
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
