//go:build linux && cgo

package ptx

// The sizes by which cards access memory.
const (
	warpSize  = 32
	lineBytes = 128
	banks     = 32 // of shared memory, of 4 bytes each
)

// Transactions counts what a card makes of accesses that were traced: the lines of 128 bytes that each instruction of a
// warp touches in global memory, and the times that it has to access shared memory, which gives a word of 4 bytes of
// each bank at a time. Accesses of 8 and 16 bytes are made by a half and a quarter of a warp.
func Transactions(accesses []Access) (global, shared int) {
	type thread struct{ block, thread, line int }
	type part struct {
		block, first, line int // first: its first thread
		nth                int // time that the instruction is carried out
	}
	done := make(map[thread]int)
	lines := make(map[part]map[uint64]bool)
	words := make(map[part]*[banks]map[uint64]bool)
	for _, a := range accesses {
		t := thread{a.Block, a.Thread, a.Line}
		nth := done[t]
		done[t]++
		if !a.Shared {
			add(lines, part{a.Block, a.Thread / warpSize, a.Line, nth}, a.Address/lineBytes)
			continue
		}
		size := warpSize / max(1, a.Bytes/4)
		p := part{a.Block, a.Thread / size, a.Line, nth}
		if words[p] == nil {
			words[p] = new([banks]map[uint64]bool)
		}
		for w := a.Address / 4; w <= (a.Address+uint64(a.Bytes)-1)/4; w++ {
			bank := &words[p][w%banks]
			if *bank == nil {
				*bank = make(map[uint64]bool)
			}
			(*bank)[w] = true
		}
	}
	for _, l := range lines {
		global += len(l)
	}
	for _, w := range words {
		most := 0
		for _, bank := range w {
			most = max(most, len(bank))
		}
		shared += most
	}
	return global, shared
}

// add adds a value to the set of a key.
func add[K comparable](sets map[K]map[uint64]bool, key K, value uint64) {
	if sets[key] == nil {
		sets[key] = make(map[uint64]bool)
	}
	sets[key][value] = true
}
