package core

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/internal/strictjson"
)

var flagNames = [...]string{"read_only", "copied", "sub_byte_padded"}

// Names returns the names of the flags that are set. For a flag without a name it returns
// the value, such as "0x8".
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

// String returns the names, separated by commas, such as "read_only,copied".
func (f Flags) String() string { return strings.Join(f.Names(), ",") }

// MarshalText returns the same text as [Flags.String].
func (f Flags) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText parses the output of [Flags.String]. It returns ErrInvalid for anything
// else.
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
			return Errorf(ErrInvalid, "core", "UnmarshalText", "%q is not a flag; the flags are %s", name, strings.Join(flagNames[:], ", "))
		}
	}
	*f = set
	return nil
}

// String returns the shape, such as "[2 3]". If the layout is not row-major, it adds the
// strides, as in "[2 3] strides [1 2]".
func (l Layout) String() string {
	if l.IsContiguous() {
		return fmt.Sprint(l.shape())
	}
	return fmt.Sprintf("%v strides %v", l.shape(), l.strides())
}

// layoutJSON is the JSON form of a Layout.
type layoutJSON struct {
	Shape   []int64 `json:"shape"`
	Strides []int64 `json:"strides,omitempty"` // in elements; nil if row-major
}

func (l Layout) json() layoutJSON {
	j := layoutJSON{Shape: append([]int64{}, l.shape()...)}
	if !l.IsContiguous() {
		j.Strides = l.strides()
	}
	return j
}

// MarshalJSON returns an object such as {"shape":[2,3],"strides":[1,2]}. Strides count
// elements. They are omitted if the layout is row-major.
func (l Layout) MarshalJSON() ([]byte, error) { return json.Marshal(l.json()) }

// UnmarshalJSON parses the output of [Layout.MarshalJSON]. It returns ErrLayout for
// malformed JSON, and for a shape and strides that [NewStridedLayout] does not accept.
func (l *Layout) UnmarshalJSON(text []byte) error {
	var j layoutJSON
	if err := strictjson.Unmarshal(text, &j); err != nil {
		return Errorf(ErrLayout, "core", "UnmarshalJSON", "%v", err)
	}
	read, err := newLayout("UnmarshalJSON", j.Shape, j.Strides)
	if err == nil {
		*l = read
	}
	return err
}

// MarshalJSON returns a description of the tensor without its elements, such as
// {"dtype":"float32","shape":[2,3],"device":"cpu","bytes":24}. It adds "strides", in
// elements, if the tensor is not row-major, and "flags" if it has some. It also works for a
// closed tensor, and returns null for a nil one.
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
