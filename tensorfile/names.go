package tensorfile

import (
	"hash/maphash"

	"github.com/dlx-go/dlx/core"
)

// nameIndex finds the tensors of a file by their names. For many tensors it is made several times as fast as a map of Go,
// since it has only numbers: what it is asked for, it compares with the entries.
type nameIndex struct {
	entries []entry
	seed    maphash.Seed
	// By hash: one more than the number of an entry, or 0, below the upper half of the hash of its name, which tells most
	// names apart without a look at the entries. At most three quarters are used.
	slots []uint64
}

// build makes the index of the entries. It returns the first name that an earlier entry has.
func (x *nameIndex) build() (repeated string, repeats bool) {
	size := 2
	for 3*size < 4*len(x.entries) || size == len(x.entries) {
		size *= 2
	}
	x.seed, x.slots = maphash.MakeSeed(), make([]uint64, size)
	for i := range x.entries {
		slot, half := x.slot(x.entries[i].Name)
		if x.slots[slot] != 0 {
			return x.entries[i].Name, true
		}
		x.slots[slot] = half | uint64(i+1)
	}
	return "", false
}

// slot returns the number of the slot that has the name, or of the unused one where it would be, and the upper half of the
// name's hash.
func (x *nameIndex) slot(name string) (slot int, half uint64) {
	const lower = 1<<32 - 1
	hash := maphash.String(x.seed, name)
	half = hash &^ lower
	mask := len(x.slots) - 1
	slot = int(hash&lower) & mask
	for {
		v := x.slots[slot]
		if v == 0 || v&^lower == half && x.entries[v&lower-1].Name == name {
			return slot, half
		}
		slot = (slot + 1) & mask
	}
}

// find returns the entry with a name, nil if there is none.
func (x *nameIndex) find(name string) *entry {
	if len(x.slots) == 0 { // of a zero File
		return nil
	}
	slot, half := x.slot(name)
	if x.slots[slot] == 0 {
		return nil
	}
	return &x.entries[x.slots[slot]-half-1]
}

// repeatedTensor returns the error for a file that has a tensor twice.
func repeatedTensor(name string, at fault) error {
	return at.errorf(core.ErrInvalid, "tensor %s is there twice", quote(name))
}
