package main

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestUnits(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{formatBytes(0), "0 B"},
		{formatBytes(999), "999 B"},
		{formatBytes(1000), "1.00 kB"},
		{formatBytes(999_994), "999.99 kB"},
		{formatBytes(999_999), "1.00 MB"},
		{formatBytes(1_500_000_000), "1.50 GB"},
		{formatBytes(math.MaxInt64), "9.22 EB"},
		{formatDuration(130), "0.13 us"},
		{formatDuration(42 * time.Microsecond), "42.00 us"},
		{formatDuration(1500 * time.Microsecond), "1.50 ms"},
		{formatDuration(time.Second), "1.00 s"},
		{formatDuration(12 * time.Second), "12.00 s"},
		{formatRate(0), "-"},
		{formatRate(12.345), "12.35"},
		{printable("a b_ä"), "a b_ä"},
		{printable("a\tb\x1b"), `"a\tb\x1b"`},
		{printable("\u202e"), `"\u202e"`},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// Each array of numbers is on one line, and everything else as it was.
func TestNumbersOnOneLine(t *testing.T) {
	result := map[string]any{
		"a": []float64{1.5, -2, 1e-9, 1e30},
		"b": []int{7},
		"c": [][]int{{1, 2}, {}},
		"d": []string{"[\n1,\n2\n]", "3"},
		"e": []any{1, nil},
	}
	const want = `{
  "schema": "dlx/1",
  "command": "x",
  "result": {
    "a": [1.5, -2, 1e-9, 1e+30],
    "b": [7],
    "c": [
      [1, 2],
      []
    ],
    "d": [
      "[\n1,\n2\n]",
      "3"
    ],
    "e": [
      1,
      null
    ]
  }
}
`
	var got strings.Builder
	if err := writeDocument(&got, document{Schema: schema, Command: "x", Result: result}); err != nil || got.String() != want {
		t.Errorf("%v: got\n%s\nwant\n%s", err, got.String(), want)
	}
}
