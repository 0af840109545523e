package core

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

var flagNames = [...]string{"read_only", "copied", "sub_byte_padded"}

// Names lists the flags that are set. A flag without a name is listed as its value, "0x8".
func (f Flags) Names() []string {
	names := make([]string, 0, bits.OnesCount64(uint64(f)))
	for ; f != 0; f &= f - 1 {
		if i := bits.TrailingZeros64(uint64(f)); i < len(flagNames) {
			names = append(names, flagNames[i])
		} else {
			names = append(names, "0x"+strconv.FormatUint(1<<i, 16))
		}
	}
	return names
}

// String gives the names, separated by commas: "read_only,copied".
func (f Flags) String() string { return strings.Join(f.Names(), ",") }

// MarshalText makes flags print by their names in JSON.
func (f Flags) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads what [Flags.String] prints. It fails with ErrInvalid.
func (f *Flags) UnmarshalText(text []byte) error {
	var set Flags
	for name := range strings.SplitSeq(string(text), ",") {
		i := slices.Index(flagNames[:], name)
		if digits, ok := strings.CutPrefix(name, "0x"); i < 0 && ok {
			if x, err := strconv.ParseUint(digits, 16, 64); err == nil && bits.OnesCount64(x) == 1 {
				i = bits.TrailingZeros64(x)
			}
		}
		switch {
		case i >= 0:
			set |= 1 << i
		case len(text) > 0:
			return Errorf(ErrInvalid, "core", "UnmarshalText", "%q is no flag; the flags are %s", name, strings.Join(flagNames[:], ", "))
		}
	}
	*f = set
	return nil
}

// String gives the shape, and the strides where they are not row-major: "[2 3]" or
// "[2 3] strides [1 2]".
func (l Layout) String() string {
	if l.IsContiguous() {
		return fmt.Sprint(l.shape())
	}
	return fmt.Sprintf("%v strides %v", l.shape(), l.strides())
}

// layoutJSON is a Layout in JSON.
type layoutJSON struct {
	Shape   []int64 `json:"shape"`
	Strides []int64 `json:"strides,omitempty"` // in elements; left out where row-major
}

func (l Layout) json() layoutJSON {
	j := layoutJSON{Shape: append([]int64{}, l.shape()...)}
	if !l.IsContiguous() {
		j.Strides = l.strides()
	}
	return j
}

// MarshalJSON gives {"shape":[2,3],"strides":[1,2]}. The strides, in elements, are left out
// where the layout is row-major.
func (l Layout) MarshalJSON() ([]byte, error) { return json.Marshal(l.json()) }

// UnmarshalJSON reads what [Layout.MarshalJSON] writes. It fails with ErrLayout for a shape
// and strides that [NewStridedLayout] refuses.
func (l *Layout) UnmarshalJSON(text []byte) error {
	var j layoutJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return Errorf(ErrLayout, "core", "UnmarshalJSON", "%v", err)
	}
	read, err := newLayout("UnmarshalJSON", j.Shape, j.Strides)
	if err == nil {
		*l = read
	}
	return err
}

// MarshalJSON describes the tensor without its elements:
// {"dtype":"float32","shape":[2,3],"device":"cpu","bytes":24}. It adds "strides", in
// elements, where they are not row-major, and "flags" where there are some. A closed tensor
// is described, too.
func (t *Tensor) MarshalJSON() ([]byte, error) {
	if t == nil {
		return []byte("null"), nil
	}
	return json.Marshal(struct {
		DType DType `json:"dtype"`
		layoutJSON
		Device DeviceID `json:"device"`
		Bytes  int64    `json:"bytes"`
		Flags  Flags    `json:"flags,omitzero"`
	}{t.dtype, t.layout.json(), t.id, t.NumBytes(), t.flags})
}
