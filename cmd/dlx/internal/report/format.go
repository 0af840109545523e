package report

import (
	"math"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// duration formats nanoseconds: "12.3 ns", "4.56 µs", "" for 0.
func duration(ns float64) string {
	if ns == 0 {
		return ""
	}
	unit := "ns"
	for _, next := range []string{"µs", "ms", "s"} {
		if math.Abs(ns) < 999.5 {
			break
		}
		ns, unit = ns/1000, next
	}
	return digits(ns) + " " + unit
}

// digits prints a number with three digits, and a larger one with all before its point.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0"
	case a < 0.001:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case a < 0.9995:
		return strconv.FormatFloat(v, 'f', 3, 64)
	case a < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
}

// rate formats 10^9 bytes a second, "" for 0.
func rate(gb float64) string {
	if gb == 0 {
		return ""
	}
	return digits(gb) + " GB/s"
}

// size formats bytes: "64 KiB", "1 MiB", "1.5 MiB", "1000 B".
func size(bytes float64) string {
	unit := "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if bytes < 1024 || math.Mod(bytes, 1) != 0 {
			break
		}
		bytes, unit = bytes/1024, next
	}
	return strconv.FormatFloat(math.Round(bytes*10)/10, 'f', -1, 64) + " " + unit
}

// memory formats the size of a memory: "32.0 GB".
func memory(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(bytes)/1e9, 'f', 1, 64) + " GB"
}

func percent(part float64) string {
	return strconv.FormatFloat(100*part, 'f', 1, 64) + "%"
}

func list(ids []core.DeviceID) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	return strings.Join(names, ", ")
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// many returns "1 case" or "2 cases".
func many(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// tip joins the lines that are not empty.
func tip(lines ...string) string {
	var known []string
	for _, l := range lines {
		if l != "" {
			known = append(known, l)
		}
	}
	return strings.Join(known, "\n")
}

// with returns what and then the value, "" if there is no value.
func with(what, value string) string {
	if value == "" {
		return ""
	}
	return what + " " + value
}
