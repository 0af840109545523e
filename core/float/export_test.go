package float

// Vectors tells whether the conversions use vector instructions.
func Vectors() bool { return vectors }

// What takes the place of the vector instructions where the processor has none.
var (
	PortableToFloat16    = portable(toFloat16)
	PortableFromFloat16  = portable(fromFloat16)
	PortableToBFloat16   = portable(toBFloat16)
	PortableFromBFloat16 = portable(fromBFloat16)
)

func portable[To, From any](f func([]To, []From)) func([]To, []From) int {
	return func(to []To, from []From) int {
		f(to, from)
		return len(from)
	}
}

const Longest = longest
