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
