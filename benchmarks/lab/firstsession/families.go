//go:build cuda && vulkan && linux && cgo

package main

// #include "raw.h"
import "C"

import (
	"runtime"
	"time"
)

var familiesExperiment = experiment{
	name:  "queue_families",
	about: "copies between host and device memory by a queue of each Vulkan family",
	limit: 40 * time.Second,
	do:    examineFamilies,
}

// queueFlags are the names of the bits of VkQueueFlags.
var queueFlags = []string{"graphics", "compute", "transfer", "sparse", "protected", "video_decode", "video_encode", "", "optical_flow"}

func examineFamilies(r *reporter) error {
	runtime.LockOSThread()
	c, _ := r.tryCUDA() // without CUDA, the first device
	if err := r.openVulkan(c); err != nil {
		return err
	}
	for i := range C.fs_vk_families() {
		for _, size := range []int64{64 << 10, 1 << 20, 256 << 20} {
			if r.small {
				size = min(size, 1<<20)
			}
			var f C.fs_family
			n := max(1, min(32, (256<<20)/size))
			err := vkError(C.fs_vk_copies(i, C.uint64_t(size), C.int(n), &f))
			found := row{"family": int(i), "bytes": size, "queues": int(f.count), "flags": flagNames(uint32(f.flags)), "timestamp_bits": int(f.timestamp_bits)}
			if err != nil {
				found["missing"] = err.Error()
			} else {
				found["upload_ns"], found["download_ns"] = int64(f.up), int64(f.down)
				found["upload_gb_per_s"], found["download_gb_per_s"] = rate(size, int64(f.up)), rate(size, int64(f.down))
			}
			r.row(found)
		}
	}
	return nil
}

func flagNames(bits uint32) []string {
	var names []string
	for i, name := range queueFlags {
		if bits>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return names
}

// rate is in 10^9 bytes a second.
func rate(size, ns int64) float64 { return float64(size*100/max(ns, 1)) / 100 }
