package backendkit

import "github.com/dlx-go/dlx/core"

// GroupByPhysicalDevice groups the devices that are the same hardware, as reported by
// [core.SamePhysicalDevice]. The groups, and the devices in each group, keep the order of all.
func GroupByPhysicalDevice(all []core.Properties) [][]core.Properties {
	group := make([]int, len(all)) // by device: the first device that is the same hardware
	for i := range all {
		group[i] = i
	}
	for i := range all {
		for j := range i {
			if group[i] != group[j] && core.SamePhysicalDevice(all[i], all[j]) {
				from, to := max(group[i], group[j]), min(group[i], group[j])
				for k := range group {
					if group[k] == from {
						group[k] = to
					}
				}
			}
		}
	}
	var groups [][]core.Properties
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
