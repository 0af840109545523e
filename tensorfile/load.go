package tensorfile

import (
	"cmp"
	"context"
	"errors"
	"math"
	"runtime"
	"time"

	"github.com/dlx-go/dlx/core"
)

// ReadMode is a way to read the bytes of a file.
type ReadMode string

// The ways to read.
const (
	// ReadAuto is ReadMap for a file whose bytes are mostly in the page cache. Else it is ReadCUFile if the device is a
	// core.FileReader whose CanReadFiles returns nil, and ReadDirect otherwise.
	ReadAuto   ReadMode = "auto"
	ReadMap    ReadMode = "map"    // through the page cache, from the mapped file
	ReadDirect ReadMode = "direct" // past the page cache (O_DIRECT), in large pieces by several threads
	// ReadCUFile lets the device read the file past the memory of the host, by its core.FileReader: GPUDirect Storage
	// (cuFile) of NVIDIA. Elements that change on the way, by conversion or to be packed, are read as by ReadDirect. So
	// is everything if checksums are asked for.
	ReadCUFile ReadMode = "cufile"
	// ReadBuffered stands only in reports: reading through the page cache by read calls, where the system cannot
	// read past it.
	ReadBuffered ReadMode = "buffered"
	// ReadStream stands only in reports: reading from the reader of [Read].
	ReadStream ReadMode = "stream"
	// ReadSource stands only in reports: taking from the source of [LoadFrom].
	ReadSource ReadMode = "source"
)

// Checksum is an algorithm for the checksum of a tensor.
type Checksum string

// The checksums.
const (
	NoChecksum Checksum = ""
	CRC32C     Checksum = "crc32c" // CRC-32 with the polynomial of Castagnoli, as in iSCSI
	SHA256     Checksum = "sha256"
)

// Slice selects a part of tensors along one axis, as a process of a tensor-parallel group needs it. Part Index of
// Count has the rows from ⌊Index·n/Count⌋ up to but not including ⌊(Index+1)·n/Count⌋ of the n rows.
type Slice struct {
	Name  string // a glob that the name of the tensor matches; "" matches every tensor
	Axis  int    // which axis is divided
	Index int64  // which part, from 0
	Count int64  // how many parts
}

// Rows returns the first row of the part, and the one after its last, of n rows. If Count is not positive, there are none.
func (s Slice) Rows(n int64) (from, to int64) {
	if s.Count < 1 {
		return 0, 0
	}
	return rowsOf(s.Index, s.Count, n), rowsOf(s.Index+1, s.Count, n)
}

// LoadOptions are the options of [Load]. The zero value loads all tensors as they are.
type LoadOptions struct {
	// Only has globs. A tensor is loaded if its name matches one of them, or if there are none. "*" matches any
	// characters, "?" one, "[a-z]" one of a range; "\" takes the special meaning of the next character away.
	Only []string
	// Slices select parts of tensors. The first one whose Name matches a tensor is used for it. Only the bytes of
	// the part are read, except that ranges less than 64 KiB apart are read as one.
	Slices []Slice
	// DType, if not zero, is the element type of the loaded tensors. [core.Convert] has the rules.
	DType core.DType
	// VoidAs are types of elements of raw void; see [OpenOptions].
	VoidAs []core.DType
	// RowMajor makes tensors in column-major order, which only .npy and .npz have, row-major.
	RowMajor bool
	// Writable makes tensors on the host writable, by a copy if need be. Without it, tensors that [ReadMap] loads
	// onto the host are the read-only memory of the file.
	Writable bool
	// Read is how files are read; "" is ReadAuto.
	Read ReadMode
	// Threads is the number of threads that read; 0 is a default.
	Threads int
	// Budget bounds the bytes of the buffers through which elements go on their way to the device; 0 is 64 MiB.
	// Elements that need no buffer do not count. A tensor of an .npz file, one that RowMajor concerns, or one that is
	// stored in the other byte order is read into host memory as a whole, and does not count either.
	Budget int64
	// Checksum asks for a checksum of each tensor: of the bytes that the file has for it, or for its part, before
	// they are converted.
	Checksum Checksum
	// Progress, if not nil, is called after each piece with the bytes that were read so far and their total. Calls
	// do not overlap. It should return soon.
	Progress func(done, total int64)
}

