package half

// Vectors tells whether the conversions use vector instructions.
func Vectors() bool { return vectors }

// What takes the place of the vector instructions where the processor has none.
var (
	PortableToFloat16    = toFloat16
	PortableFromFloat16  = fromFloat16
	PortableToBFloat16   = toBFloat16
	PortableFromBFloat16 = fromBFloat16
)

const Longest = longest
