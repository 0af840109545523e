package backendkit

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

// OpenSet counts the objects that are open on a device, by kind. A device uses it to
// return an error from Close that says what is still open. The zero value is ready for
// use. An OpenSet is safe for concurrent use. A device whose Close must not race with
// calls that open something needs a lock of its own around both.
type OpenSet struct {
	// Backend is the name of the backend. If it is not empty, core.Live counts the objects
	// that Add counts, those of all devices together, under names such as "cuda.Stream".
	Backend string

	mu    sync.Mutex
	kinds []openKind
	sites map[*openSite]struct{} // one for each open object
}

type openKind struct {
	name string
	n    int
	live *live.Counter // nil if core.Live does not count the kind
}

// openSite is the place where an object was opened.
type openSite struct {
	kind string
	pc   []uintptr // nil if tracing was off
}

// OpenItem stands for one open object in an [OpenSet]. The object keeps it, and closes it
// when the object itself is closed.
type OpenItem struct {
	set  *OpenSet
	site *openSite
}

// Add counts one more open object. kind is a noun in the singular, such as "stream" or
// "allocation".
func (s *OpenSet) Add(kind string) OpenItem {
	site := &openSite{kind: kind}
	if live.Tracing.Load() {
		site.pc = live.Stack(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kind(kind).add(1)
	if s.sites == nil {
		s.sites = make(map[*openSite]struct{})
	}
	s.sites[site] = struct{}{}
	return OpenItem{s, site}
}

// kind returns the count of a kind. s.mu is held.
func (s *OpenSet) kind(name string) *openKind {
	i := slices.IndexFunc(s.kinds, func(k openKind) bool { return k.name == name })
	if i < 0 {
		i = len(s.kinds)
		k := openKind{name: name}
		if s.Backend != "" {
			k.live = live.Named(s.Backend + "." + typeName(name))
		}
		s.kinds = append(s.kinds, k)
	}
	return &s.kinds[i]
}

// typeName returns a kind as a name of a type: "IPCEvent" for "IPC event".
func typeName(kind string) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(kind) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

func (k *openKind) add(n int) {
	k.n += n
	if k.live != nil {
		k.live.Add(int64(n))
	}
}

// Set sets the number of open objects of a kind that the device counts itself, since they
// come and go too often for Add.
func (s *OpenSet) Set(kind string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kind(kind).n = n
}

// Close removes the object from the count. Closing it again, or closing the zero OpenItem,
// does nothing.
func (o OpenItem) Close() {
	if o.set == nil {
		return
	}
	o.set.mu.Lock()
	defer o.set.mu.Unlock()
	if _, open := o.set.sites[o.site]; !open {
		return
	}
	o.set.kind(o.site.kind).add(-1)
	delete(o.set.sites, o.site)
}

// Len returns the number of open objects that Add counted.
func (s *OpenSet) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sites)
}

// Err returns the error for a Close of the device while objects are open, or nil if none
// is open. The error is an [*core.Error] that wraps core.ErrInvalid. It counts the open objects by
// kind, as in "2 streams and 1 allocation on cuda:0 are open". If tracing was on, it lists
// the stacks that opened them, and those that made open tensors of the device. If tracing
// was off, it says how to switch it on; see [core.TraceOpen].
func (s *OpenSet) Err(backend string, device core.DeviceID) error {
	s.mu.Lock()
	var counts []string
	total := 0
	for _, k := range s.kinds {
		if k.n > 0 {
			counts = append(counts, plural(k.n, k.name))
			total += k.n
		}
	}
	var sites []*openSite
	for site := range s.sites {
		if site.pc != nil {
			sites = append(sites, site)
		}
	}
	s.mu.Unlock()
	if total == 0 {
		return nil
	}
	verb := "are"
	if total == 1 {
		verb = "is"
	}
	what := counts[0]
	if last := len(counts) - 1; last > 0 {
		what = strings.Join(counts[:last], ", ") + " and " + counts[last]
	}
	detail := fmt.Sprintf("%s on %v %s open: close what is open first", what, device, verb)
	stacks := openedBy(sites)
	stacks = append(stacks, tensorsOn(device)...)
	switch {
	case len(stacks) > 0:
		detail += "\n" + strings.Join(stacks, "\n")
	case !live.Tracing.Load():
		detail += "; DLX_TRACE_OPEN=1 or core.TraceOpen shows who opened it"
	}
	return core.Errorf(core.ErrInvalid, backend, "Close", "%s", detail)
}

func plural(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(noun, "y"))
	default:
		return fmt.Sprintf("%d %ss", n, noun)
	}
}

// openedBy describes where objects were opened, one text for each place.
func openedBy(sites []*openSite) []string {
	count := make(map[string]int)
	for _, site := range sites {
		count[site.kind+"\x00"+live.Format(site.pc)]++
	}
	return describe(count)
}

// describe returns a text for each key, which is a kind and a stack, with its count.
func describe(count map[string]int) []string {
	var out []string
	for key, n := range count {
		kind, stack, _ := strings.Cut(key, "\x00")
		out = append(out, fmt.Sprintf("%s opened by\n%s", plural(n, kind), stack))
	}
	slices.Sort(out)
	return out
}

// tensorsOn describes where the open tensors of a device were made, if they were traced.
func tensorsOn(device core.DeviceID) []string {
	count := make(map[string]int)
	for _, pc := range privateCore.OpenTensorsOn(device) {
		count["tensor\x00"+live.Format(pc)]++
	}
	return describe(count)
}
