// Package tensorfile reads and writes tensors in three file formats: .npy and .npz
// of NumPy, and .safetensors of Hugging Face. Files are mapped, and a tensor is
// the file's own bytes wherever the format allows: opening a file of many
// gigabytes costs no more than reading its header.
//
// # Reading
//
// [Open] maps a file, checks all that its headers say against its size, and lists
// the tensors. [File.Tensor] returns one of them, on the host and read-only. It is
// the file's memory, unless the data is compressed or does not suit the alignment
// of the element type; then it is an aligned copy ([Info.InPlace] tells). The
// mapping stays until the file and all its tensors are closed, in any order.
// [Parse] reads the same formats from memory.
//
// A mapping is the file, not a copy of its bytes: whoever overwrites the file in place
// changes the tensors, and whoever truncates it removes memory that they use. Where this
// package reads that memory, and where the host copies it for a device, the call or
// the copy's event then fails with core.ErrInvalid. Whatever else touches the missing
// pages ends the process (SIGBUS): a program's own access to the elements, unless
// it asks for [runtime/debug.SetPanicOnFault], and a driver's. Writers that replace a
// file by a rename, as [WriteFile] does, disturb no reader. The pages are protected: a
// write to them through an address, against [core.FlagReadOnly], ends the process too.
//
// Files are mapped on Unix. Elsewhere, and on the few file systems that cannot
// map, a file is read into memory whole.
//
// # What is checked, and what is not
//
// No file makes this package panic or allocate more than in proportion to the
// file's true size. What is malformed is refused with an [*core.Error] whose
// Backend is the format and whose Detail names the field: 'shape[1]', 'descr',
// 'data_offsets' of a tensor, the member of an archive. Values are not looked at:
// a bool may be stored as a byte other than 0 and 1. The checksum of a member of an
// .npz is verified where the member is inflated or copied. Where it is used in place
// it is verified only if [VerifyChecksums] asks for that, since the check reads all
// that a mapping need not read.
//
// # Formats
//
// npy, format versions 1.0, 2.0 and 3.0: a magic string, a Python dictionary as
// text, the elements. Column-major arrays become strides. Refused by name are
// element types that DLPack has not (strings, dates, objects, structures, long
// double), foreign byte order, and raw void: the types of ml_dtypes, such as
// bfloat16, are stored as '<V2' or '|V1' and cannot be told apart. Written is
// version 1.0, whose header always suffices, byte by byte as NumPy does.
//
// npz: a ZIP archive of npy members. The archive's end record and directory must be
// whole and agree, and each member must have the name that the directory gives it.
// Stored members are used in place, deflated ones are inflated when asked for. A sound
// member that is no tensor (of strings, say) keeps its place in the list with the
// reason. Stored members are written aligned, so that they can be used in place.
//
// safetensors: the length of a JSON header, the header, the elements without
// holes. Stricter than the reference implementation, as the format's text is:
// keys must not repeat, the header begins with '{', and a tensor has no keys but
// its three. Packed F4 and F6 elements are tensors of sub-byte elements.
//
// Sources: the docstring of numpy.lib.format and NEP 1 (numpy.org/neps), the
// section "Format" of the README of github.com/huggingface/safetensors with
// safetensors/src/tensor.rs for the limit of the header and the list of element
// types, APPNOTE.TXT of PKWARE for ZIP.
package tensorfile
