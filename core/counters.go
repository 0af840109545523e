package core

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// deviceCounters are the counters of one place of memory, behind [ReadMetrics]. They are never removed.
type deviceCounters struct {
	id DeviceID

	allocs, allocated, frees, freed, failed atomic.Int64
	opens, closes                           atomic.Int64
	waits, waited                           atomic.Int64 // waited in nanoseconds

	to atomic.Pointer[[]*moveCounters] // moves from here, one for each destination; replaced with allCountersOf.mu held
}

// moveCounters are the counters of moves from one place to another, by mechanism.
type moveCounters struct {
	to    DeviceID
	moves [len(mechanisms)]atomic.Int64
	bytes [len(mechanisms)]atomic.Int64
}

// mechanisms are the names of the mechanisms of package exchange, by their numbers, and then those of tensors that come
// from files and go to them.
var mechanisms = [...]string{"none", "alias", "map", "peer", "direct", "staged", loadedFile: "load", savedFile: "save"}

// The indexes of what files take part in.
const loadedFile, savedFile = 6, 7

// fewTypes and fewIndexes are how many places have a direct way to their counters.
const fewTypes, fewIndexes = 64, 16

// allCountersOf finds the counters of a place: those of usual places by one load, all others by the map.
var allCountersOf struct {
	few  [fewTypes][fewIndexes]atomic.Pointer[deviceCounters]
	mu   sync.Mutex
	byID map[DeviceID]*deviceCounters
}

// countersOf returns the counters of a place.
func countersOf(id DeviceID) *deviceCounters {
	if uint32(id.Type) < fewTypes && uint32(id.Index) < fewIndexes {
		if c := allCountersOf.few[id.Type][id.Index].Load(); c != nil {
			return c
		}
	}
	return findCounters(id)
}

// findCounters is countersOf by the map. It makes what is not there.
func findCounters(id DeviceID) *deviceCounters {
	all := &allCountersOf
	all.mu.Lock()
	defer all.mu.Unlock()
	c := all.byID[id]
	if c != nil {
		return c
	}
	if all.byID == nil {
		all.byID = make(map[DeviceID]*deviceCounters)
	}
	c = &deviceCounters{id: id}
	all.byID[id] = c
	if uint32(id.Type) < fewTypes && uint32(id.Index) < fewIndexes {
		all.few[id.Type][id.Index].Store(c)
	}
	return c
}

// allCounters returns the counters of all places.
func allCounters() []*deviceCounters {
	allCountersOf.mu.Lock()
	defer allCountersOf.mu.Unlock()
	list := make([]*deviceCounters, 0, len(allCountersOf.byID))
	for _, c := range allCountersOf.byID {
		list = append(list, c)
	}
	return list
}

// movesTo returns the counters of moves from a place to another one.
func (c *deviceCounters) movesTo(to DeviceID) *moveCounters {
	if list := c.to.Load(); list != nil {
		for _, m := range *list {
			if m.to == to {
				return m
			}
		}
	}
	return c.addMovesTo(to)
}

func (c *deviceCounters) addMovesTo(to DeviceID) *moveCounters {
	allCountersOf.mu.Lock()
	defer allCountersOf.mu.Unlock()
	var list []*moveCounters
	if old := c.to.Load(); old != nil {
		list = *old
		if i := slices.IndexFunc(list, func(m *moveCounters) bool { return m.to == to }); i >= 0 {
			return list[i]
		}
	}
	m := &moveCounters{to: to}
	list = append(slices.Clip(list), m)
	c.to.Store(&list)
	return m
}

// appendMoves appends the moves from a place.
func (c *deviceCounters) appendMoves(dst []MoveMetrics) []MoveMetrics {
	list := c.to.Load()
	if list == nil {
		return dst
	}
	for _, m := range *list {
		for i, name := range mechanisms {
			if n := m.moves[i].Load(); n > 0 {
				dst = append(dst, MoveMetrics{From: c.id, To: m.to, Mechanism: name, Moves: n, Bytes: m.bytes[i].Load()})
			}
		}
	}
	return dst
}

