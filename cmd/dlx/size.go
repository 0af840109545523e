package main

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// size is a flag whose argument is a number of bytes, with or without a unit.
type size int64

// sizeHelp is the description of sizes in help texts.
const sizeHelp = `A size is a number of bytes, or a number with a unit: k, M, G, T (or kB, MB, ...) count
in thousands, Ki, Mi, Gi, Ti (or KiB, MiB, ...) in 1024s: 4096, 4k, 1.5MB, 64MiB.`

// sizeUnits are the bytes of each unit, which is in lower case and without its final b.
var sizeUnits = map[string]int64{
	"":  1,
	"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18,
	"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40, "pi": 1 << 50, "ei": 1 << 60,
}

// parseSize parses a size.
func parseSize(s string) (int64, error) {
	if strings.HasPrefix(s, "-") {
		return 0, errors.New("must be at least 0")
	}
	unit := strings.TrimLeft(s, "0123456789.")
	number, ok := new(big.Rat).SetString(strings.TrimSuffix(s, unit))
	factor, known := sizeUnits[strings.TrimSuffix(strings.ToLower(strings.TrimSpace(unit)), "b")]
	if !ok || !known {
		return 0, fmt.Errorf("%q is not a size; examples: 4096, 4k, 1.5MB, 64MiB", s)
	}
	number.Mul(number, new(big.Rat).SetInt64(factor))
	switch {
	case !number.IsInt():
		return 0, fmt.Errorf("%q is not a whole number of bytes", s)
	case !number.Num().IsInt64():
		return 0, fmt.Errorf("%q is more than %d bytes", s, int64(math.MaxInt64))
	}
	return number.Num().Int64(), nil
}

// String returns the size with the largest binary unit that divides it.
func (s *size) String() string {
	n, unit := int64(*s), ""
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, next
	}
	return strconv.FormatInt(n, 10) + unit
}

// Set sets the size.
func (s *size) Set(text string) error {
	n, err := parseSize(text)
	if err == nil {
		*s = size(n)
	}
	return err
}

// Type returns the name of the argument in the help text.
func (s *size) Type() string { return "size" }

// exactBytes formats a size as "1.05 MB (1048576 bytes)", or as "812 B" if that is exact.
func exactBytes(n int64) string {
	if n < 1000 {
		return formatBytes(n)
	}
	return fmt.Sprintf("%s (%d bytes)", formatBytes(n), n)
}
