package machinecode

import (
	"encoding/binary"
	"testing"
)

// load is a load of width code w that frees a scoreboard; wait waits for one.
func load(w, board uint64) instruction { return instruction{7<<12 | loadGlobal, w<<9 | board<<46} }

func wait(board uint64) instruction { return instruction{7 << 12, 7<<46 | 1<<board<<52} }

func TestCount(t *testing.T) {
	jump := instruction{7<<12 | branch, 7 << 46}
	conditional := instruction{branch, 7 << 46}
	for _, c := range []struct {
		name         string
		code         []instruction
		loads, bytes int
	}{
		{"nothing", nil, 0, 0},
		{"one after the other", []instruction{load(4, 0), wait(0), load(4, 0), wait(0)}, 1, 4},
		{"two on a scoreboard", []instruction{load(4, 0), load(4, 0), wait(0)}, 2, 4},
		{"two on two", []instruction{load(5, 0), load(5, 1), wait(0), wait(1)}, 2, 8},
		{"one left while the next starts", []instruction{load(4, 0), load(4, 1), wait(0), load(4, 2)}, 2, 4},
		{"a wait for another", []instruction{load(4, 0), wait(3), load(4, 1)}, 2, 4},
		{"the way past a jump", []instruction{load(4, 0), load(4, 0), jump, load(4, 1), load(4, 1)}, 2, 4},
		{"a jump that may not be taken", []instruction{load(4, 0), conditional, load(4, 1)}, 2, 4},
		{"more bytes in fewer loads", []instruction{load(0, 0), load(0, 0), jump, load(6, 0)}, 1, 16},
		{"as many bytes in fewer loads", []instruction{load(2, 0), load(2, 0), jump, load(4, 0)}, 1, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			var code []byte
			for _, i := range c.code {
				code = binary.LittleEndian.AppendUint64(code, i.low)
				code = binary.LittleEndian.AppendUint64(code, i.high)
			}
			if k := count(code); k.Loads != c.loads || k.LoadBytes != c.bytes || k.Instructions != len(c.code) {
				t.Errorf("%+v, want %d loads of %d bytes", k, c.loads, c.bytes)
			}
		})
	}
}
