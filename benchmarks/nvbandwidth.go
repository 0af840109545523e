package benchmarks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// nvbandwidth are the cases of nvbandwidth 0.8 in its order. Their places are the numbers that its flag -t takes. It has no others on
// one computer.
var nvbandwidth = func() (names []string) {
	ways := []string{"host_to_device", "device_to_host", "host_to_device_bidirectional", "device_to_host_bidirectional"}
	groups := []string{"all_to_host", "all_to_host_bidirectional", "host_to_all", "host_to_all_bidirectional"}
	for _, by := range []string{"ce", "sm"} {
		for _, way := range ways {
			names = append(names, way+"_memcpy_"+by)
		}
		for _, way := range []string{"", "bidirectional_"} {
			names = append(names, "device_to_device_"+way+"memcpy_read_"+by, "device_to_device_"+way+"memcpy_write_"+by)
		}
		for _, way := range groups {
			names = append(names, way+"_memcpy_"+by)
		}
		for _, way := range []string{"all_to_one_write", "all_to_one_read", "one_to_all_write", "one_to_all_read"} {
			names = append(names, way+"_"+by)
		}
	}
	return append(names, "host_device_latency_sm", "device_to_device_latency_sm", "device_local_copy")
}()

// Number returns the number that nvbandwidth gives to the family of a case, and whether there is one.
func (c *Case) Number() (int, bool) {
	if c == nil {
		return -1, false
	}
	n := slices.Index(nvbandwidth, c.Family)
	return n, n >= 0
}

// byNumber returns the pattern of the cases with a number of nvbandwidth; other patterns are returned as they are.
func byNumber(pattern string) (string, error) {
	if pattern == "" || strings.Trim(pattern, "0123456789") != "" {
		return pattern, nil
	}
	n, err := strconv.Atoi(pattern)
	if err != nil || n >= len(nvbandwidth) {
		return "", core.Errorf(core.ErrInvalid, "benchmarks", "Select", "no case has the number %s: those of nvbandwidth are 0 to %d; --list shows them", pattern, len(nvbandwidth)-1)
	}
	return nvbandwidth[n], nil
}

// whyNumber says which pattern a number stands for.
func whyNumber(pattern, name string) string {
	if pattern == name {
		return ""
	}
	return fmt.Sprintf(", which is number %s of nvbandwidth", pattern)
}