// SliceOf returns the slice that Load uses for a tensor with this name. ok is false if it loads the whole tensor.
func (o LoadOptions) SliceOf(name string) (s Slice, ok bool) {
	for _, s := range o.Slices {
		if matches, err := Match(cmp.Or(s.Name, "*"), name); err == nil && matches {
			return s, true
		}
	}
	return Slice{}, false
}

// Loaded are tensors that [Load] has loaded.
type Loaded struct {
	Tensors map[string]*core.Tensor // by name; the caller may close and remove some of them
	Names   []string                // in the order of the files
	// Metadata is that of a single .safetensors file or message. It is nil if there are none or several.
	Metadata map[string]string
	Report   LoadReport
}

// Close closes all tensors. It always returns nil.
func (l *Loaded) Close() error {
	for _, t := range l.Tensors {
		_ = t.Close()
	}
	return nil
}

// LoadReport says how tensors were loaded.
type LoadReport struct {
	Device    core.DeviceID     `json:"device"`
	Files     []LoadedFile      `json:"files"`
	Tensors   int               `json:"tensors"`
	Bytes     int64             `json:"bytes"`                     // of the loaded elements, as the files have them
	Read      int64             `json:"bytes_read"`                // from the files, with what lies between the parts of slices
	ByDevice  int64             `json:"bytes_by_device,omitempty"` // of Read, which the device itself has read
	Swapped   int               `json:"tensors_swapped,omitempty"` // of Tensors, those that the files have in the other byte order
	Loaded    int64             `json:"bytes_loaded"`              // of the elements on the device
	Allocated int               `json:"allocations"`               // of memory for the elements
	Threads   int               `json:"threads"`                   // that read
	Buffers   string            `json:"buffers,omitempty"`         // the kind of memory of the buffers; "" if there were none
	Staged    int64             `json:"bytes_staging"`             // the size of all buffers together
	Time      time.Duration     `json:"time_ns"`                   // of the whole call
	Rate      float64           `json:"bytes_per_second"`          // Bytes over Time
	Refused   []Refusal         `json:"refused,omitempty"`
	Checksums map[string]string `json:"-"` // by tensor, in hexadecimal digits
}

// LoadedFile says how a file was read.
type LoadedFile struct {
	Path    string   `json:"path"`
	Bytes   int64    `json:"bytes"`        // of the file, or of all tensors of a source
	Wanted  int64    `json:"bytes_wanted"` // of the loaded elements, as the file has them
	Cached  float64  `json:"cached"`       // the part of the wanted bytes that was in the page cache before, from 0 to 1; -1 if not known
	Read    ReadMode `json:"read"`
	Reason  string   `json:"reason"` // why it was read so
	Tensors int      `json:"tensors"`
}

// Refusal is something that was not done, and why.
type Refusal struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
}

// Load reads tensors from files into the memory of a device, as fast as the slower of the storage and the device
// allows. path is
//
//   - a .safetensors, .npy or .npz file;
//   - an index of several .safetensors files, model.safetensors.index.json of Hugging Face;
//   - a folder with one index, or without an index and with .safetensors files, all of which are loaded.
//
// The caller closes the result. The device stays open at least as long. Small tensors that lie next to each other
// share one allocation, which is freed when the last of them is closed. The memory of a tensor of less than 1 MiB is
// therefore aligned only as its elements need it, or as the file aligns it.
//
// With [ReadMap], tensors on the host are the memory of the file if they are whole, or parts along the first axis,
// and neither LoadOptions.DType nor Writable asks for a copy. They are read-only, belong to no opened device, and
// depend on the file as those of [Open] do. All their pages are read before Load returns.
//
// Load returns the errors of [Open], and
//
//   - ErrInvalid if a glob matches no tensor, an option is out of range, or a file became shorter or was changed
//     while it was loaded;
//   - ErrLayout if a tensor lacks the axis of its slice, or an index and its files contradict each other;
//   - ErrDType if there is no conversion to LoadOptions.DType;
//   - ErrNotSupported if elements of less than a byte would have to be cut, for a tensor that File.Tensor refuses, or if
//     ReadCUFile is asked for and the device cannot read the file;
//   - the errors of [core.Device.Alloc] and [core.Device.Copy], and ctx's error if ctx ends first.
//
// If Load fails, nothing stays open.
func Load(ctx context.Context, path string, device core.Device, options LoadOptions) (*Loaded, error) {
	return LoadAll(ctx, []string{path}, device, options)
}

