package share

// slabSize is how many values are allocated at once.
const slabSize = 16

// slab allocates values of one type, several at once. The collector frees them together, when
// nothing refers to any of them. The owner guards it.
type slab[T any] struct{ rest []T }

// take returns a value that nobody has had before.
func (s *slab[T]) take() *T {
	if len(s.rest) == 0 {
		s.rest = make([]T, slabSize)
	}
	x := &s.rest[0]
	s.rest = s.rest[1:]
	return x
}