// moveErrors counts the moves that failed, by the sentinel that the error wraps. The last one counts all others.
var moveErrors = [...]struct {
	err   error
	name  string
	count atomic.Int64
}{
	// The end of the context comes first: a move may fail in several ways because of it.
	{err: context.Canceled, name: "canceled"},
	{err: context.DeadlineExceeded, name: "deadline_exceeded"},
	{err: ErrDeviceLost, name: "device_lost"},
	{err: ErrOutOfMemory, name: "out_of_memory"},
	{err: ErrClosed, name: "closed"},
	{err: ErrVersion, name: "incompatible_version"},
	{err: ErrLayout, name: "bad_layout"},
	{err: ErrDType, name: "bad_element_type"},
	{err: ErrReadOnly, name: "read_only"},
	{err: ErrDevice, name: "wrong_device"},
	{err: ErrInvalid, name: "invalid_argument"},
	{err: ErrExists, name: "already_exists"},
	{err: ErrNotSupported, name: "not_supported"},
	{name: "other"},
}

// shareMetrics reads the counts of package share; nil if the program does not have it.
var shareMetrics atomic.Pointer[func() ShareMetrics]

// ReadShareMetrics makes ReadMetrics call read for the counts of package share.
func (privateCore) ReadShareMetrics(read func() ShareMetrics) { shareMetrics.Store(&read) }

// MechanismNames returns the names of the mechanisms of package exchange, of which a move has the index.
func (privateCore) MechanismNames() []string { return mechanisms[:loadedFile] }

// Moved counts a move. mechanism is an index of MechanismNames.
func (privateCore) Moved(from, to DeviceID, mechanism int, bytes int64) {
	countMoves(from, to, mechanism, 1, bytes)
}

// Loaded counts tensors that came from files to a place.
func (privateCore) Loaded(to DeviceID, tensors, bytes int64) {
	countMoves(CPU, to, loadedFile, tensors, bytes)
}

// Saved counts tensors that went from a place to files.
func (privateCore) Saved(from DeviceID, tensors, bytes int64) {
	countMoves(from, CPU, savedFile, tensors, bytes)
}

func countMoves(from, to DeviceID, mechanism int, tensors, bytes int64) {
	m := countersOf(from).movesTo(to)
	m.moves[mechanism].Add(tensors)
	m.bytes[mechanism].Add(bytes)
}

// MoveFailed counts a move that failed with err.
func (privateCore) MoveFailed(err error) {
	last := len(moveErrors) - 1
	for i := range moveErrors[:last] {
		if errors.Is(err, moveErrors[i].err) {
			moveErrors[i].count.Add(1)
			return
		}
	}
	moveErrors[last].count.Add(1)
}

// Opened counts memory of others that was opened on a device.
func (privateCore) Opened(on DeviceID) { countersOf(on).opens.Add(1) }

// Closed counts memory that was closed again.
func (privateCore) Closed(on DeviceID) { countersOf(on).closes.Add(1) }

// WaitOnHost waits for e, which is the event of work on b, and counts that as a wait of the host.
func (privateCore) WaitOnHost(ctx context.Context, b *Buffer, e Event) error {
	if b == nil {
		return e.Wait(ctx)
	}
	return waitOnHost(ctx, b.mem.ID, e)
}

// waitOnHost waits for e, which is the event of work on memory of a place. If e is not done, it counts the wait.
func waitOnHost(ctx context.Context, id DeviceID, e Event) error {
	if isDone(e) {
		return e.Wait(ctx)
	}
	start := time.Now()
	err := e.Wait(ctx)
	c := countersOf(id)
	c.waits.Add(1)
	c.waited.Add(int64(time.Since(start)))
	return err
}

// liveCount is how many tensors of a place are open, and on how many buffers they lie.
type liveCount struct{ tensors, buffers int64 }

// countTensors counts the open tensors by looking at all of them, so that making and closing a tensor counts
// nothing.
func countTensors() map[DeviceID]*liveCount {
	live := make(map[DeviceID]*liveCount)
	seen := make(map[*Buffer]struct{})
	for _, s := range openChunks() {
		for i := range s {
			b := s[i].buf.Load()
			if b == nil {
				continue
			}
			n := live[b.mem.ID]
			if n == nil {
				n = new(liveCount)
				live[b.mem.ID] = n
			}
			n.tensors++
			if _, ok := seen[b]; !ok {
				seen[b] = struct{}{}
				n.buffers++
			}
		}
	}
	return live
}
