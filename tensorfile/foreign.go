package tensorfile

import (
	"bytes"
	"encoding/binary"

	"github.com/dlx-go/dlx/core"
)

// foreignBegins are the first bytes of files that people take for files of tensors, what such a file is, and what to do.
var foreignBegins = []struct{ begin, is string }{
	{"version https://git-lfs.github.com/spec/", "a pointer of Git LFS, not the file that it stands for: run \"git lfs pull\" in its repository"},
	{"GGUF", "a GGUF file, which dlx does not read: take the model's .safetensors files"},
	{"\x89HDF\r\n\x1a\n", "an HDF5 file, which dlx does not read: write its arrays with numpy.save or safetensors"},
	{"\x1f\x8b", "compressed by gzip: decompress it first"},
	{"\x28\xb5\x2f\xfd", "compressed by zstd: decompress it first"},
	{"\xfd7zXZ\x00", "compressed by xz: decompress it first"},
	{"BZh", "compressed by bzip2: decompress it first"},
	{npyMagic, "an array of NumPy: give it the extension .npy"},
	{zipLocalMark, "a ZIP archive: give one of NumPy the extension .npz; load one that torch.save wrote with PyTorch, and write its tensors with safetensors.torch.save_file"},
	{"\x80\x02", pickled}, {"\x80\x03", pickled}, {"\x80\x04", pickled}, {"\x80\x05", pickled},
	{"<!doctype", webPage}, {"<html", webPage}, {"<head", webPage},
	{"<?xml", "an XML document, such as the error of a server: fetch the file again"},
	{"{", "JSON: the index of a model has a name that ends in .safetensors.index.json; if it is the error of a server, fetch the file again"},
}

const (
	pickled = "a pickle of Python, which can run any program when it is read: load it with PyTorch or NumPy, and write its tensors with safetensors or numpy.save"
	webPage = "an HTML page, such as a server sends that wants a login: fetch the file again"
)

// foreign returns what a file is that does not begin as its format does, and what to do, or "" if that is not known.
func foreign(f Format, data []byte) string {
	switch f {
	case NPY:
		if bytes.HasPrefix(data, []byte(npyMagic)) {
			return ""
		}
	case NPZ:
		if bytes.HasPrefix(data, []byte(zipLocalMark)) || bytes.HasPrefix(data, []byte(zipEndMark)) {
			return ""
		}
	case Safetensors:
		if len(data) > lengthSize && binary.LittleEndian.Uint64(data) <= maxJSON && data[lengthSize] == '{' {
			return ""
		}
	}
	begin := bytes.ToLower(bytes.TrimLeft(data[:min(len(data), 256)], "\ufeff \t\r\n")) // of text
	for _, x := range foreignBegins {
		if bytes.HasPrefix(data, []byte(x.begin)) || x.begin[0] == '<' && bytes.HasPrefix(begin, []byte(x.begin)) {
			return x.is
		}
	}
	return ""
}

// refuseForeign returns ErrNotSupported for a file that is known to be another one than its name says.
func refuseForeign(f Format, data []byte) error {
	if is := foreign(f, data); is != "" {
		return core.Errorf(core.ErrNotSupported, string(f), "Open", "the file is %s", is)
	}
	return nil
}
