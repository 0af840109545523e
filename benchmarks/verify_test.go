package benchmarks

import (
	"slices"
	"strings"
	"testing"
)

func TestAMismatchIsExplained(t *testing.T) {
	const size = 3 * pageBytes
	want, before := make([]byte, size), make([]byte, size)
	fill(want, sentSeed)
	fill(before, beforeSeed)
	for name, c := range map[string]struct {
		change func(got []byte)
		offset int64
		cause  string
	}{
		"a bit":              {func(got []byte) { got[100] ^= 8 }, 100, "a single bit"},
		"zeros":              {func(got []byte) { clear(got[1000:1200]) }, 1000, "zeros: memory"},
		"a page of zeros":    {func(got []byte) { clear(got[pageBytes : 2*pageBytes]) }, pageBytes, "pages of zeros, up to offset 8192"},
		"nothing was copied": {func(got []byte) { copy(got, before) }, 0, "the bytes from before the copy"},
		"the end is old":     {func(got []byte) { copy(got[9000:], before[9000:]) }, 9000, "the bytes from before the copy"},
		"shifted":            {func(got []byte) { copy(got[500:], want[484:]) }, 500, "shifted by 16"},
		"another content":    {func(got []byte) { fill(got[2000:2300], 99) }, 2000, "neither zeros"},
	} {
		got := slices.Clone(want)
		c.change(got)
		m := explain(want, got, before)
		// A byte may be right by chance.
		if m == nil || m.Offset < c.offset || m.Offset > c.offset+4 || !strings.Contains(m.Text, c.cause) || m.Wrong == 0 || m.Of != size || m.Want == m.Got || m.Bits == "" {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if m := explain(want, want, before); m != nil {
		t.Errorf("%+v", m)
	}
	if m := compare(want, sentSeed, beforeSeed); m != nil {
		t.Errorf("%+v", m)
	}
	large := make([]byte, 200_000) // more than compare looks at in one piece
	fill(large, sentSeed)
	large[150_000] ^= 1
	if m := compare(large, sentSeed, beforeSeed); m == nil || m.Offset != 150_000 || m.Bits != "bit 0 of byte 0" {
		t.Errorf("%+v", m)
	}
	short := []byte{1, 2, 3}
	if m := explain(short, []byte{1, 2, 7}, nil); m == nil || m.Offset != 2 || m.Want != "03" || m.Got != "07" {
		t.Errorf("%+v", m)
	}
}

func TestRandomContentHasNoPeriod(t *testing.T) {
	a, b := make([]byte, 1<<16), make([]byte, 1<<16)
	fill(a, 1)
	fill(b, 2)
	if slices.Equal(a, b) || slices.Equal(a[:1<<15], a[1<<15:]) {
		t.Error("the contents repeat")
	}
}
