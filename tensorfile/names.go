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
	slots   []int32 // by hash: one more than the number of an entry, or 0; at most half of them are used
}

// build makes the index of the entries. It returns the first name that an earlier entry has.
func (x *nameIndex) build() (repeated string, repeats bool) {
	size := 2
	for size < 2*len(x.entries) {
		size *= 2
	}
	x.seed, x.slots = maphash.MakeSeed(), make([]int32, size)
	for i := range x.entries {
		slot := x.slot(x.entries[i].Name)
		if x.slots[slot] != 0 {
			return x.entries[i].Name, true
		}
		x.slots[slot] = int32(i + 1)
	}
	return "", false
}

// slot returns the number of the slot that has the name, or of the unused one where it would be.
func (x *nameIndex) slot(name string) int {
	mask := len(x.slots) - 1
	slot := int(maphash.String(x.seed, name)) & mask
	for x.slots[slot] != 0 && x.entries[x.slots[slot]-1].Name != name {
		slot = (slot + 1) & mask
	}
	return slot
}

// find returns the entry with a name, nil if there is none.
func (x *nameIndex) find(name string) *entry {
	if len(x.slots) == 0 { // of a zero File
		return nil
	}
	i := x.slots[x.slot(name)]
	if i == 0 {
		return nil
	}
	return &x.entries[i-1]
}

// repeatedTensor returns the error for a file that has a tensor twice.
func repeatedTensor(name string, at fault) error {
	return at.errorf(core.ErrInvalid, "tensor %s is there twice", quote(name))
}
