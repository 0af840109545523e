// Package tensorfile reads and writes tensors in three file formats: .npy and .npz of
// NumPy, and .safetensors of Hugging Face. It maps files into memory. A tensor uses the
// bytes of the file in place if the format allows it, so that opening a file of many
// gigabytes only reads its headers.
//
// # Reading
//
// [Open] maps a file, checks its headers against its size, and lists its tensors.
// [File.Tensor] returns one of them as a read-only tensor on the host. It is in place,
// which means that its memory is that of the file, unless the data is compressed, not
// aligned for the element type, or in the other byte order. In these cases it is an aligned copy. [Info.InPlace]
// reports which it is. The file stays mapped until the file and all its tensors are closed,
// in any order. [Parse] reads the same formats from memory.
//
// A mapping is the file itself, not a copy of it. If a program overwrites the file in
// place, the tensors change. If a program truncates the file, memory that the tensors use
// is gone:
//
//   - If this package reads that memory, the call returns core.ErrInvalid. If the host
//     copies it for a device, the call or the event of the copy returns core.ErrInvalid.
//   - Any other access ends the process with SIGBUS. This includes the program's own
//     access to the elements, unless it uses [runtime/debug.SetPanicOnFault], and accesses
//     by a driver.
//
// A program that replaces a file by renaming another one, as [WriteFile] does, does not
// affect readers. The mapped pages are read-only: a write to them through an address ends
// the process, too. Tensors in place say so by core.Memory.ReadOnly. Most devices cannot map
// such memory, since their drivers pin pages to write to them: a move to a device copies it.
//
// Files are mapped on Unix. On other systems, and on the few file systems that cannot map,
// the whole file is read into memory.
//
// # Loading onto devices
//
// [Load] takes the tensors of a file, of an index of several files or of a folder to a device, and [Save] writes tensors of
// any device to files. Load reads past the page cache with large reads of several threads, or through the mapping, and the
// device copies from buffers of bounded size while the next pieces are read. A device that can read files itself may do that
// instead ([ReadCUFile]). A file that is shortened or written while it is loaded is an error.
//
// # Streams
//
// [Write] writes the content of a file to a pipe or a connection, with tensors of any device, and [Read] takes it to a device
// at the other end. Read stops after the last byte of the content, so that several of them can follow each other. Neither
// holds more than buffers of bounded size in host memory.
//
// # What is checked
//
// No file makes this package panic, or allocate more memory than in proportion to the size
// of the file. A message that [Read] reads cannot have it allocate more than ReadOptions.MaxBytes. The error for a malformed file is an [*core.Error]. Its Backend is the format,
// and its Detail names the field, such as 'shape[1]', 'descr' or 'data_offsets', and the
// tensor or the member of the archive. The values of elements are not checked: a bool may be
// stored as a byte other than 0 and 1.
//
// The checksum of a member of an .npz is verified when the member is inflated or copied. If
// the member is used in place, its checksum is verified only with VerifyChecksums of [OpenOptions], because
// that reads all its bytes.
//
// # Formats
//
// An .npy file (format versions 1.0, 2.0 and 3.0) has a magic string, the text of a Python
// dictionary, and the elements. An array in column-major order becomes a tensor with
// strides. An array in the other byte order becomes a copy in that of this machine
// ([Info.Swapped]). Arrays of element types that DLPack lacks (strings, dates, objects,
// structures, long double) are not supported, and the error says why. NumPy stores the types
// of ml_dtypes, such as bfloat16, as raw void ('<V2' or '|V1'), so that the file does not say
// which type it is: VoidAs of [OpenOptions] names it. A descr that is the name of the type, such as
// 'bfloat16', is read, too. The package writes version 1.0, byte by byte as NumPy does.
//
// An .npz file is a ZIP archive with an .npy file in each member. The end record and the
// central directory must be complete and consistent, and each local header must have the
// name that the central directory gives. Stored members are used in place; deflated members
// are inflated by each call of [File.Tensor]. A valid member that cannot be a tensor, such
// as an array of strings, is listed with the reason. The package aligns stored members when
// it writes them, so that they can be used in place.
//
// A .safetensors file has the length of a JSON header, the header, and the elements without
// gaps. The package follows the specification, which is stricter than the reference
// implementation: keys must not repeat, the header must begin with '{', and a tensor has
// exactly three keys. Packed elements of the types F4 and F6 become tensors of sub-byte
// elements.
//
// Sources: the docstring of numpy.lib.format and NEP 1 (numpy.org/neps), the
// section "Format" of the README of github.com/huggingface/safetensors with
// safetensors/src/tensor.rs for the limit of the header and the list of element
// types, APPNOTE.TXT of PKWARE for ZIP.
package tensorfile
