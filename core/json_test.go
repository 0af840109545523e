package core_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestFlagsByName(t *testing.T) {
	for flags, want := range map[core.Flags]string{
		0: "", core.FlagReadOnly: "read_only", core.FlagCopied | core.FlagSubBytePadded: "copied,sub_byte_padded",
		core.FlagReadOnly | 1<<3: "read_only,0x8", 1 << 63: "0x8000000000000000",
	} {
		if got := fmt.Sprint(flags); got != want {
			t.Errorf("%d is %q, want %q", uint64(flags), got, want)
		}
		var back core.Flags
		if err := back.UnmarshalText([]byte(want)); err != nil || back != flags {
			t.Errorf("%q is %v, %v", want, back, err)
		}
	}
	for _, s := range []string{"readonly", "0x3", "0x", "read_only,", "8"} {
		if err := new(core.Flags).UnmarshalText([]byte(s)); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", s, err)
		}
	}
}

func TestLayoutsInJSON(t *testing.T) {
	for want, c := range map[string][2][]int64{
		`{"shape":[2,3]}`:                  {{2, 3}, nil},
		`{"shape":[]}`:                     {nil, nil},
		`{"shape":[2,3],"strides":[1,-2]}`: {{2, 3}, {1, -2}},
		`{"shape":[0,3]}`:                  {{0, 3}, {7, 7}},
	} {
		l, err := core.NewStridedLayout(c[0], c[1])
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(l)
		if err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
		var back core.Layout
		if err := json.Unmarshal(got, &back); err != nil || !back.SameShape(l) || back.String() != l.String() {
			t.Errorf("%s becomes %v, %v", got, back, err)
		}
	}
	for _, s := range []string{`{"shape":[-1]}`, `{"shape":[1],"strides":[1,2]}`, `{"shape":"x"}`, `[1]`, `{"Shape":[1]}`, `{"shape":[1],"shape":[2]}`} {
		if err := json.Unmarshal([]byte(s), new(core.Layout)); !errors.Is(err, core.ErrLayout) {
			t.Errorf("%s: %v, want ErrLayout", s, err)
		}
	}
}

func ExampleTensor_MarshalJSON() {
	t, err := core.FromSlice(make([]float32, 6), 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	columns, err := t.Transpose()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer columns.Close()
	text, err := json.Marshal([]*core.Tensor{t, columns, nil})
	fmt.Println(string(text), err)
	fmt.Println(columns.Layout(), core.FlagReadOnly)
	// Output:
	// [{"dtype":"float32","shape":[2,3],"device":"cpu","bytes":24},{"dtype":"float32","shape":[3,2],"strides":[1,3],"device":"cpu","bytes":24},null] <nil>
	// [3 2] strides [1 3] read_only
}
