package main

import (
	"math"
	"os"
	"testing"
	"unicode/utf8"
)

func TestBar(t *testing.T) {
	for _, c := range []struct {
		value, most   float64
		blocks, plain string
	}{
		{0, 10, "    ", "    "},
		{10, 10, "████", "####"},
		{25, 10, "████", "####"}, // never longer than the column
		{5, 10, "██  ", "##  "},
		{10.0 * 9 / 32, 10, "█▏  ", "#   "},
		{10.0 * 15 / 32, 10, "█▉  ", "##  "},
		{0.0001, 10, "▏   ", "#   "}, // what was measured is seen
		{-1, 10, "    ", "    "},
		{1, 0, "    ", "    "},
		{math.NaN(), 10, "    ", "    "},
		{math.Inf(1), 10, "████", "####"},
	} {
		for style, want := range map[barStyle]string{{true}: c.blocks, {false}: c.plain} {
			got := style.bar(c.value, c.most, 4)
			if got != want || utf8.RuneCountInString(got) != 4 {
				t.Errorf("%v of %v, %+v: %q, want %q", c.value, c.most, style, got, want)
			}
		}
	}
	if got := (barStyle{true}).bar(1, 1, 0); got != "" {
		t.Errorf("no width: %q", got)
	}
}

func TestBlocksNeedUTF8AndATerminal(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{map[string]string{"LANG": "en_US.UTF-8"}, true},
		{map[string]string{"LANG": "C.utf8"}, true},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_ALL": "C"}, false},
		{map[string]string{"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, true},
		{map[string]string{}, false},
	} {
		if got := isUTF8(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %v", c.env, got)
		}
	}
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if styleOf(file, func(name string) string { return map[string]string{"LANG": "C.UTF-8"}[name] }).blocks {
		t.Error("a file gets blocks")
	}
}
