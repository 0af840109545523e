package spread

import (
	"sync"
	"testing"
)

func TestGoroutinesDiffer(t *testing.T) {
	const goroutines = 64
	var hashes [goroutines]uint32
	var made, ended sync.WaitGroup
	made.Add(goroutines)
	for i := range hashes {
		ended.Go(func() {
			hashes[i] = Hash()
			made.Done()
			made.Wait() // a goroutine that ended would leave its stack to the next one
		})
	}
	ended.Wait()
	for _, shift := range []int{16, 29} { // the bits that packages use
		used := make(map[uint32]bool)
		for _, h := range hashes {
			used[h>>shift%8] = true
		}
		if len(used) < 5 {
			t.Errorf("%d goroutines use %d of 8 shards by the bits from %d on", goroutines, len(used), shift)
		}
	}
}