// LoadAll is like [Load], and loads the tensors of all paths together: the options concern all of them, and
// Loaded.Names has the tensors of the first path first. It returns ErrInvalid if there is no path, and ErrLayout if two
// files have a tensor of the same name.
func LoadAll(ctx context.Context, paths []string, device core.Device, options LoadOptions) (*Loaded, error) {
	l, err := newLoader(device, options)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, loading.errorf(core.ErrInvalid, "there is no path to load from")
	}
	return l.do(ctx, func(r *runner) error {
		for _, path := range paths {
			if err := l.openFiles(path, r); err != nil {
				return err
			}
		}
		return nil
	})
}

// newLoader checks the options.
func newLoader(device core.Device, options LoadOptions) (*loader, error) {
	if device == nil {
		return nil, loading.errorf(core.ErrInvalid, "the device is nil")
	}
	if err := options.check(); err != nil {
		return nil, err
	}
	l := &loader{start: time.Now(), device: device, options: options, onHost: device.ID() == core.CPU}
	l.viewer, _ = core.As[core.HostViewer](device)
	l.report.Device = device.ID()
	l.setSizes()
	return l, nil
}

// do loads what open adds to the loader.
func (l *loader) do(ctx context.Context, open func(*runner) error) (*Loaded, error) {
	defer l.closeFiles()
	defer runtime.KeepAlive(l) // for its reserve
	result, err := l.load(ctx, open)
	if err != nil {
		l.closeGroups()
		return nil, typedOrContext(ctx, err)
	}
	r := &result.Report
	r.Time = time.Since(l.start)
	r.Rate = float64(r.Bytes) / r.Time.Seconds()
	countLoaded(r)
	return result, nil
}

// load opens what there is and loads it. If it fails, the caller closes the groups, which nobody uses any more.
func (l *loader) load(ctx context.Context, open func(*runner) error) (result *Loaded, err error) {
	r := newRunner(ctx, l)
	defer func() {
		if err = r.stop(err); err != nil && result != nil {
			_ = result.Close()
		}
	}()
	if err := open(r); err != nil {
		return nil, err
	}
	if err := l.plan(r.ctx); err != nil {
		return nil, err
	}
	return r.run()
}

// loading makes errors that concern no single file.
var loading = fault{format: "tensorfile", call: "Load"}

// typedOrContext returns the error of a context that has ended in place of one that it caused.
func typedOrContext(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return ctx.Err()
	}
	return err
}

// defaultBudget is large enough that a fast disk is always busy.
const defaultBudget = 64 << 20

// minBudget leaves room for a piece of a few pages for each of the two buffers of a thread.
const minBudget = 128 << 10

// maxThreads bounds LoadOptions.Threads.
const maxThreads = 256

// check sets defaults, and returns an error for options out of range.
func (o *LoadOptions) check() error {
	switch o.Read {
	case "":
		o.Read = ReadAuto
	case ReadAuto, ReadMap, ReadDirect, ReadCUFile:
	default:
		return loading.errorf(core.ErrInvalid, "reading %q: it can be auto, map, direct or cufile", o.Read)
	}
	switch o.Checksum {
	case NoChecksum, CRC32C, SHA256:
	default:
		return loading.errorf(core.ErrInvalid, "checksum %q: it can be crc32c or sha256", o.Checksum)
	}
	if o.Budget == 0 {
		o.Budget = defaultBudget
	}
	switch {
	case o.Budget < minBudget:
		return loading.tooSmall(o.Budget)
	case o.Threads < 0 || o.Threads > maxThreads:
		return loading.errorf(core.ErrInvalid, "%d threads: there can be 1 to %d", o.Threads, maxThreads)
	}
	if err := checkVoids(o.VoidAs, loading); err != nil {
		return err
	}
	for _, s := range o.Slices {
		if s.Axis < 0 || s.Count < 1 || s.Index < 0 || s.Index >= s.Count || s.Count > math.MaxInt32 {
			return loading.errorf(core.ErrInvalid, "part %d of %d along axis %d: an axis is at least 0, and parts are numbered from 0 up to their number", s.Index, s.Count, s.Axis)
		}
	}
	return nil
}
