package tensorfile_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
	"github.com/dlx-go/dlx/tensorfile"
)

// fileSource is a source of the tensors of a file. Change, if not nil, changes what Fetch returns.
type fileSource struct {
	*tensorfile.File
	change func(name string, t *core.Tensor) (*core.Tensor, error)
	twice  bool
}

var _ tensorfile.Source = (*fileSource)(nil)

func (s *fileSource) Infos(context.Context) ([]tensorfile.Info, error) {
	infos := s.Tensors()
	if s.twice {
		infos = append(infos, infos[0])
	}
	return infos, nil
}

func (s *fileSource) Origin() (name, how string) { return "a test", "by hand" }

func (s *fileSource) Fetch(ctx context.Context, name string, first, end int64, device core.Device) (*core.Tensor, error) {
	t, err := s.Tensor(name)
	if err != nil {
		return nil, err
	}
	defer func() { t.Close() }()
	if first != 0 || end != -1 {
		rows, err := t.Slice(0, first, end, 1)
		if err != nil {
			return nil, err
		}
		t.Close()
		t = rows
	}
	x, err := core.Empty(ctx, device, t.DType(), t.Shape(), core.AllocOptions{})
	if err != nil {
		return nil, err
	}
	if err := device.Copy(ctx, nil, x, t); err != nil {
		x.Close()
		return nil, err
	}
	if s.change != nil {
		return s.change(name, x)
	}
	return x, nil
}

// A source gives the same tensors as the file that it reads, onto the host and onto a device that the host cannot access.
func TestLoadFromLoadsAsLoad(t *testing.T) {
	path := mixed(t, t.TempDir())
	s := &fileSource{File: must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))}
	for name, d := range map[string]core.Device{
		"host": openHost(t), "device": coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Opaque: true}),
	} {
		for what, o := range map[string]tensorfile.LoadOptions{
			"all":        {},
			"some":       {Only: []string{"layers/1*", "huge"}, Threads: 1},
			"rows":       {Only: []string{"large", "half"}, Slices: []tensorfile.Slice{{Index: 1, Count: 3}}, Checksum: tensorfile.SHA256},
			"no rows":    {Only: []string{"huge"}, Slices: []tensorfile.Slice{{Index: 0, Count: 9}}},
			"columns":    {Only: []string{"huge"}, Slices: []tensorfile.Slice{{Axis: 2, Index: 1, Count: 2}, {Axis: 1, Index: 0, Count: 1}}[:1]},
			"types":      {Only: []string{"half", "large"}, DType: core.TypeFloat16},
			"everything": {Only: []string{"huge"}, DType: core.TypeFloat32, Slices: []tensorfile.Slice{{Name: "h*", Axis: 1, Index: 2, Count: 5}}},
			"sums":       {Checksum: tensorfile.CRC32C},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				want := load(t, path, d, o)
				last := int64(0)
				o.Progress = func(done, total int64) {
					if last = done; done > total {
						t.Errorf("%d of %d bytes", done, total)
					}
				}
				got := must[*tensorfile.Loaded](t)(tensorfile.LoadFrom(t.Context(), s, d, o))
				if !slices.Equal(got.Names, want.Names) {
					t.Fatalf("the names are %q, want %q", got.Names, want.Names)
				}
				for name, x := range want.Tensors {
					same, err := core.EqualBits(t.Context(), onHost(t, d, x), onHost(t, d, got.Tensors[name]))
					if err != nil || !same {
						t.Errorf("tensor %q differs: %v", name, err)
					}
					if got.Tensors[name].DeviceID() != d.ID() {
						t.Errorf("tensor %q lies on %v", name, got.Tensors[name].DeviceID())
					}
				}
				r, w := got.Report, want.Report
				cut := len(o.Slices) > 0 && o.Slices[0].Axis > 0
				if !cut && !maps.Equal(r.Checksums, w.Checksums) { // else those of all that was fetched
					t.Errorf("the checksums differ")
				}
				if r.Loaded != w.Loaded || r.Tensors != w.Tensors || last != r.Read || !cut && r.Bytes != w.Bytes || cut != (len(r.Refused) > 0) {
					t.Errorf("report %+v\nwant %+v, progress %d", r, w, last)
				}
				if f := r.Files; len(f) != 1 || f[0].Path != "a test" || f[0].Reason != "by hand" || f[0].Read != tensorfile.ReadSource || f[0].Tensors != r.Tensors {
					t.Errorf("files %+v", f)
				}
			})
		}
	}
}

// Whatever fails, nothing stays open, which the counters of the test binary show.
func TestLoadFromFails(t *testing.T) {
	path := mixed(t, t.TempDir())
	d := openHost(t)
	f := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))
	lost := errors.New("the cable was cut")
	whole := func(string, *core.Tensor) (*core.Tensor, error) {
		return must[*core.Tensor](t)(f.Tensor("large")).Share()
	}
	for name, c := range map[string]struct {
		s    fileSource
		o    tensorfile.LoadOptions
		want error
		text string
	}{
		"no tensor matches":  {fileSource{}, tensorfile.LoadOptions{Only: []string{"nothing"}}, core.ErrInvalid, `"nothing"`},
		"no slice matches":   {fileSource{}, tensorfile.LoadOptions{Slices: []tensorfile.Slice{{Name: "nothing", Count: 1}}}, core.ErrInvalid, `"nothing"`},
		"a bad glob":         {fileSource{}, tensorfile.LoadOptions{Only: []string{"["}}, core.ErrInvalid, "malformed"},
		"no such axis":       {fileSource{}, tensorfile.LoadOptions{Slices: []tensorfile.Slice{{Name: "half", Axis: 2, Count: 2}}}, core.ErrLayout, "axis 2"},
		"no conversion":      {fileSource{}, tensorfile.LoadOptions{Only: []string{"half"}, DType: core.DType{Code: 200, Bits: 8, Lanes: 1}}, core.ErrDType, `"half"`},
		"a way for files":    {fileSource{}, tensorfile.LoadOptions{Read: tensorfile.ReadDirect}, core.ErrInvalid, "auto"},
		"a name twice":       {fileSource{twice: true}, tensorfile.LoadOptions{}, core.ErrLayout, "twice"},
		"another tensor":     {fileSource{change: func(n string, x *core.Tensor) (*core.Tensor, error) { x.Close(); return whole(n, x) }}, tensorfile.LoadOptions{Only: []string{"half"}}, core.ErrInvalid, "has listed it as"},
		"a part is too much": {fileSource{change: func(n string, x *core.Tensor) (*core.Tensor, error) { x.Close(); return whole(n, x) }}, tensorfile.LoadOptions{Only: []string{"large"}, Slices: []tensorfile.Slice{{Count: 2}}}, core.ErrInvalid, "has listed it as"},
		"the source fails": {fileSource{change: func(n string, x *core.Tensor) (*core.Tensor, error) {
			if n != "layers/250.weight" {
				return x, nil
			}
			x.Close()
			return nil, lost
		}}, tensorfile.LoadOptions{}, lost, "layers/250.weight"},
	} {
		c.s.File = f
		l, err := tensorfile.LoadFrom(t.Context(), &c.s, d, c.o)
		if l != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &fileSource{File: f, change: func(_ string, x *core.Tensor) (*core.Tensor, error) { cancel(); return x, nil }}
	if _, err := tensorfile.LoadFrom(ctx, s, d, tensorfile.LoadOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}
