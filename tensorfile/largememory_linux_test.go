package tensorfile_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"hash/crc32"
	"math"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/tensorfile"
)

// A compressed tensor that the system has no memory for is an error.
func TestMemoryThatTheSystemRefuses(t *testing.T) {
	if !coretest.LimitMemory(t) {
		return
	}
	const elements = 16 << 30
	header := npy("{'descr': '|u1', 'fortran_order': False, 'shape': (17179869184,), }")
	var data bytes.Buffer
	w, err := flate.NewWriter(&data, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(header); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	data.Write(make([]byte, elements/1032)) // enough for what it claims to hold
	file := archive(t, packed{"x.npy", data.Bytes(), zip.Deflate, func(h *zip.FileHeader) {
		h.UncompressedSize64, h.CRC32 = uint64(len(header)+elements), crc32.ChecksumIEEE(nil)
	}})
	f := must[*tensorfile.File](t)(tensorfile.Parse(file, "x.npz", tensorfile.OpenOptions{InflateLimit: math.MaxInt64}))
	_, err = f.Tensor("x")
	checkError(t, err, tensorfile.NPZ, core.ErrOutOfMemory, "inflates to 17179869184 bytes")
}
