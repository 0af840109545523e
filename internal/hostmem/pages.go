package hostmem

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
)

// CanWrite reports whether the host can write all pages of size bytes at an address. It reads the system's list of
// mappings, because every way to try it changes something: a write may race with the program's, and faulting the
// pages in for writing copies those of a private mapping. It returns true if the system has no such list, and for
// pages that are not in it: the driver then decides.
func CanWrite(first uintptr, size int64) bool {
	if size <= 0 {
		return true
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return true
	}
	defer func() { _ = maps.Close() }()
	end := first + uintptr(size)
	lines := bufio.NewScanner(maps) // stops at a line that is too long: the driver decides
	for lines.Scan() {
		low, high, writable, ok := parseMapping(lines.Bytes())
		switch {
		case !ok || high <= first:
		case low >= end:
			return true // the list is in the order of addresses
		case !writable:
			return false
		}
	}
	return true
}

// parseMapping parses a line such as "7f12c000-7f12d000 r--p 00000000 08:01 131 /usr/lib/libm.so.6".
func parseMapping(line []byte) (low, high uintptr, writable, ok bool) {
	span, rest, _ := bytes.Cut(line, []byte(" "))
	from, to, _ := bytes.Cut(span, []byte("-"))
	l, err := strconv.ParseUint(string(from), 16, strconv.IntSize)
	h, err2 := strconv.ParseUint(string(to), 16, strconv.IntSize)
	if err != nil || err2 != nil || len(rest) < 2 {
		return 0, 0, false, false
	}
	return uintptr(l), uintptr(h), rest[1] == 'w', true
}
