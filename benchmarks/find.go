package benchmarks

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// FindDevice finds a device by its name, such as "vulkan:0", or by its UUID, of which the beginning is enough if no other
// device has it. A name need not be that of a device that is there.
func FindDevice(ctx context.Context, r *core.Registry, s string) (core.DeviceID, error) {
	id, err := core.ParseDevice(s)
	if err == nil {
		return id, nil
	}
	begin := uuidDigits(s)
	if begin == "" {
		return core.DeviceID{}, core.Errorf(core.ErrDevice, "benchmarks", "FindDevice", "%q is neither the name of a device, such as vulkan:0, nor a UUID; `dlx devices` shows both", s)
	}
	devices, _ := r.Devices(ctx) // of the backends that work
	var found []core.DeviceID
	for _, p := range devices {
		if p.UUID != (core.UUID{}) && strings.HasPrefix(uuidDigits(p.UUID.String()), begin) {
			found = append(found, p.ID)
		}
	}
	switch len(found) {
	case 0:
		return core.DeviceID{}, core.Errorf(core.ErrDevice, "benchmarks", "FindDevice", "no device has the UUID %s; `dlx devices` shows all", s)
	case 1:
		return found[0], nil
	}
	// One card has the same UUID in several APIs.
	return core.DeviceID{}, core.Errorf(core.ErrDevice, "benchmarks", "FindDevice", "several devices have the UUID %s: %v; name one of them", s, found)
}

// uuidDigits returns the digits of a UUID, or of at least the first eight, without what vendors put before and between them;
// "" if s is none.
func uuidDigits(s string) string {
	s = strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(s), "gpu-"), "-", "")
	if len(s) < 8 || len(s) > 32 || strings.Trim(s, "0123456789abcdef") != "" {
		return ""
	}
	return s
}

// FindPair finds two devices by their names or UUIDs, separated by a comma: from and to.
func FindPair(ctx context.Context, r *core.Registry, s string) (p [2]core.DeviceID, err error) {
	names := strings.Split(s, ",")
	if len(names) != 2 {
		return p, core.Errorf(core.ErrInvalid, "benchmarks", "FindPair", "%q is not a pair of devices, such as cpu,vulkan:0", s)
	}
	for i, name := range names {
		if p[i], err = FindDevice(ctx, r, strings.TrimSpace(name)); err != nil {
			return p, err
		}
	}
	if p[0] == p[1] {
		return p, core.Errorf(core.ErrInvalid, "benchmarks", "FindPair", "%q is a pair of a device with itself: device_local_copy measures that", s)
	}
	return p, nil
}

// Select returns the cases that a pattern matches. A pattern is
//
//   - the name of a case, or the beginning of one up to a "/": "host_to_device_memcpy_ce" matches this case of each device;
//   - a beginning that ends in "/": "latency/";
//   - or a glob, where "*" stands for any characters, "?" for one and "[a-c]" for one of those. Other than in names
//     of files they may be "/", too;
//   - the number that nvbandwidth gives to a case, such as 0 for host_to_device_memcpy_ce (see [Case.Number]);
//   - several of these, separated by commas, if it matches no case as a whole.
//
// Without patterns Select returns all cases. It returns core.ErrInvalid for a pattern that matches nothing; the error names
// the cases whose names are the nearest.
func Select(cases []Case, patterns ...string) ([]Case, error) {
	if len(patterns) == 0 {
		return cases, nil
	}
	selected := make([]bool, len(cases))
	for _, p := range patterns {
		err := mark(selected, cases, p)
		if several := strings.Split(p, ","); err != nil && len(several) > 1 {
			err = nil
			for _, one := range several {
				if err = mark(selected, cases, strings.TrimSpace(one)); err != nil {
					break
				}
			}
		}
		if err != nil {
			return nil, err
		}
	}
	var list []Case
	for i, c := range cases {
		if selected[i] {
			list = append(list, c)
		}
	}
	return list, nil
}

// mark marks the cases that a pattern matches. It returns core.ErrInvalid if there are none.
func mark(selected []bool, cases []Case, pattern string) error {
	name, err := byNumber(pattern)
	if err != nil {
		return err
	}
	matches, err := matcher(name)
	if err != nil {
		return err
	}
	found := false
	for i, c := range cases {
		if matches(c.Name) {
			selected[i], found = true, true
		}
	}
	if !found {
		return core.Errorf(core.ErrInvalid, "benchmarks", "Select", "no case is called %q%s%s", name, whyNumber(pattern, name), nearest(cases, name))
	}
	return nil
}

// matcher returns what tells whether a name matches a pattern.
func matcher(pattern string) (func(name string) bool, error) {
	if !strings.ContainsAny(pattern, "*?[") {
		begin := strings.TrimSuffix(pattern, "/") + "/"
		return func(name string) bool { return name == pattern || pattern != "" && strings.HasPrefix(name, begin) }, nil
	}
	var b strings.Builder
	for rest := pattern; rest != ""; {
		c := rest[0]
		n := 1
		switch c {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteString(".")
		case '[':
			if n = strings.IndexByte(rest, ']') + 1; n == 0 {
				return nil, core.Errorf(core.ErrInvalid, "benchmarks", "Select", "%q has a [ without a ]", pattern)
			}
			b.WriteString("[" + strings.NewReplacer("[", `\[`, `\`, `\\`).Replace(rest[1:n-1]) + "]")
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
		}
		rest = rest[n:]
	}
	re, err := regexp.Compile("^(?s:" + b.String() + ")$")
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "benchmarks", "Select", "%q is not a pattern of names", pattern)
	}
	return re.MatchString, nil
}

// nearest names up to three cases, or beginnings of cases, whose names are like s.
func nearest(cases []Case, s string) string {
	const most = 3
	type candidate struct {
		name     string
		distance int
	}
	var list []candidate
	seen := map[string]bool{}
	for _, c := range cases {
		family, _, _ := strings.Cut(c.Name, "/")
		for _, name := range []string{family, c.Family, c.Name} {
			if name != "" && !seen[name] {
				seen[name] = true
				list = append(list, candidate{name, distance(s, name)})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return a.distance - b.distance })
	var names []string
	for _, c := range list[:min(most, len(list))] {
		if c.distance <= max(len(s), len(c.name))/2 {
			names = append(names, c.name)
		}
	}
	if len(names) == 0 {
		return "; --list shows all"
	}
	return fmt.Sprintf("; the nearest names are %s", strings.Join(names, ", "))
}

// distance is how many bytes must be inserted, removed or replaced to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1) // row[j]: from the part of a so far to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
