package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLinesBreakWhereWordsEnd(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  []string
	}{
		{"", 10, []string{""}},
		{"short", 10, []string{"short"}},
		{"short", 0, []string{"short"}},
		{"one two three", 8, []string{"one two", "  three"}},
		{"one two three", 7, []string{"one two", "  three"}},
		{"device_to_host/vulkan:0/opencl:0", 20, []string{"device_to_host/", "  vulkan:0/opencl:0"}},
		{"device_to_host_memcpy", 17, []string{"device_to_host_", "  memcpy"}},
		{"abcdefghijklmnopqrst", 10, []string{"abcdefghij", "  klmnopqr", "  st"}},
		{"  not: a reason here", 12, []string{"  not: a", "    reason", "    here"}},
		{"ääääää öööööö", 8, []string{"ääääää", "  öööööö"}},
		{"          x y", 4, []string{"          x y"}}, // there is no room beside the indentation
	} {
		if got := wrap(c.text, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("%q, %d: %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}

// Cells are broken only as far as the table would be too wide, those of the last columns first.
func TestATableBreaksNoMoreThanItMust(t *testing.T) {
	long := strings.Repeat("a ", 40)[:79]
	for _, c := range []struct {
		cells []string
		least []int
		want  []int
	}{
		{[]string{long, "12", "short"}, []int{20, 0, 10}, []int{0, 0, 0}},
		{[]string{long, "12", long[:39]}, []int{20, 0, 10}, []int{0, 0, 35}}, // 79+2+2+2+39 is 4 too many
		{[]string{long, "12", long}, []int{20, 0, 60}, []int{54, 0, 60}},
		{[]string{long, "12", long}, []int{70, 0, 60}, []int{70, 0, 60}}, // it stays too wide
	} {
		tab := table{least: c.least}
		tab.add(strings.Repeat("a paragraph ", 30))
		tab.add(c.cells...)
		if got := tab.limits(); !slices.Equal(got, c.want) {
			t.Errorf("%d, %v: %v, want %v", len(c.cells), c.least, got, c.want)
		}
	}
}

func FuzzWrap(f *testing.F) {
	f.Add("device_to_device/one two", 9)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 0 || limit > 1000 || !utf8.ValidString(text) {
			return
		}
		got := wrap(text, limit)
		plain := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if plain(strings.Join(got, "")) != plain(text) {
			t.Errorf("%q becomes %q", text, got)
		}
		if indent := len(text) - len(strings.TrimLeft(text, " ")) + 2; limit > 0 && indent < limit/2 {
			for _, line := range got {
				if utf8.RuneCountInString(line) > limit {
					t.Errorf("%q is longer than %d", line, limit)
				}
			}
		}
	})
}
