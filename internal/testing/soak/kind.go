package soak

// Kind is where memory came from.
type Kind uint8

// The kinds.
const (
	GoBytes       Kind = iota // an object of Go, of any size and alignment
	GoNumbers                 // a slice of float32, by core.FromSlice
	GoPage                    // part of a page that other tensors have parts of
	Malloc                    // C's allocator
	File                      // a mapped file
	FileReadOnly              // a file that is mapped for reading
	Foreign                   // another library's, by DLPack 1.x
	ForeignLegacy             // another library's, by DLPack 0.x
	MemFD                     // a memfd that the program has mapped, and may map again
	Plain                     // a device's own
	Visible                   // a device's, asked for with HostVisible
	Exportable                // a device's, asked for with Export
	Pinned                    // a card's host memory
	Managed                   // a card's managed memory
	Drawn                     // a buffer of the program's own context of OpenGL
	kinds
)

var kindNames = [kinds]string{
	"go", "go_numbers", "go_page", "malloc", "file", "file_read_only", "foreign", "foreign_legacy", "memfd",
	"plain", "visible", "exportable", "pinned", "managed", "drawn",
}

// String gives the kind's name.
func (k Kind) String() string { return kindNames[k] }

// ofDevice reports whether a device allocates memory of the kind.
func (k Kind) ofDevice() bool { return k >= Plain }
