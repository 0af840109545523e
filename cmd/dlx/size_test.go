package main

import (
	"math"
	"strings"
	"testing"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "4096": 4096, "812B": 812, "812b": 812,
		"4k": 4096, "4K": 4096, "4kB": 4000, "4KB": 4000, "4Ki": 4096, "4KiB": 4096, "4kib": 4096,
		"1MB": 1e6, "1mb": 1e6, "1M": 1 << 20, "1MiB": 1 << 20, "1 MiB": 1 << 20, "1.5MB": 1500000, "0.5KiB": 512, ".5k": 512, ".5kB": 500,
		"2G": 2 << 30, "2GB": 2e9, "2GiB": 2 << 30, "3TB": 3e12, "3Ti": 3 << 40, "7EiB": 7 << 60,
		"9223372036854775807": math.MaxInt64, "9.223372036854775807EB": math.MaxInt64,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
		var s size
		if err := s.Set(text); err != nil || int64(s) != want {
			t.Errorf("Set(%q): %d, %v", text, s, err)
		}
		if again, err := parseSize(s.String()); err != nil || again != want {
			t.Errorf("%q prints as %q, which is %d, %v", text, s.String(), again, err)
		}
	}
	for text, want := range map[string]string{
		"-1": "at least 0", "-1MB": "at least 0",
		"": "not a size", "MB": "not a size", "1XB": "not a size", "1BB": "not a size", "1.2.3": "not a size", ".": "not a size", "1e6": "not a size",
		"0x10": "not a size", "1/2": "not a size", "1_000": "not a size", "1MB2": "not a size", "+1": "not a size", "\x1b1": "not a size",
		"1.5": "whole", "0.0001kB": "whole", "1.5B": "whole",
		"9223372036854775808": "more than", "8EiB": "more than", "9.3EB": "more than", "99999999999999999999999TB": "more than",
	} {
		s := size(7)
		if err := s.Set(text); err == nil || !strings.Contains(err.Error(), want) || s != 7 {
			t.Errorf("%q: %d, %v; want an error with %q", text, s, err, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 1000: "1000", 1024: "1KiB", 1 << 20: "1MiB", 3 << 29: "1536MiB"} {
		if s := size(n); s.String() != want {
			t.Errorf("%d prints as %q, want %q", n, s.String(), want)
		}
	}
	if got := exactBytes(1 << 20); got != "1.05 MB (1048576 bytes)" {
		t.Error(got)
	}
}
