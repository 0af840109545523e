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
const sizeHelp = `A size is a number of bytes, or a number with a unit: K, M, G, T and KiB, MiB, ... count in
1024s, kB, MB, ... in thousands: 4096, 4K, 1.5MB, 64MiB.`

// sizeUnits are the bytes of each unit, which is in lower case. They are those of the tools of GNU: without a final B, and with "iB",
// they count in 1024s.
var sizeUnits = func() map[string]int64 {
	units := map[string]int64{"": 1, "b": 1}
	decimal, binary := int64(1), int64(1)
	for _, letter := range "kmgtpe" {
		decimal, binary = decimal*1000, binary*1024
		units[string(letter)+"b"] = decimal
		for _, end := range []string{"", "i", "ib"} {
			units[string(letter)+end] = binary
		}
	}
	return units
}()

// parseSize parses a size.
func parseSize(s string) (int64, error) {
	if strings.HasPrefix(s, "-") {
		return 0, errors.New("must be at least 0")
	}
	unit := strings.TrimLeft(s, "0123456789.")
	number, ok := new(big.Rat).SetString(strings.TrimSuffix(s, unit))
	factor, known := sizeUnits[strings.ToLower(strings.TrimSpace(unit))]
	if !ok || !known {
		return 0, fmt.Errorf("%q is not a size; examples: 4096, 4K, 1.5MB, 64MiB", s)
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
