package share

import (
	"runtime"
	"testing"
)

// Waits that have looked in vain sleep at once, but for one of some, and look again when that one has found something.
func TestSpinsInVain(t *testing.T) {
	if before := runtime.GOMAXPROCS(0); before == 1 { // then no wait looks
		runtime.GOMAXPROCS(2)
		defer runtime.GOMAXPROCS(before)
	}
	var p spins
	looks := func() bool {
		w := p.newSpinner()
		looking := w.goesOn()
		w.end(!looking)
		return looking
	}
	for range vainAtMost {
		if !looks() {
			t.Fatal("a wait does not look")
		}
	}
	looked := 0
	for range 10 * looksAgain {
		if looks() {
			looked++
		}
	}
	if looked != 10 {
		t.Errorf("%d of %d waits have looked, want 10", looked, 10*looksAgain)
	}
	for range looksAgain {
		w := p.newSpinner()
		w.end(true)
	}
	if !looks() {
		t.Error("a wait does not look, although an earlier one has found what it waited for")
	}
}
