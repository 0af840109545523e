package move

import "testing"

func TestFirstDifferenceNamesTheElement(t *testing.T) {
	for _, c := range []struct {
		name      string
		want, got []byte
		width, n  int64
		element   int64
		differs   bool
	}{
		{"equal", []byte{1, 2}, []byte{1, 2}, 8, 2, 0, false},
		{"empty", nil, nil, 8, 0, 0, false},
		{"bytes", []byte{1, 2, 3}, []byte{1, 2, 4}, 8, 3, 2, true},
		{"the second byte of an element of 32 bits", make([]byte, 8), []byte{0, 0, 0, 0, 0, 1, 0, 0}, 32, 2, 1, true},
		{"the upper of two packed elements", []byte{0x21}, []byte{0x31}, 4, 2, 1, true},
		{"an element over two bytes", []byte{0, 0}, []byte{0, 8}, 6, 2, 1, true},
		{"bits behind the last element", []byte{0x21, 0x03}, []byte{0x21, 0xF3}, 4, 3, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			element, differs := firstDifference(c.want, c.got, c.width, c.n)
			if differs != c.differs || differs && element != c.element {
				t.Errorf("element %d, differs %v; want %d, %v", element, differs, c.element, c.differs)
			}
		})
	}
}
